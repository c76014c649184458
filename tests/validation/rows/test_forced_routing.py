"""Rows of benchmarks that force how tokens choose experts."""

from __future__ import annotations

import pytest

from meshwright.cost.routing import reached_blocks, routed_experts
from meshwright.validation.rows.reading import read_case
from tables import shipped


@pytest.mark.parametrize("name", ["nebius-002", "torchtitan-pr-056"])
def test_torchtitans_round_robin_sends_a_token_to_experts_of_one_rank(name: str) -> None:
    (row,) = (row for row in shipped() if row["id"] == name)
    case = read_case(row)
    kind = next(kind for kind in case.inputs.model.layer_kinds if kind.is_moe)
    experts = routed_experts(kind)
    chosen = {expert * case.plan.ep // experts.count for expert in range(experts.active)}
    assert len(chosen) == 1
    assert float(reached_blocks(experts, case.plan.ep)) == pytest.approx(1)

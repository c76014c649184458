"""Fused dispatchers that take whole sequences from every tensor-parallel rank."""

from __future__ import annotations

import pytest

from meshwright.cost.comms.experts import expert_exchanges
from meshwright.cost.compute.experts import expert_shard
from meshwright.cost.compute.layer import layer_time
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from strategies import mixture, question

SHARED = Plan(tp=2, sp=True, dp=8, ep=8, zero=2)
"""Two tensor-parallel ranks share the tokens of a sequence."""


def _asked(runtime: str, plan: Plan, dispatcher: str) -> tuple[float, float]:
    """Rows of the busiest rank's experts, and bytes that one rank sends in a dispatch."""
    inputs = question(mixture(), "2x8:h100", runtime, global_batch=8)
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, [f"dispatcher={dispatcher}"]))
    kind = next(kind for kind in inputs.model.layer_kinds if kind.is_moe)
    sent = expert_exchanges(plan, inputs, kind, layer_time(plan, inputs, kind))[0].messages[0]
    return float(expert_shard(plan, inputs, kind).rows), float(sent.bytes)


@pytest.mark.parametrize(("runtime", "times"), [("torchtitan@0.2.2", 2), ("torchtitan", 1)])
def test_experts_compute_what_every_tensor_parallel_rank_sends(runtime: str, times: int) -> None:
    parted, taken = (_asked(runtime, SHARED, dispatcher) for dispatcher in ("all_to_all", "fused"))
    assert taken[0] == times * parted[0]


def test_a_dispatch_of_whole_sequences_sends_them_once_for_every_tensor_parallel_rank() -> None:
    whole, parted = (_asked(runtime, SHARED, "fused") for runtime in ("torchtitan@0.2.2", "torchtitan"))
    assert whole[1] == pytest.approx(2 * parted[1])


def test_without_tensor_parallelism_a_rank_has_whole_sequences_anyway() -> None:
    alone = Plan(dp=16, ep=8, zero=2)
    assert _asked("torchtitan@0.2.2", alone, "fused") == _asked("torchtitan", alone, "fused")

"""Rows of torchtitan whose source leaves a setting to its default, or names it twice."""

from __future__ import annotations

import pytest

from meshwright.validation.rows.reading import read_case
from meshwright.validation.rows.table import normalised
from tables import shipped

SINCE_APRIL_2025 = ["torchtitan-pr-056", "torchtitan-pr-057", "nebius-001", "nebius-002"]
"""After pull request 1073, which made a pipeline's micro-batch one sequence unless it is named."""


def _row(name: str) -> dict[str, str]:
    (row,) = (row for row in shipped() if row["id"] == name)
    return row


@pytest.mark.parametrize("name", SINCE_APRIL_2025)
def test_a_pipeline_has_a_micro_batch_for_every_sequence(name: str) -> None:
    row = normalised(_row(name))
    case = read_case(row)
    assert case.plan.micro_batch == 1
    assert case.plan.num_microbatches == int(row["global_batch_size"]) // int(row["dp"])


@pytest.mark.parametrize("name", ["torchtitan-pr-056", "torchtitan-pr-057"])
def test_of_components_to_compile_that_are_named_twice_the_last_one_counts(name: str) -> None:
    runtime = read_case(_row(name)).inputs.runtime
    assert runtime.kernels.cross_entropy == "compiled"
    assert not runtime.activations.fused_activation

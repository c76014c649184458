"""Expert tables: the parts of layers with experts, and the plan with other expert axes, for screens and memos."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.answers.document.blocks import Table
from meshwright.answers.experts.degrees import expert_degrees, expert_degrees_table
from meshwright.answers.experts.parts import expert_parts, expert_parts_table
from meshwright.cost.estimate import Estimate
from meshwright.specs.inputs import Inputs


def expert_tables(estimate: Estimate, inputs: Inputs) -> Iterator[Table]:
    """What the parts of layers with experts take, and the plan with other expert axes; none for a model without."""
    for layers in expert_parts(estimate, inputs):
        yield expert_parts_table(layers, estimate)
    if degrees := expert_degrees(estimate, inputs):
        yield expert_degrees_table(degrees, estimate.plan)

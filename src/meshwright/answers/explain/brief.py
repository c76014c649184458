"""Explain brief: one plan on one screen of 40 lines; `--more` prints the whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.brief import Blocks, asked_lines, legend_lines, part_lines
from meshwright.answers.document.blocks import Lines
from meshwright.answers.explain.alternatives import knobs_section, neighbours, neighbours_section
from meshwright.answers.explain.table import explain_lines
from meshwright.answers.explain.varied_plan import variation_section
from meshwright.answers.unfit.rescue import rescue
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.search.changes.sensitivity import sensitivity
from meshwright.search.changes.variation import Variation
from meshwright.search.find import SearchResult
from meshwright.specs.inputs import Inputs


class ExplainLength(NamedTuple):
    """How much an answer of `explain` shows beside its plan."""

    others: int = 2
    changes: int = 5
    legend: bool = True
    parts: bool = True
    """Where memory and time go; else where memory goes of a plan that is not safe."""


EXPLAIN_LENGTHS = (
    ExplainLength(),
    *(ExplainLength(*each, legend=False) for each in ((2, 5), (1, 5), (0, 5), (0, 3))),
    *(ExplainLength(0, changes, legend=False, parts=False) for changes in (3, 1, 0)),
)
"""The longest first."""


def explain_briefs(
    estimate: Estimate,
    inputs: Inputs,
    near: SearchResult | None = None,
    variation: Variation | None = None,
    *,
    of_file: bool = False,
) -> Iterator[Blocks]:
    """Ever shorter answers: the plan with its verdict, where memory and time go, the best other plans and the changes
    that gain most.

    near: the answer of a search, for the best other plans; variation: of a saved plan, which this one is; of_file: as
    for `explain_document`.
    """
    priced, (memory, time) = sensitivity(estimate, inputs), part_lines(estimate)
    rescued, plan = rescue(estimate, priced, near), explain_lines(estimate, inputs, of_file=of_file)
    more = (
        "--more prints memory and time in full, stages, placement, other plans, every change and all "
        f"{len(assumptions(inputs))} assumptions."
    )

    def brief(length: ExplainLength) -> Blocks:
        others = near is not None and neighbours(near, estimate) and length.others
        parts = (memory, time) if length.parts else (memory,) * (estimate.verdict != Verdict.SAFE)
        return (
            asked_lines(inputs),
            plan,
            *(variation_section(estimate, variation) if variation else ()),
            Lines((*parts, *legend_lines(estimate, length.legend))),
            *(neighbours_section(estimate, near, shown=length.others, most=1) if others else ()),
            *knobs_section(estimate, inputs, priced, rescued, shown=length.changes),
            Lines((more,)),
        )

    return map(brief, EXPLAIN_LENGTHS)


def explain_stopped(estimate: Estimate, inputs: Inputs, *, of_file: bool = False) -> Blocks:
    """The same without other plans and changes, which were not looked at."""
    return asked_lines(inputs), explain_lines(estimate, inputs, of_file=of_file), Lines(part_lines(estimate))

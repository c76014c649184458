"""Change one knob: every single change of a plan, with what it gains and what it costs."""

from __future__ import annotations

from typing import Any

from meshwright.answers.document.blocks import Block, Paragraph, Table
from meshwright.answers.records import priced_plan
from meshwright.answers.screen import verdict_cell
from meshwright.cost.estimate import Estimate
from meshwright.search.sensitivity import PricedChange, Sensitivity, cheapest_that_fit
from meshwright.units import GIB, format_seconds

MOST_REMEDIES = 3
"""Changes with which a plan fits that are named."""


def knobs_section(estimate: Estimate, sensitivity: Sensitivity) -> tuple[Block, ...]:
    """Every single change, what fits first, the fastest first; of a plan that does not fit, what would make it fit."""
    rows = tuple(_row(each, estimate) for each in sensitivity.changes)
    note = f"Left out: {sensitivity.illegal} that are not legal, {sensitivity.idle} that change nothing."
    columns = ("change", "step", "gain", "GiB", "more", "verdict")
    return (*_remedies(estimate, sensitivity), Table(columns, rows, "lrrrrw", "Change one knob", note))


def knobs_entry(sensitivity: Sensitivity) -> dict[str, Any]:
    """The same as it stands in the plan file of `explain`."""
    changes = [{"knob": each.knob, "change": each.change, **priced_plan(each.estimate)} for each in sensitivity.changes]
    return {"changes": changes, "illegal": sensitivity.illegal, "idle": sensitivity.idle}


def _row(each: PricedChange, estimate: Estimate) -> tuple[str, ...]:
    after = each.estimate
    gain, more = 1 - after.step_time_s / estimate.step_time_s, after.memory.device - estimate.memory.device
    return (
        each.change,
        format_seconds(after.step_time_s),
        f"{gain:+.1%}",
        f"{after.memory.device / GIB:.1f}",
        f"{more / GIB:+.1f}",
        verdict_cell(after.verdict),
    )


def _remedies(estimate: Estimate, sensitivity: Sensitivity) -> list[Block]:
    if estimate.verdict.fits:
        return []
    fitting = cheapest_that_fit(sensitivity)
    if not fitting:
        return [Paragraph("**No single change makes it fit.**")]
    named = (f"{each.change} ({format_seconds(each.estimate.step_time_s)} a step)" for each in fitting[:MOST_REMEDIES])
    return [Paragraph(f"**What would make it fit, the cheapest first: {'; '.join(named)}.**")]

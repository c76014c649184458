"""Change one knob: every single change of a plan, with what it gains and what it costs."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.answers.screen import STYLES
from meshwright.cost.estimate import Estimate
from meshwright.search.sensitivity import PricedChange, Sensitivity, cheapest_that_fit
from meshwright.units import GIB, format_seconds

MOST_RESCUES = 3
"""Changes with which a plan fits that are named."""


def knobs_section(estimate: Estimate, sensitivity: Sensitivity) -> RenderableType:
    """Every single change, what fits first, the fastest first; of a plan that does not fit, what would make it fit."""
    table = Table(title="Change one knob", title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column("change", overflow="fold")
    for name in ("step", "gain", "GiB", "more"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for each in sensitivity.changes:
        table.add_row(*_row(each, estimate))
    left_out = f"Left out: {sensitivity.illegal} that are not legal, {sensitivity.idle} that change nothing."
    return Group(*_rescues(estimate, sensitivity), table, Text(left_out, style="dim"))


def knobs_entry(sensitivity: Sensitivity) -> dict[str, Any]:
    """The same as it stands in the plan file of `explain`."""
    changes = [
        {
            "knob": each.knob,
            "change": each.change,
            "plan": each.estimate.plan.to_dict(),
            "step_time_s": each.estimate.step_time_s,
            "device_bytes": each.estimate.memory.device,
            "verdict": str(each.estimate.verdict),
        }
        for each in sensitivity.changes
    ]
    return {"changes": changes, "illegal": sensitivity.illegal, "idle": sensitivity.idle}


def _row(each: PricedChange, estimate: Estimate) -> tuple[str | Text, ...]:
    after = each.estimate
    gain, more = 1 - after.step_time_s / estimate.step_time_s, after.memory.device - estimate.memory.device
    return (
        each.change,
        format_seconds(after.step_time_s),
        f"{gain:+.1%}",
        f"{after.memory.device / GIB:.1f}",
        f"{more / GIB:+.1f}",
        Text(str(after.verdict), style=STYLES[after.verdict]),
    )


def _rescues(estimate: Estimate, sensitivity: Sensitivity) -> list[RenderableType]:
    if estimate.verdict.fits:
        return []
    fitting = cheapest_that_fit(sensitivity)
    if not fitting:
        return [Text("No single change makes it fit.", style="bold"), ""]
    named = (f"{each.change} ({format_seconds(each.estimate.step_time_s)} a step)" for each in fitting[:MOST_RESCUES])
    return [Text(f"What would make it fit, the cheapest first: {'; '.join(named)}.", style="bold"), ""]

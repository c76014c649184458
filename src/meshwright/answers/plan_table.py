"""The plan screen: an answer that a person reads in ten seconds."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.answers.assumptions import search_assumptions
from meshwright.answers.screen import STYLES, assumption_list, headline, memory_table, time_table, verdict_line
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.device import Verdict
from meshwright.search.find import Found
from meshwright.search.rank import why_lost
from meshwright.units import GIB, format_seconds


def plan_screen(found: Found) -> RenderableType:
    """Inputs, the best plan with its verdict, the runners-up, memory and time of the best, and the assumptions."""
    best, inputs = found.best[0], found.inputs
    title = Text("Best plan: ").append(str(best.plan), style="bold")
    return Group(
        headline(inputs),
        "",
        title,
        verdict_line(best, inputs),
        "",
        ranking_table(found.best, best),
        *_other_splits(found),
        *_faster_at_risk(found),
        "",
        memory_table(best, inputs),
        "",
        time_table(best),
        "",
        search_line(found),
        "",
        assumption_list(search_assumptions(found)),
    )


def ranking_table(ranked: Sequence[Estimate], best: Estimate) -> Table:
    """Plans, best first, and why each lost to the best."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right")
    table.add_column("plan", overflow="fold")
    table.add_column("step", justify="right", no_wrap=True)
    table.add_column("MFU", justify="right", no_wrap=True)
    table.add_column("GiB", justify="right", no_wrap=True)
    table.add_column("against the best", overflow="fold")
    for rank, estimate in enumerate(ranked, start=1):
        verdict = "" if estimate.verdict == Verdict.SAFE else f"{estimate.verdict}: "
        table.add_row(
            str(rank),
            str(estimate.plan),
            format_seconds(estimate.step_time_s),
            f"{estimate.mfu:.1%}",
            Text(f"{estimate.memory.device / GIB:.1f}", style=STYLES[estimate.verdict]),
            verdict + (why_lost(estimate, best) if estimate is not best else "the best"),
        )
    return table


def search_line(found: Found) -> Text:
    """How many plans were considered, refused, too large and fitting."""
    refused = ", ".join(f"{rule} {count}" for rule, count in found.refused.items() if count)
    text = Text(f"{found.considered} plans considered, {found.legal} legal, {found.fitting} fit, ")
    text.append(f"in {format_seconds(found.elapsed_s)}")
    return text.append(f"\nRefused by {found.inputs.runtime.id}: {refused}" if refused else "")


def _other_splits(found: Found) -> list[RenderableType]:
    if not found.other_splits:
        return []
    return ["", Text("The best of other splits", style="bold"), ranking_table(found.other_splits, found.best[0])]


def _faster_at_risk(found: Found) -> list[RenderableType]:
    best, risky = found.best[0], found.at_risk
    if risky is None or best.verdict != Verdict.SAFE or risky.step_time_s >= best.step_time_s:
        return []
    return ["", Text(f"Not recommended: {risky.plan} is {why_lost(risky, best)}", style="yellow")]

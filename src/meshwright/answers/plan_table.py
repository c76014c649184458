"""The plan screen: an answer that a person reads in ten seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.answers.assumptions import assumptions
from meshwright.answers.screen import STYLES, assumption_list, headline, memory_table, time_table, verdict_line
from meshwright.answers.step_parts import why_lost
from meshwright.answers.uncertainty import step_time_line
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.search.find import SearchResult
from meshwright.units import GIB, format_seconds

INDISTINGUISHABLE = 0.005
"""Step times that differ by less are the same to anybody who measures."""
LEANER = 0.05
"""How much less memory, as a share, a plan needs to stand below another one on the front."""
LONG_SEQUENCE = 32768


def plan_screen(found: SearchResult, front: Sequence[Estimate] = ()) -> RenderableType:
    """Inputs, the best plan with its verdict, the runners-up, memory and time of the best, and the assumptions.

    front: the plans that no other beats in both time and memory.
    """
    best, inputs = found.best[0], found.inputs
    safe = best.verdict == Verdict.SAFE
    title = Text("Best plan: " if safe else "No plan is safe; the least risky: ").append(str(best.plan), style="bold")
    return Group(
        headline(inputs),
        "",
        title,
        verdict_line(best, inputs),
        step_time_line(best, inputs),
        *not_searched(found),
        "",
        ranking_table(found.best, best, "123456789"),
        *_other_splits(found),
        *_faster_at_risk(found),
        *_front(front),
        "",
        memory_table(best, inputs),
        "",
        time_table(best),
        "",
        search_line(found),
        "",
        assumption_list(assumptions(found.inputs)),
    )


def not_searched(found: SearchResult) -> list[Text]:
    """What a reader must know before acting: that the search could not see the usual layouts."""
    inputs, tp, domain = found.inputs, found.best[0].plan.tp, found.inputs.cluster.levels[0]
    warnings = []
    if inputs.job.sequence_length > LONG_SEQUENCE and not inputs.runtime.plans.context_exchanges:
        warnings.append(f"Not searched: context parallelism, which {inputs.runtime.id} does not have.")
    if tp > domain.size:
        warnings.append(f"tp {tp} crosses {domain.name} domains of {domain.size}: a dear choice, for want of others.")
    return [Text(warning, style="bold yellow") for warning in warnings]


def ranking_table(
    ranked: Sequence[Estimate], best: Estimate, numbering: str, against: str = "against the best"
) -> Table:
    """Plans, best first, and why each lost to the best, or to another one that `against` names; plans that differ from
    the one above in their chunks alone, and by less than the model can tell, share its row.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right")
    table.add_column("plan", overflow="fold")
    table.add_column("step", justify="right", no_wrap=True)
    table.add_column("MFU", justify="right", no_wrap=True)
    table.add_column("GiB", justify="right", no_wrap=True)
    table.add_column(against, overflow="fold")
    for rank, (estimate, like) in enumerate(_folded(ranked)):
        verdict = "" if estimate.verdict == Verdict.SAFE else f"{estimate.verdict}: "
        table.add_row(
            numbering[rank : rank + 1],
            str(estimate.plan),
            format_seconds(estimate.step_time_s),
            f"{estimate.mfu:.1%}",
            Text(f"{estimate.memory.device / GIB:.1f}", style=STYLES[estimate.verdict]),
            verdict + (why_lost(estimate, best) if estimate is not best else "the best") + like,
        )
    return table


def _folded(ranked: Sequence[Estimate]) -> list[tuple[Estimate, str]]:
    folded: list[tuple[Estimate, list[Estimate]]] = []
    for estimate in ranked:
        twin = next((group for first, group in folded if indistinguishable(first, estimate)), None)
        if twin is None:
            folded.append((estimate, []))
        else:
            twin.append(estimate)
    return [(first, _also(first, group)) for first, group in folded]


def indistinguishable(first: Estimate, other: Estimate) -> bool:
    """Whether two plans differ in their chunks alone, and in step time by less than anybody measures."""
    chunks = {name: getattr(first.plan, name) for name in ("vpp", "schedule", "chunk_layers")}
    near = abs(other.step_time_s / first.step_time_s - 1) < INDISTINGUISHABLE
    return near and replace(other.plan, **chunks) == first.plan


def _also(first: Estimate, group: list[Estimate]) -> str:
    if not group:
        return ""
    furthest = max(abs(other.step_time_s / first.step_time_s - 1) for other in group)
    told = [str(vpp) for vpp in dict.fromkeys(other.plan.vpp for other in group) if vpp != first.plan.vpp]
    return f"; {'vpp ' + ', '.join(told) if told else 'other chunks'} within {furthest:.1%}"


def search_line(found: SearchResult) -> Text:
    """How many plans were considered, refused, too large and fitting."""
    refused = ", ".join(f"{rule} {count}" for rule, count in found.refused.items() if count)
    text = Text(f"{found.considered} plans considered, {found.legal} legal, {found.fitting} fit, ")
    text.append(f"in {format_seconds(found.elapsed_s)}")
    return text.append(f"\nRefused, by rule (a plan may break several): {refused}" if refused else "")


def _other_splits(found: SearchResult) -> list[RenderableType]:
    if not found.other_splits:
        return []
    return [
        "",
        Text("The best of other splits", style="bold"),
        ranking_table(found.other_splits, found.best[0], "abcdefghi"),
    ]


def _front(front: Sequence[Estimate]) -> list[RenderableType]:
    """The plans that no other beats in both time and memory, less those that are hardly leaner than the one above."""
    if not front:
        return []
    shown = [front[0]]
    for estimate in front:
        if estimate.memory.device <= (1 - LEANER) * shown[-1].memory.device:
            shown.append(estimate)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("plan", overflow="fold")
    for name in ("step", "MFU", "GiB"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for estimate in shown:
        size, verdict = f"{estimate.memory.device / GIB:.1f}", Text(str(estimate.verdict), STYLES[estimate.verdict])
        table.add_row(str(estimate.plan), format_seconds(estimate.step_time_s), f"{estimate.mfu:.1%}", size, verdict)
    title = Text("Time against memory: no plan beats one of these in both", style="bold")
    note = f"{len(shown)} of {len(front)}, each {LEANER:.0%} leaner than the one above; --json has all"
    return ["", title, table, Text(note, style="dim")]


def _faster_at_risk(found: SearchResult) -> list[RenderableType]:
    best, risky = found.best[0], found.at_risk
    if risky is None or best.verdict != Verdict.SAFE or risky.step_time_s >= best.step_time_s:
        return []
    return ["", Text(f"Not recommended: {risky.plan} is {why_lost(risky, best)}", style="yellow")]

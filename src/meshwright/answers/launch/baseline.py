"""Baseline: the plan of an existing launch file beside the best one of a search; JSON, screen and memo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from meshwright.answers.pace import longer
from meshwright.answers.plan_file import plan_entry
from meshwright.answers.records import document_of
from meshwright.answers.step_parts import why_lost
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.errors import Fault
from meshwright.launch.imports.question import LaunchQuestion
from meshwright.layout.legality import faults, priced_anyway
from meshwright.layout.plan import Plan
from meshwright.search.ranking.rank import rank_key
from meshwright.search.ranking.ties import share_of_ties
from meshwright.specs.inputs import Inputs
from meshwright.units import format_gib, format_seconds


class Baseline(NamedTuple):
    """What a launch file runs today, for the question of a search."""

    launch: LaunchQuestion
    plan: Plan
    inputs: Inputs
    broken: tuple[Fault, ...]
    """The rules of the runtime that it breaks."""
    estimate: Estimate | None
    """None where it breaks a rule that its price rests on."""


def baseline_of(launch: LaunchQuestion, plan: Plan, inputs: Inputs) -> Baseline:
    """The plan of a file, priced; inputs: its question, with what options change of it."""
    broken = tuple(faults(plan, inputs))
    priced = all(map(priced_anyway, broken))
    estimate = estimate_each([plan], inputs)[0] if priced else None
    return Baseline(launch=launch, plan=plan, inputs=inputs, broken=broken, estimate=estimate)


def baseline_lines(baseline: Baseline, best: Estimate) -> Iterator[str]:
    """The plan of the file with its price, the rules that it breaks, and what it loses to the best plan."""
    estimate, named = baseline.estimate, f"{baseline.launch.path.name} asks for **{baseline.plan}**"
    if estimate is None:
        yield f"{named}, which cannot be priced"
    else:
        step, memory = f"{format_seconds(estimate.step_time_s)} a step", format_gib(estimate.memory.device)
        fits = f"{step}, {memory}, {estimate.verdict}"
        yield f"{named}: {fits if estimate.verdict.fits else f'{memory}, {estimate.verdict}; if it did fit, {step}'}"
    yield from (f"  breaks {fault}" for fault in baseline.broken)
    if estimate is not None:
        yield f"Compared with the best plan it is {beside(baseline, best)}"


def beside(baseline: Baseline, best: Estimate) -> str:
    """How the plan of the file stands to the best one, in words that follow "it is"."""
    estimate, share = baseline.estimate, share_of_ties(baseline.inputs)
    if estimate is None:
        return "not legal, and not priced"
    if str(estimate.plan) == str(best.plan):
        return "the same plan"
    lost = why_lost(estimate, best)
    tied = abs(longer(estimate, best)) <= share and estimate.verdict == best.verdict
    if tied and not baseline.broken:
        return f"{lost}; predictions cannot separate plans within {share:.1%}"
    if rank_key(estimate) < rank_key(best) and not baseline.broken:
        return f"{lost}; the search tries no plan as good as this"
    return lost


def baseline_entry(baseline: Baseline, best: Estimate) -> dict[str, Any]:
    """The same for JSON."""
    estimate = baseline.estimate
    entry = document_of(
        plan=baseline.plan,
        name=str(baseline.plan),
        broken=[{"rule": fault.where, "reason": fault.what} for fault in baseline.broken],
        price=plan_entry(estimate, baseline.inputs) if estimate else None,
        lost=beside(baseline, best),
    )
    return {"baseline": entry}

"""Rescue: of a plan that is not safe, what would make it so; JSON and screen."""

from __future__ import annotations

from typing import Any, NamedTuple

from meshwright.answers.document.blocks import Block, Bullets, Paragraph
from meshwright.answers.records import priced_plan
from meshwright.answers.typed import typed
from meshwright.answers.unfit.nothing_fits import HOPELESS, remedy_entry, remedy_words
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.search.changes.sensitivity import PricedChange, Sensitivity, cheapest_safe
from meshwright.search.find import SearchResult
from meshwright.search.many_searches.remedies import Remedy, remedies
from meshwright.specs.inputs import Inputs
from meshwright.units import format_seconds

MOST = 3
"""Ways that are named."""


class Rescue(NamedTuple):
    """What is safe in place of a plan; each part only where the ones before it have nothing."""

    changes: tuple[PricedChange, ...] = ()
    """Single changes of it, the cheapest first."""
    recommended: Estimate | None = None
    """What a search of its question recommends."""
    remedies: tuple[Remedy, ...] | None = None
    """Changes of the question, where no plan of it is safe; None where that was not searched."""


def rescue(estimate: Estimate, priced: Sensitivity, near: SearchResult | None) -> Rescue | None:
    """What would be safe; None where the plan is.

    priced: its single changes; near: a search of its question, None where its space is too large for that.
    """
    if estimate.verdict == Verdict.SAFE:
        return None
    if changes := cheapest_safe(priced):
        return Rescue(tuple(changes[:MOST]))
    if near and near.best and near.best[0].verdict == Verdict.SAFE:
        return Rescue(recommended=near.best[0])
    return Rescue(remedies=tuple(remedies(near, MOST)) if near else None)


def rescue_section(found: Rescue | None, inputs: Inputs) -> list[Block]:
    """In words, each way with its step time and how likely it fits. inputs: the question of the plan."""
    if found is None:
        return []
    if found.changes:
        named = (f"{typed(each, inputs)} ({_price(each.estimate)})" for each in found.changes)
        return [Paragraph(f"**What would make it safe, the cheapest first: {'; '.join(named)}.**")]
    if found.recommended:
        plan = f"meshwright plan recommends {found.recommended.plan} ({_price(found.recommended)})"
        return [Paragraph(f"**No single change makes it safe; {plan}.**")]
    if found.remedies is None:
        return [Paragraph("**No single change makes it safe; meshwright plan searches for a safe plan.**")]
    if not found.remedies:
        return [Paragraph(f"**No single change makes it safe.** {HOPELESS}")]
    title = Paragraph("**No plan for this question is safe. What would be:**")
    return [title, Bullets(tuple(map(remedy_words, found.remedies)))]


def rescue_entry(found: Rescue | None, inputs: Inputs) -> dict[str, Any]:
    """The same as JSON; nothing of a plan that is safe, or where nothing was searched."""
    if found is None:
        return {}
    plans = [("change of the plan", typed(each, inputs), each.estimate) for each in found.changes]
    if best := found.recommended:
        plans.append(("recommended plan", str(best.plan), best))
    ways = [{"kind": kind, "words": words} | priced_plan(each) for kind, words, each in plans]
    return {"what_would_fit": [*ways, *map(remedy_entry, found.remedies or ())]}


def _price(estimate: Estimate) -> str:
    return f"{format_seconds(estimate.step_time_s)} a step, probability of fitting {estimate.fit.probability:.0%}"

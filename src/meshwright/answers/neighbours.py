"""Neighbours: the best plans beside one that is explained, where looking for them takes no time."""

from __future__ import annotations

from typing import Any

from meshwright.answers.document.blocks import Block, Heading, Paragraph
from meshwright.answers.plan_table import ranking_table
from meshwright.answers.records import priced_plan
from meshwright.answers.step_parts import why_lost
from meshwright.cost.estimate import Estimate
from meshwright.errors import IllegalPlan
from meshwright.search.find import SearchResult, find
from meshwright.search.space import size
from meshwright.specs.inputs import Inputs

MOST_PLANS = 1 << 16
"""Plans in a space that is searched for an explanation, which takes a second or so."""
SHOWN = 5


def cheap_search(inputs: Inputs) -> SearchResult | None:
    """The best plans of a question; None where its space is large, or holds no legal plan."""
    if size(inputs) > MOST_PLANS:
        return None
    try:
        return find(inputs, top=SHOWN)
    except IllegalPlan:
        return None


def neighbours(found: SearchResult, estimate: Estimate) -> list[Estimate]:
    """The best plan, then the best of every other split, at most five, without the explained one."""
    others = [*found.best[:1], *found.other_splits, *found.best[1:]]
    return list({each.plan: each for each in others if each.plan != estimate.plan}.values())[:SHOWN]


def neighbours_section(estimate: Estimate, found: SearchResult | None) -> tuple[Block, ...]:
    """What the best other plans lose against this one, or gain."""
    title = Heading("The best other plans", 3)
    if found is None:
        return title, Paragraph("Not searched here; meshwright plan ranks them.")
    ranked = neighbours(found, estimate)
    if not ranked:
        return title, Paragraph("None fits.")
    return title, ranking_table(ranked, estimate, "12345", "against this one")


def neighbours_entry(estimate: Estimate, found: SearchResult) -> list[dict[str, Any]]:
    """The same as it stands in the plan file of `explain`."""
    return [priced_plan(each) | {"lost": why_lost(each, estimate)} for each in neighbours(found, estimate)]

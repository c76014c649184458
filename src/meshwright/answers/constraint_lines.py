"""Constraint lines: which plans a question allows, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meshwright.answers.pace import pace
from meshwright.answers.records import priced_plan
from meshwright.cost.estimate import Estimate
from meshwright.search.constraint_costs import ConstraintCost, constrained, options_of
from meshwright.search.find import SearchResult


def constraint_lines(result: SearchResult, costs: Sequence[ConstraintCost]) -> list[str]:
    """The best plan without each constraint of the question that costs something; nothing without constraints."""
    if costs or not (given := constrained(result.inputs)):
        return [_cost(each, result.best[0]) for each in costs]
    if len(given) == 1:
        return [f"{options_of(result.inputs, given)[0]} costs nothing: no plan without it is better."]
    return ["The constraints cost nothing: no plan is better without one of them, or without all."]


def _cost(cost: ConstraintCost, best: Estimate) -> str:
    """As `Without --cp 1: 3.1% faster (tp4 ...)`."""
    safer = f"{cost.estimate.verdict} instead of {best.verdict}, " if cost.estimate.verdict < best.verdict else ""
    tied = ", closer than predictions can tell" if cost.tied else ""
    return f"Without {' '.join(cost.without)}: {safer}{pace(cost.estimate, best)}{tied} ({cost.estimate.plan})"


def constraints_entry(result: SearchResult, costs: Sequence[ConstraintCost]) -> dict[str, Any]:
    """The same for JSON; nothing where the question has no constraints."""
    if not constrained(result.inputs):
        return {}
    return {
        "constraint_costs": [
            {"without": each.without, "faster": each.faster, "tied": each.tied} | priced_plan(each.estimate)
            for each in costs
        ]
    }

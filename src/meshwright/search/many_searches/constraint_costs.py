"""Constraint costs: what a search would find without each constraint of its question."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.errors import IllegalPlan
from meshwright.search.find import Progress, SearchResult
from meshwright.search.ranking.rank import rank_time_s
from meshwright.search.ranking.ties import share_of_ties
from meshwright.search.safe import recommended
from meshwright.specs.behaviours import as_catalogued
from meshwright.specs.inputs import Inputs

LEAST_SHARE = 0.0005
"""Of the step, below which a constraint costs nothing."""
DISPATCHER = "dispatcher"


class ConstraintCost(NamedTuple):
    """The best plan without some of what a question constrains."""

    without: tuple[str, ...]
    """They, as options."""
    estimate: Estimate
    faster: float
    """How much less a step takes than that of the best plan within all constraints, a share; negative where it takes
    longer, but is safer, and where the constraint gains."""
    tied: bool
    """Predictions cannot tell the two apart, and both are as safe."""
    gains: bool = False
    """The constraint makes the best plan faster, and as safe: it changes the question, or another plan is preferred
    without it."""


def constrained(inputs: Inputs) -> tuple[str, ...]:
    """What a question constrains: the fields of its constraints, and the dispatcher where it names another than the
    catalogue's.
    """
    named = as_catalogued(inputs.runtime, DISPATCHER) != inputs.runtime
    return *inputs.constraints.given, *[DISPATCHER] * named


def constraint_costs(result: SearchResult, progress: Progress | None = None) -> tuple[ConstraintCost, ...]:
    """What the constraints of a question cost: every one left out by itself, and all together where that finds another
    plan, where the best plan is then safer, or as safe and faster; and every one without which it is as safe and
    slower. Each is a search of its own.

    result: of the question, with a plan that fits; progress: told as by `find`, anew for each search. Raises `Stopped`
    where it stops one.
    """
    best, found = result.best[0], list[ConstraintCost]()
    for names in _left_out(result.inputs):
        try:
            estimate = recommended(_without(result.inputs, names), progress) or best
        except IllegalPlan:
            continue
        if len(names) > 1 and any(_same(estimate, each.estimate) for each in found):
            continue
        cost = _cost(result, options_of(result.inputs, names), estimate)
        if cost and not (cost.gains and _is_idle(result, names)):
            found.append(cost)
    return tuple(found)


def _cost(result: SearchResult, without: tuple[str, ...], estimate: Estimate) -> ConstraintCost | None:
    """What some constraints cost or gain beside the best plan without them; None where neither."""
    best, share = result.best[0], share_of_ties(result.inputs)
    gain = 1 - float(rank_time_s(estimate) / rank_time_s(best))
    alike = estimate.verdict == best.verdict
    costs = estimate.verdict < best.verdict or (alike and gain >= LEAST_SHARE)
    faster = 1 - estimate.step_time_s / best.step_time_s
    gains = not costs and alike and faster <= -LEAST_SHARE
    if not costs and not gains:
        return None
    slow, fast = sorted((best.step_time_s, estimate.step_time_s), reverse=True)
    return ConstraintCost(without, estimate, faster, tied=alike and slow <= fast * (1 + share), gains=gains)


def _is_idle(result: SearchResult, names: tuple[str, ...]) -> bool:
    """Whether a gain is not of one constraint alone, or of a dispatcher that the best plan is as fast without."""
    if names != (DISPATCHER,):
        return len(names) > 1
    best = result.best[0]
    (other,) = estimate_each([best.plan], _without(result.inputs, names))
    return other.step_time_s <= best.step_time_s


def _left_out(inputs: Inputs) -> Iterator[tuple[str, ...]]:
    given = constrained(inputs)
    yield from ((name,) for name in given)
    if len(given) > 1:
        yield given


def _without(inputs: Inputs, names: tuple[str, ...]) -> Inputs:
    runtime = as_catalogued(inputs.runtime, DISPATCHER) if DISPATCHER in names else inputs.runtime
    return inputs.replace(constraints=inputs.constraints.without(*names), runtime=runtime)


def options_of(inputs: Inputs, names: tuple[str, ...]) -> tuple[str, ...]:
    """Constraints as the command line has them."""
    dispatcher = f"--{DISPATCHER} {inputs.dispatcher}"
    return tuple(dispatcher if name == DISPATCHER else inputs.constraints.option(name) for name in names)


def _same(one: Estimate, other: Estimate) -> bool:
    return one.plan == other.plan and one.step_time_s == other.step_time_s

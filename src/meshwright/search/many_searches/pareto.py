"""Pareto: the plans that no other beats in both time and memory."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn
from meshwright.cost.estimate import Estimate, Estimates
from meshwright.cost.step import estimate_each, estimate_plans, estimates_of
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.find import Progress, SearchResult, legal_footprints
from meshwright.search.ranking.rank import TIE_DIGITS
from meshwright.specs.inputs import Inputs


def pareto(answer: SearchResult, progress: Progress | None = None) -> tuple[Estimate, ...]:
    """Of the plans that fit, those that no other beats in both step time and memory of the worst stage, fastest first.

    Of the plans that the search alone makes, with layers chosen by cost, those that it found take part.
    progress: told (considered, in all).
    """
    inputs, front = answer.inputs, [estimate.plan for estimate in (*answer.best, *answer.other_splits)]
    for _, fitting in legal_footprints([answer], progress, fitting_only=True):
        if len(fitting):
            front = _front_of([*front, *(fitting.plans[row] for row in _unbeaten(estimates_of(fitting)))], inputs)
    return estimate_each(front, inputs)


def _front_of(plans: list[Plan], inputs: Inputs) -> list[Plan]:
    return [plans[row] for row in _unbeaten(estimate_plans(Plans.of(plans), inputs))]


def _unbeaten(estimates: Estimates) -> IntColumn:
    """Rows of the plans on the front, fastest first."""
    memory = estimates.memory.device[estimates.worst]
    return unbeaten(estimates.step_time_s, memory)


def unbeaten(times: FloatColumn, sizes: FloatColumn) -> IntColumn:
    """Rows that no other beats in both, of equal ones the first, by growing time.

    times: seconds; sizes: bytes; shape (n,). Step times that agree in their first digits are equal, as when ranking.

    >>> unbeaten(np.array([1.0, 2.0, 3.0, 2.0]), np.array([9.0, 5.0, 6.0, 5.0])).tolist()
    [0, 1]
    """
    pace = np.round(times / times.min(initial=np.inf), TIE_DIGITS)
    by_time = np.lexsort((sizes, pace))
    least = np.minimum.accumulate(sizes[by_time])
    leaner = np.ones(len(by_time), dtype=bool)
    leaner[1:] = sizes[by_time][1:] < least[:-1]
    rows: IntColumn = by_time[leaner]
    return rows

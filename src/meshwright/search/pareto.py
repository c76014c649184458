"""Pareto: the plans that no other beats in both time and memory."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn
from meshwright.cost.estimate import Estimate, Estimates
from meshwright.cost.memory.device import Verdict
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.layout.legality import check
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.find import Found, Progress, chunks
from meshwright.search.rank import TIE_DIGITS
from meshwright.specs.inputs import Inputs


def pareto(found: Found, progress: Progress | None = None) -> tuple[Estimate, ...]:
    """Of the plans that fit, those that no other beats in both step time and memory of the worst stage, fastest first.

    found: the answer of the same question, for the number of plans; progress: told (considered, in all).
    """
    front: list[Plan] = []
    done, inputs = 0, found.inputs
    for chunk in chunks(inputs):
        legal = chunk.take(check(chunk, inputs).legal)
        if len(legal):
            estimates = estimate_plans(legal, inputs)
            front = _front_of([*front, *(legal[row] for row in _unbeaten(estimates))], inputs)
        done += len(chunk)
        if progress:
            progress(done, found.considered)
    return estimate_each(front, inputs)


def _front_of(plans: list[Plan], inputs: Inputs) -> list[Plan]:
    return [plans[row] for row in _unbeaten(estimate_plans(Plans.of(plans), inputs))]


def _unbeaten(estimates: Estimates) -> IntColumn:
    """Rows of the plans on the front, fastest first."""
    fitting = np.flatnonzero(estimates.verdict < Verdict.OUT_OF_MEMORY)
    memory: FloatColumn = estimates.memory.device[estimates.worst]
    rows: IntColumn = fitting[unbeaten(estimates.step_time_s[fitting], memory[fitting])]
    return rows


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

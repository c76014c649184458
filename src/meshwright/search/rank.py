"""Rank: which plan is best, and what makes another one slower."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn
from meshwright.cost.estimate import Estimate, Estimates
from meshwright.cost.memory.fit import Verdict

UNNAMED_SHARE = 0.2
"""Of a difference in step time, what may stay without a name."""
LEAST_GAIN = 0.005
"""Of the step time, for which numbers of layers are worth spelling out."""
TIE_DIGITS = 9
"""Step times that agree to so many digits are equal, and the leaner plan wins."""


class Difference(NamedTuple):
    """What one plan takes more than another."""

    seconds: float
    """Of a step; negative where it is faster."""
    share: float
    """Of the other's step."""
    memory_bytes: float
    """On the worst stage."""
    parts: dict[str, float]
    """Seconds by part of the waterfall, the one that decides first; none where no part differs by 0.01 %."""


def order(estimates: Estimates) -> IntColumn:
    """Rows of the plans that fit, best first: safe ones before those at risk, then the fastest, then the leanest."""
    leanness = estimates.worst_memory.device
    pace = np.round(estimates.step_time_s / estimates.step_time_s.min(initial=np.inf), TIE_DIGITS)
    ranked: IntColumn = np.lexsort((leanness, pace, estimates.verdict))
    return ranked[estimates.verdict[ranked] < Verdict.OUT_OF_MEMORY]


def preference(estimates: Estimates) -> tuple[FloatColumn, FloatColumn, IntColumn]:
    """Keys for `np.lexsort` by which the safest plan comes first, then the fastest, then the leanest; of those that do
    not fit, the leanest.
    """
    fits = estimates.verdict < Verdict.OUT_OF_MEMORY
    return estimates.worst_memory.device, np.where(fits, estimates.step_time_s, 0.0), estimates.verdict


def difference(plan: Estimate, best: Estimate) -> Difference:
    """What a plan takes more than the best one, with the parts of the step that explain four fifths of it."""
    seconds = plan.step_time_s - best.step_time_s
    memory_bytes = plan.memory.device - best.memory.device
    sign = 1 if seconds >= 0 else -1
    before, after = best.time._asdict(), plan.time._asdict()
    differences = {name: after[name] - before[name] for name in after}
    main = max(differences, key=lambda name: sign * differences[name])
    parts = [main] if sign * differences[main] > 1e-4 * best.step_time_s else []
    for name in sorted(differences, key=lambda name: -abs(differences[name])) if parts else ():
        covered = sum(differences[each] for each in parts)
        if abs(covered - seconds) > UNNAMED_SHARE * abs(seconds) and name not in parts:
            parts.append(name)
    share = seconds / best.step_time_s
    return Difference(
        seconds=seconds, share=share, memory_bytes=memory_bytes, parts={name: differences[name] for name in parts}
    )

"""Rank: which plan is best, and what makes another one slower."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, Floats, IntColumn
from meshwright.cost.estimate import Estimate, Estimates
from meshwright.cost.memory.fit import Verdict

UNNAMED_SHARE = 0.2
"""Of a difference in step time, what may stay without a name."""
LEAST_GAIN = 0.005
"""Of the step time, for which numbers of layers are worth spelling out; two plans that differ by less tie."""
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


def risk_adjusted_time_s(step_time_s: Floats, verdict: IntColumn | Verdict, probability: Floats) -> FloatColumn:
    """Seconds of a step of a safe plan; of any other, over the probability that it fits: one that fits half as likely
    must be twice as fast. step_time_s: seconds; verdict: codes; probability: a share; scalar or array (n,).

    >>> [float(risk_adjusted_time_s(3.0, verdict, 0.75)) for verdict in (Verdict.SAFE, Verdict.AT_RISK)]
    [3.0, 4.0]
    """
    return np.where(np.equal(verdict, Verdict.SAFE), step_time_s, step_time_s / probability)


def rank_time_s(priced: Estimate | Estimates) -> FloatColumn:
    """The same of a plan, or of many, shape (n,)."""
    probability = priced.fit.probability if isinstance(priced, Estimate) else priced.probability
    return risk_adjusted_time_s(priced.step_time_s, priced.verdict, probability)


def rank_key(estimate: Estimate) -> tuple[int, float, float]:
    """By which the best of some plans sorts first, as `order` ranks; of those that do not fit, the leanest."""
    memory = estimate.memory.device
    return int(estimate.verdict), float(rank_time_s(estimate)) if estimate.verdict.fits else memory, memory


def order(estimates: Estimates) -> IntColumn:
    """Rows of the plans that fit, best first, as `order_of_all` has them."""
    ranked = order_of_all(estimates)
    return ranked[estimates.verdict[ranked] < Verdict.OUT_OF_MEMORY]


def order_of_all(estimates: Estimates) -> IntColumn:
    """Rows of plans: safe ones before those at risk, and these before others, then the fastest, of those that are not
    safe by what `risk_adjusted_time_s` makes of their time, then the leanest.
    """
    leanness, times = estimates.worst_memory.device, rank_time_s(estimates)
    pace = np.round(times / times.min(initial=np.inf), TIE_DIGITS)
    ranked: IntColumn = np.lexsort((leanness, pace, estimates.verdict))
    return ranked


def preference(estimates: Estimates) -> tuple[FloatColumn, FloatColumn, IntColumn]:
    """Keys for `np.lexsort` by which the best plan comes first, as `order` ranks; of those that do not fit, the
    leanest.
    """
    fits = estimates.verdict < Verdict.OUT_OF_MEMORY
    return estimates.worst_memory.device, np.where(fits, rank_time_s(estimates), 0.0), estimates.verdict


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

"""Rank: which plan is best, and why another one lost to it."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn
from meshwright.cost.estimate import Estimate, Estimates
from meshwright.cost.memory.fit import Verdict
from meshwright.units import format_gib, format_seconds

UNNAMED_SHARE = 0.2
"""Of a difference in step time, what may stay without a name."""
LEAST_GAIN = 0.005
"""Of the step time, for which numbers of layers are worth spelling out."""
TIE_DIGITS = 9
"""Step times that agree to so many digits are equal, and the leaner plan wins."""
PART_NAMES = {
    "compute_s": "compute",
    "exposed_tp_s": "exposed tensor-parallel communication",
    "exposed_cp_s": "exposed context-parallel communication",
    "exposed_ep_s": "exposed expert exchange",
    "exposed_pp_s": "exposed stage-to-stage messages",
    "exposed_dp_s": "exposed gradient exchange",
    "bubble_s": "pipeline bubble",
    "optimizer_s": "optimizer step",
    "host_s": "waiting for the host",
}


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
    memory: FloatColumn = np.asarray(estimates.worst_memory.device)
    return memory, np.where(fits, estimates.step_time_s, 0.0), estimates.verdict


def why_lost(plan: Estimate, best: Estimate) -> str:
    """One sentence: how much a plan loses to the best one, or gains over one that is not, and in which part of the
    step.
    """
    seconds = plan.step_time_s - best.step_time_s
    share = seconds / best.step_time_s
    if plan.verdict > best.verdict:
        pace = f"{-share:.1%} faster" if seconds < 0 else f"{share:.1%} slower"
        risk = "at risk of running out" if plan.verdict.fits else "out"
        return f"{pace}, but {risk} of memory ({format_gib(plan.memory.device)} on its worst stage)"
    sign = 1 if seconds >= 0 else -1
    differences = {name: getattr(plan.time, name) - getattr(best.time, name) for name in PART_NAMES}
    main = max(differences, key=lambda name: sign * differences[name])
    if sign * differences[main] <= 1e-4 * best.step_time_s:
        more = plan.memory.device - best.memory.device
        return f"as fast within {abs(share):.2%}, with {format_gib(abs(more))} {'more' if more >= 0 else 'less'} memory"
    named = [main]
    for name in sorted(differences, key=lambda name: -abs(differences[name])):
        covered = sum(differences[each] for each in named)
        if abs(covered - seconds) > UNNAMED_SHARE * abs(seconds) and name not in named:
            named.append(name)
    parts = [
        f"{format_seconds(abs(differences[name]))} {'more' if differences[name] > 0 else 'less'} {PART_NAMES[name]}"
        for name in named
    ]
    fits = f"{plan.verdict}, " if plan.verdict < best.verdict else ""
    return f"{fits}{_pace(share)}: {', '.join(parts)}"


def _pace(share: float) -> str:
    if share < 0:
        return f"{-share:.1%} faster"
    return f"{share:.1%} slower" if share < 1 else f"{1 + share:.1f} times as long"

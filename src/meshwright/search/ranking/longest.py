"""Longest: how long a step may take of a plan that a search for a safe one must still look at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn
from meshwright.cost.estimate import Estimates
from meshwright.cost.memory.fit import Verdict
from meshwright.layout.plans import Plans
from meshwright.search.published.layouts import has_published_layout
from meshwright.search.ranking.ties import share_of_ties
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs

RESOLVED = 8
"""Of the best plans of each kind, those whose stages, or layers to recompute, are chosen by cost."""
ROUNDED = 1 + 1e-6
"""Times the longest step, by which sums of the same seconds in another order never differ."""


def resolvable(plans: Plans) -> tuple[BoolColumn, ...]:
    """Which plans have something that their cost may decide, by kind: one chunk a stage, several, layers or modules
    that are recomputed; shape (n,) each.
    """
    one, recompute = plans.vpp == 1, plans.recompute
    return (plans.pp > 1) & one, ~one, recompute == Recompute.FULL, recompute == Recompute.SELECTIVE


class LongestSteps:
    """The shortest steps of the safe plans so far, which only become shorter: a plan that takes longer than they allow
    is not recommended, whatever its memory, nor is what its cost would decide of it.
    """

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._tied = (1 + share_of_ties(inputs, published=False)) ** 2
        self._fastest = np.inf
        self._of_kinds: dict[int, FloatColumn] = {}
        """Of each kind, of its plans with a published layout, and of all these; at most `RESOLVED`, shortest first."""

    def add(self, estimates: Estimates) -> None:
        """Take plans into account."""
        safe = estimates.verdict == Verdict.SAFE
        times = estimates.step_time_s[safe]
        self._fastest = min(self._fastest, float(times.min(initial=np.inf)))
        for kind, rows in enumerate(self._kinds(estimates.plans.take(safe))):
            known = self._of_kinds.get(kind, times[:0])
            self._of_kinds[kind] = np.sort(np.concatenate([known, times[rows]]))[:RESOLVED]

    def allow(self, plans: Plans, least_s: FloatColumn) -> BoolColumn:
        """Which plans may be recommended, or better ones that differ in what cost decides; shape (n,).

        least_s: seconds that their steps take at least, shape (n,).
        """
        allowed: BoolColumn = least_s <= self._fastest * self._tied * ROUNDED
        for kind, rows in enumerate(self._kinds(plans)):
            known = self._of_kinds.get(kind, least_s[:0])
            longest = float(known.max()) if len(known) == RESOLVED else np.inf
            allowed |= rows & (least_s <= longest * ROUNDED)
        return allowed

    def _kinds(self, plans: Plans) -> Sequence[BoolColumn]:
        kinds, published = resolvable(plans), has_published_layout(plans, self._inputs)
        return [*kinds, *(kind & published for kind in kinds), published]

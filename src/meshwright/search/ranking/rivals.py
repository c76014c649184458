"""Rivals: of the plans that fit, those that may be the fastest of their family at some bandwidth between nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn, IntColumn
from meshwright.cost.estimate import Estimates
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_plans
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs
from meshwright.specs.scale import with_network

LOWEST, HIGHEST = 1 / 16, 16.0
"""Bandwidths between nodes that are looked at, over what the cluster has."""
ROUNDING = 1 + 1e-6
"""Step times nearer than this are kept apart by their memory."""
FIRST = 32
"""Plans of a table, fastest first, that are priced at the lowest bandwidth."""


class Family(StrEnum):
    """What a plan does with its weights."""

    FULLY_SHARDED = "fully sharded"
    """ZeRO 2 or 3 over the data-parallel ranks, without a pipeline."""
    THREE_D = "3D"
    """Any other: split over tensor and pipeline ranks, replicated or ZeRO 1 over the data-parallel ones."""


@dataclass
class Rivals:
    """Those of a question's space, as a search prices it table by table: no bandwidth makes a step shorter than its
    compute, its optimizer and the host, so that a plan with more of these than another takes at the lowest bandwidth is
    never the fastest.
    """

    verdict: int = Verdict.OUT_OF_MEMORY
    """Of all of them, the safest that there was."""
    limits_s: dict[Family, float] = field(default_factory=dict)
    """What the fastest of a family that was priced there takes at the lowest bandwidth, and a little more."""
    tables: list[tuple[Family, Plans, FloatColumn]] = field(default_factory=list)
    """Plans of a family, with the least seconds of their steps."""

    def add(self, estimates: Estimates) -> None:
        """Those of a table; estimates: of plans that fit."""
        safest = int(estimates.verdict.min())
        if safest < self.verdict:
            self.verdict, self.limits_s, self.tables = safest, {}, []
        for family in Family:
            rows = np.flatnonzero((estimates.verdict == self.verdict) & members(estimates.plans, family))
            self._add(family, estimates, rows)

    def _add(self, family: Family, estimates: Estimates, rows: IntColumn) -> None:
        limit, times = self.limits_s.get(family, np.inf), estimates.step_time_s[rows]
        fastest = np.argsort(times, kind="stable")[:FIRST]
        # A step is no shorter at the lowest bandwidth.
        first = rows[fastest[times[fastest] < limit]]
        if len(first):
            slowed = estimate_plans(estimates.plans.take(first), scaled(estimates.inputs, LOWEST))
            limit = self.limits_s[family] = min(limit, float(slowed.step_time_s.min()) * ROUNDING)
        least = least_step_s(estimates)[rows]
        near = least <= limit
        if near.any():
            self.tables.append((family, estimates.plans.take(rows[near]), least[near]))

    def within(self, family: Family, limit_s: float) -> Plans:
        """The plans of a family whose steps may take no longer than a limit."""
        near = (plans.take(least <= limit_s) for of, plans, least in self.tables if of is family)
        return Plans.join([Plans.of([]), *near])


def members(plans: Plans, family: Family) -> BoolColumn:
    """Which plans are of a family, shape (n,)."""
    sharded: BoolColumn = (plans.zero >= 2) & (plans.pp == 1)
    return sharded if family is Family.FULLY_SHARDED else ~sharded


def least_step_s(estimates: Estimates) -> FloatColumn:
    """Seconds that the steps of plans take whatever the links, shape (n,)."""
    time = estimates.time
    return time.compute_s + time.optimizer_s + time.host_s


def scaled(inputs: Inputs, factor: float) -> Inputs:
    """The question with every link between nodes `factor` times as fast."""
    return inputs.replace(cluster=with_network(inputs.cluster, factor))

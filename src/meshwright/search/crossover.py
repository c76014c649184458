"""Crossover: fully sharded plans against 3D ones, and the bandwidth between nodes at which the winner changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn
from meshwright.cost.estimate import Estimate
from meshwright.cost.footprint import Footprints, footprints_of
from meshwright.cost.step import estimate_plans, estimates_of
from meshwright.layout.plans import Plans
from meshwright.search import fan_out
from meshwright.search.find import Progress, SearchResult, legal_footprints
from meshwright.search.rank import order
from meshwright.specs.inputs import Inputs
from meshwright.specs.scale import network_levels, with_network

LOWEST, HIGHEST = 1 / 16, 16.0
"""Bandwidths between nodes that are looked at, over what the cluster has."""
ROUNDING = 1 + 1e-6
"""Step times nearer than this are kept apart by their memory."""
FIRST = 32
"""Plans, fastest first, that are held against all others."""
TOLERANCE = 1.01
"""How near, as a ratio, the bandwidth found is to the change."""


class Family(StrEnum):
    """What a plan does with its weights."""

    FULLY_SHARDED = "fully sharded"
    """ZeRO 2 or 3 over the data-parallel ranks, without a pipeline."""
    THREE_D = "3D"
    """Any other: split over tensor and pipeline ranks, replicated or ZeRO 1 over the data-parallel ones."""


@dataclass(frozen=True)
class Contender:
    """The best plan of one family at one bandwidth between nodes."""

    family: Family
    inputs: Inputs
    """The question, with the runtime that the plan is for and the cluster of that bandwidth."""
    estimate: Estimate


@dataclass(frozen=True)
class RuntimePlans:
    """The plans of one family and one runtime that can be the fastest at a bandwidth looked at."""

    family: Family
    inputs: Inputs
    plans: Plans
    known: dict[float, Contender] = field(default_factory=dict)
    """The fastest by the factors of the bandwidth that were asked for."""

    def best(self, factor: float) -> Contender:
        """The fastest plan at `factor` times the bandwidth between nodes, among equals the leanest."""
        if factor not in self.known:
            inputs = scaled(self.inputs, factor)
            estimates = estimate_plans(self.plans, inputs)
            self.known[factor] = Contender(self.family, inputs, estimates[int(order(estimates)[0])])
        return self.known[factor]

    def least_s(self, factor: float) -> float:
        """Seconds that its step takes at least: those at any higher bandwidth that is known."""
        return max((each.estimate.step_time_s for at, each in self.known.items() if at >= factor), default=0.0)


@dataclass(frozen=True)
class FamilyPlans:
    """The plans of one family, by runtime, that can be its fastest at a bandwidth looked at."""

    entries: tuple[RuntimePlans, ...]

    def best(self, factor: float) -> Contender:
        """The fastest plan at `factor` times the bandwidth between nodes, among equals the leanest; runtimes that are
        slower at more bandwidth are not asked.
        """
        fastest = min(self.entries, key=lambda entry: entry.least_s(factor)).best(factor).estimate.step_time_s
        contenders = []
        for entry in self.entries:
            if entry.least_s(factor) <= fastest * ROUNDING:
                contenders.append(entry.best(factor))
                fastest = min(fastest, contenders[-1].estimate.step_time_s)
        return min(contenders, key=lambda contender: contender.estimate.step_time_s)


@dataclass(frozen=True)
class _Piece:
    """Plans of one family, from the space of one runtime."""

    plans: Plans
    step_time_s: FloatColumn
    """At the highest bandwidth, shape (n,)."""
    limit_s: float
    """The fastest step at the lowest bandwidth."""


def families_of(
    answers: Sequence[SearchResult], progress: Progress | None = None, executor: Executor | None = None
) -> list[FamilyPlans]:
    """The families that have plans, each with those that could be its fastest at some bandwidth looked at.

    More bandwidth makes no step slower: a plan that is slower at the highest bandwidth than another at the lowest is
    never the fastest. Of each runtime the plans that are as safe as its best one take part, those of
    its space and those with layers chosen by cost; links change no verdict.

    answers: to one question, of one runtime each, all with a plan that fits; progress, executor: as in
    `fan_out.answers`.
    """
    pieces = fan_out.answers(_pieces, answers, executor, progress)
    of_families = {family: [of_runtime[family] for of_runtime in pieces] for family in Family}
    return [_side(family, answers, each) for family, each in of_families.items() if any(each)]


def _pieces(answer: SearchResult, progress: Progress | None) -> dict[Family, list[_Piece]]:
    """What one runtime has of every family."""
    safety = answer.best[0].verdict
    known = [each for each in (answer.fastest, *answer.best) if each and each.verdict == safety]
    found = footprints_of(Plans.of(dict.fromkeys(each.plan for each in known)), answer.inputs)
    fitting = (memory for _, memory in legal_footprints([answer], progress, fitting_only=True) if len(memory))
    spaces = (memory.take(memory.verdict == safety) for memory in fitting)
    pieces: dict[Family, list[_Piece]] = {family: [] for family in Family}
    for memory in chain([found], spaces):
        for family, of_family in pieces.items():
            of_family += _piece(memory.take(_members(memory.plans, family)))
    return pieces


def _side(family: Family, answers: Sequence[SearchResult], pieces: Sequence[Sequence[_Piece]]) -> FamilyPlans:
    """The family's plans of every answer, less those that cannot be faster than another's."""
    limit = min(piece.limit_s for of_runtime in pieces for piece in of_runtime)
    entries = []
    for answer, of_runtime in zip(answers, pieces, strict=True):
        near = [piece.plans.take(piece.step_time_s <= limit) for piece in of_runtime]
        if any(map(len, near)):
            entries.append(RuntimePlans(family, answer.inputs, Plans.join(near)))
    return FamilyPlans(tuple(entries))


def _members(plans: Plans, family: Family) -> BoolColumn:
    sharded: BoolColumn = (plans.zero >= 2) & (plans.pp == 1)
    return sharded if family is Family.FULLY_SHARDED else ~sharded


def _piece(memory: Footprints) -> list[_Piece]:
    """The plans of a chunk, if any, that could be the fastest of it; memory: theirs, which links do not change."""
    if not len(memory):
        return []
    fast = _seconds(memory, HIGHEST)
    limit = _least_seconds(memory, fast <= np.partition(fast, FIRST)[FIRST]) if len(fast) > FIRST else np.inf
    # The fastest at the lowest bandwidth is no slower at the highest one than those few at the lowest.
    limit = _least_seconds(memory, fast <= limit)
    return [_Piece(memory.plans.take(fast <= limit), fast[fast <= limit], limit)]


def _least_seconds(memory: Footprints, chosen: BoolColumn) -> float:
    """Of the fastest of the chosen plans, by mask, at the lowest bandwidth, and a little more."""
    return float(_seconds(memory.take(chosen), LOWEST).min()) * ROUNDING


def _seconds(memory: Footprints, factor: float) -> FloatColumn:
    """Seconds of a step at `factor` times the bandwidth between nodes, shape (n,)."""
    return estimates_of(replace(memory, inputs=scaled(memory.inputs, factor))).step_time_s


def scaled(inputs: Inputs, factor: float) -> Inputs:
    """The question with every link between nodes `factor` times as fast."""
    return inputs.replace(cluster=with_network(inputs.cluster, factor))


@dataclass(frozen=True)
class CrossoverPoint:
    """Where the family that is slower at the cluster's own bandwidth becomes the faster one."""

    factor: float
    """Bandwidth of the links between nodes over what the cluster has."""
    bandwidth: float
    """Of the innermost links between nodes, per accelerator, one direction, bytes/s."""
    overtaking: Contender
    overtaken: Contender


@dataclass(frozen=True)
class Crossover:
    """The faster family on a cluster, and the nearest bandwidth between nodes at which it is the other."""

    bandwidth: float
    """What the cluster has between nodes, per accelerator, one direction, bytes/s."""
    lowest_bandwidth: float
    """The least bandwidth looked at, bytes/s."""
    highest_bandwidth: float
    fastest: Contender
    other: Contender | None
    """The best of the slower family; None where none of its plans fits, or none as safely."""
    change: CrossoverPoint | None
    """None where the same family is faster at every bandwidth looked at."""


def crossover(
    answers: Sequence[SearchResult], progress: Progress | None = None, executor: Executor | None = None
) -> Crossover | None:
    """The faster family at the cluster's own bandwidth between nodes, and where the other one overtakes it.

    Method: the links between nodes, all levels by one factor, are taken from 1 outwards in doublings until the other
    family is faster, and that doubling is bisected on the logarithm. Of each runtime the plans that are as safe as
    its best one take part, so that the faster family at the cluster's own bandwidth is that of the fastest answer.

    answers: to one question, of one runtime each, all with a plan that fits; progress, executor: as in
    `fan_out.answers`. Returns None for a cluster without links between nodes.
    """
    inputs = answers[0].inputs
    if not network_levels(inputs.cluster):
        return None
    ranked = [(plans.best(1.0), plans) for plans in families_of(answers, progress, executor)]
    ranked.sort(key=lambda entry: entry[0].estimate.step_time_s)
    (fastest, leader), *others = ranked
    return Crossover(
        bandwidth=_bandwidth(inputs),
        lowest_bandwidth=_bandwidth(scaled(inputs, LOWEST)),
        highest_bandwidth=_bandwidth(scaled(inputs, HIGHEST)),
        fastest=fastest,
        other=others[0][0] if others else None,
        change=_change(leader, others[0][1]) if others else None,
    )


def _change(leader: FamilyPlans, other: FamilyPlans) -> CrossoverPoint | None:
    def overtaken(factor: float) -> bool:
        return other.best(factor).estimate.step_time_s < leader.best(factor).estimate.step_time_s

    for doubling in range(round(math.log2(HIGHEST))):
        for near, far in ((2.0**doubling, 2.0 ** (doubling + 1)), (0.5**doubling, 0.5 ** (doubling + 1))):
            if overtaken(far):
                factor = _bisected(overtaken, near, far)
                ahead, behind = other.best(factor), leader.best(factor)
                return CrossoverPoint(factor, _bandwidth(ahead.inputs), ahead, behind)
    return None


def _bisected(overtaken: Callable[[float], bool], near: float, far: float) -> float:
    """The factor, nearest to `near` within the tolerance, at which the leader is overtaken."""
    while max(far / near, near / far) > TOLERANCE:
        middle = math.sqrt(near * far)
        near, far = (near, middle) if overtaken(middle) else (middle, far)
    return far


def _bandwidth(inputs: Inputs) -> float:
    return network_levels(inputs.cluster)[0].effective_bandwidth

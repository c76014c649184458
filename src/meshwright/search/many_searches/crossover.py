"""Crossover: fully sharded plans against 3D ones, and the bandwidth between nodes at which the winner changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from meshwright.arrays import FloatColumn
from meshwright.cost.estimate import Estimate, Estimates
from meshwright.cost.footprint import Footprints, footprints_of
from meshwright.cost.step import estimates_of
from meshwright.layout.plans import Plans
from meshwright.search.find import SearchResult, find
from meshwright.search.ranking.rank import order
from meshwright.search.ranking.rivals import HIGHEST, LOWEST, ROUNDING, Family, Rivals, members, scaled
from meshwright.specs.inputs import Inputs
from meshwright.specs.scale import network_levels

TOLERANCE = 1.01
"""How near, as a ratio, the bandwidth found is to the change."""


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
    memory: Footprints
    """What they hold, which links do not change."""
    known: dict[float, Contender] = field(default_factory=dict)
    """The fastest by the factors of the bandwidth that were asked for."""

    def best(self, factor: float) -> Contender:
        """The fastest plan at `factor` times the bandwidth between nodes, among equals the leanest."""
        if factor not in self.known:
            estimates = _at(self.memory, factor)
            self.known[factor] = Contender(self.family, estimates.inputs, estimates[int(order(estimates)[0])])
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


def families_of(answers: Sequence[SearchResult]) -> list[FamilyPlans]:
    """The families that have plans, each with those that could be its fastest at some bandwidth looked at.

    More bandwidth makes no step slower: a plan that is slower at the highest bandwidth than another at the lowest is
    never the fastest. Of each runtime the plans that are as safe as its best one take part, the rivals of its space and
    those with layers chosen by cost; links change no verdict.

    answers: to one question, of one runtime each, all with a plan that fits; those without rivals are searched again.
    """
    rivals = [*map(_rivals_of, answers)]
    families = (FamilyPlans(tuple(_entries(family, answers, rivals))) for family in Family)
    return [each for each in families if each.entries]


def _rivals_of(answer: SearchResult) -> Rivals:
    """Those that its search kept; none where none is as safe as its best plan, whose layers are chosen by cost."""
    rivals = answer.rivals
    if rivals is None:
        find(answer.inputs, top=1, rivals=(rivals := Rivals()))
    return rivals if rivals.verdict == answer.best[0].verdict else Rivals()


def _entries(family: Family, answers: Sequence[SearchResult], rivals: Sequence[Rivals]) -> list[RuntimePlans]:
    """The family's plans of every answer, less those that cannot be faster than another's."""
    limit, near = min(each.limits_s.get(family, math.inf) for each in rivals), list[tuple[Footprints, FloatColumn]]()
    for answer, of_space in zip(answers, rivals, strict=True):
        plans = Plans.join([_known(family, answer), of_space.within(family, limit)])
        if len(plans):
            memory = footprints_of(plans, answer.inputs)
            fast = _at(memory, HIGHEST).step_time_s
            memory, fast = memory.take(fast <= limit), fast[fast <= limit]
            # The fastest at the lowest bandwidth is no slower at the highest one than others at the lowest.
            limit = min(limit, float(_at(memory, LOWEST).step_time_s.min(initial=math.inf)) * ROUNDING)
            near.append((memory, fast))
    return [RuntimePlans(family, memory.take(fast <= limit)) for memory, fast in near if (fast <= limit).any()]


def _known(family: Family, answer: SearchResult) -> Plans:
    """Of the plans that an answer names, those of a family that are as safe as its best one."""
    safety = answer.best[0].verdict
    named = [each.plan for each in (answer.fastest, *answer.best) if each and each.verdict == safety]
    plans = Plans.of(dict.fromkeys(named))
    return plans.take(members(plans, family))


def _at(memory: Footprints, factor: float) -> Estimates:
    """The plans with every link between nodes `factor` times as fast."""
    return estimates_of(replace(memory, inputs=scaled(memory.inputs, factor)))


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


def crossover(answers: Sequence[SearchResult]) -> Crossover | None:
    """The faster family at the cluster's own bandwidth between nodes, and where the other one overtakes it.

    Method: the links between nodes, all levels by one factor, are taken from 1 outwards in doublings until the other
    family is faster, and that doubling is bisected on the logarithm. Of each runtime the plans that are as safe as
    its best one take part, so that the faster family at the cluster's own bandwidth is that of the fastest answer.

    answers: as of `families_of`. Returns None for a cluster without links between nodes.
    """
    inputs = answers[0].inputs
    if not network_levels(inputs.cluster):
        return None
    ranked = [(plans.best(1.0), plans) for plans in families_of(answers)]
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

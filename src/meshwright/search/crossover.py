"""Crossover: fully sharded plans against 3D ones, and the bandwidth between nodes at which the winner changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meshwright.search.families import HIGHEST, LOWEST, Contender, FamilyPlans, families_of, scaled
from meshwright.search.find import Progress, SearchResult
from meshwright.specs.inputs import Inputs
from meshwright.specs.scale import network_levels

TOLERANCE = 1.01
"""How near, as a ratio, the bandwidth found is to the change."""


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
    lowest: float
    """The least bandwidth looked at, bytes/s."""
    highest: float
    fastest: Contender
    other: Contender | None
    """The best of the slower family; None where none of its plans fits, or none as safely."""
    change: CrossoverPoint | None
    """None where the same family is faster at every bandwidth looked at."""


def crossover(answers: Sequence[SearchResult], progress: Progress | None = None) -> Crossover | None:
    """The faster family at the cluster's own bandwidth between nodes, and where the other one overtakes it.

    Method: the links between nodes, all levels by one factor, are taken from 1 outwards in doublings until the other
    family is faster, and that doubling is bisected on the logarithm. Of each runtime the plans that are as safe as
    its best one take part, so that the faster family at the cluster's own bandwidth is that of the fastest answer.

    answers: to one question, of one runtime each, all with a plan that fits; progress: told (plans considered, plans
    in all). Returns None for a cluster without links between nodes.
    """
    inputs = answers[0].inputs
    if not network_levels(inputs.cluster):
        return None
    ranked = [(plans.best(1.0), plans) for plans in families_of(answers, progress)]
    ranked.sort(key=lambda entry: entry[0].estimate.step_time_s)
    (fastest, leader), *others = ranked
    return Crossover(
        bandwidth=_bandwidth(inputs),
        lowest=_bandwidth(scaled(inputs, LOWEST)),
        highest=_bandwidth(scaled(inputs, HIGHEST)),
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

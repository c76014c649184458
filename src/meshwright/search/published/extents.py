"""Extents: how far the plans of published runs go, and which runs speak for which accelerators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from meshwright.specs.base import Spec
from meshwright.specs.inputs import Inputs

DEGREES = ("tp", "cp", "pp", "vpp", "ep", "etp")
NEWER = 1
"""Generations by which the accelerators of a run may be newer than those of a plan that it speaks for: a release of a
framework serves a new generation and the one before, and what ran on older ones goes on to run. Assumed."""
NEWEST = 99
"""The number of a generation that none is newer than."""


class Extent(Spec):
    """How far the plans of published runs go."""

    degrees: dict[str, int]
    """The largest of each."""
    accelerators: dict[str, int]
    """The most that a run of each kind had, 0 where no run is of it."""
    unbeaten: dict[str, int]
    """The same of runs that no other one of their job was measured to beat."""
    most_accelerators: int
    """Of any run."""

    def joined(self, other: Extent) -> Extent:
        """How far those of both go."""
        return Extent(
            degrees=_larger(self.degrees, other.degrees),
            accelerators=_larger(self.accelerators, other.accelerators),
            unbeaten=_larger(self.unbeaten, other.unbeaten),
            most_accelerators=max(self.most_accelerators, other.most_accelerators),
        )

    def without_beaten(self) -> Extent:
        """How far the kinds of unbeaten runs go, and the degrees of all."""
        return self.replace(accelerators=self.unbeaten)


def joined_extents(parts: Iterable[Mapping[int, Extent]]) -> dict[int, Extent]:
    """How far the runs of all parts go, by generation of accelerators."""
    extents: dict[int, Extent] = {}
    for part in parts:
        for number, own in part.items():
            extents[number] = extents.get(number, own).joined(own)
    return extents


def generation(inputs: Inputs) -> int:
    """Of accelerators, the later the higher: the major number of their compute capability; of those without one the
    number of the newest, so that all runs speak for them.
    """
    number = inputs.cluster.accelerator.compute_capability
    return NEWEST if number is None else int(number)


def extent_for(number: int, extents: Mapping[int, Extent]) -> Extent:
    """How far runs go that speak for accelerators of a generation: of it, of older ones and of the next.

    extents: of the runs, by generation. A kind of plan that other runs have alone is in it, with 0 accelerators.
    """
    near = [each for of, each in extents.items() if of <= number + NEWER]
    names = {name for each in extents.values() for name in each.accelerators}
    no_runs = dict.fromkeys(sorted(names), 0)
    none = Extent(degrees=dict.fromkeys(DEGREES, 1), accelerators=no_runs, unbeaten=no_runs, most_accelerators=0)
    return reduce(Extent.joined, near, none)


def _larger(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}

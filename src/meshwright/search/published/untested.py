"""Untested: what plans have that no published run has, or only runs that another plan was measured to beat."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.published.extents import NEWEST, Extent, generation
from meshwright.search.published.kinds import kinds
from meshwright.search.published.runs import extent
from meshwright.specs.inputs import Inputs

LARGER = 8
"""Times the accelerators of any published run of its kind, beyond which a plan is of another kind; assumed."""


class Unpublished(NamedTuple):
    """What no published run has, and how far published ones go."""

    what: str
    most: str
    """Of published runs."""


def is_unbeaten(plans: Plans, inputs: Inputs) -> BoolColumn:
    """Whether runs that no other one of their job was measured to beat go as far as each plan in every kind, and
    published ones in every degree, shape (n,); of accelerators, which all plans of a question have as many of, there
    may be more.
    """
    return ~goes_beyond(plans, inputs, extent(generation(inputs)).without_beaten())


def goes_beyond(plans: Plans, inputs: Inputs, known: Extent) -> BoolColumn:
    """Whether each plan goes further than some runs in any kind or degree, shape (n,); known: how far these go."""
    beyond = [getattr(plans, name) > largest for name, largest in known.degrees.items()]
    judged = _judged(plans, inputs, known)
    beyond += [is_of & _too_many(plans, known.accelerators[name]) for name, is_of in judged.items()]
    further: BoolColumn = np.any(beyond, axis=0)
    return further


def unpublished(plan: Plan, inputs: Inputs) -> list[Unpublished]:
    """Every kind and degree in which published runs do not go as far as a plan, and the accelerators, if there are more
    than any run of this generation or the next had.
    """
    known, anywhere, plans = extent(generation(inputs)), extent(NEWEST), Plans.of([plan])
    degrees = [
        Unpublished(_named(f"{name} {of}", 0, of <= anywhere.degrees[name]), f"{name} {largest}")
        for name, largest in known.degrees.items()
        if (of := getattr(plan, name)) > largest
    ]
    of_kinds = [
        Unpublished(_named(name, plan.num_gpus if most else 0, later), str(most or "none"))
        for name, is_of in _judged(plans, inputs, known).items()
        if (is_of & _too_many(plans, most := known.accelerators[name])).item()
        for later in [not _too_many(plans, anywhere.accelerators[name])]
    ]
    most = known.most_accelerators
    size = [Unpublished(f"{plan.num_gpus:,} accelerators", f"{most:,}")] if plan.num_gpus > most else []
    return degrees + of_kinds + size


def beaten_kinds(plan: Plan, inputs: Inputs) -> list[str]:
    """The kinds of a plan that published runs have on so many accelerators, each of them beaten by another plan."""
    known, plans = extent(generation(inputs)), Plans.of([plan])
    return [
        name
        for name, is_of in _judged(plans, inputs, known).items()
        if (is_of & _too_many(plans, known.unbeaten[name]) & ~_too_many(plans, known.accelerators[name])).item()
    ]


def _named(what: str, count: int, elsewhere: bool) -> str:
    """What no run has, on how many accelerators where fewer have it, and on which where later ones have it."""
    on = f" on {f'{count} ' if count else ''}accelerators" if count or elsewhere else ""
    return f"{what}{on}{' of this generation or the next' if elsewhere else ''}"


def _judged(plans: Plans, inputs: Inputs, known: Extent) -> dict[str, BoolColumn]:
    """The kinds of which published runs tell something; of a framework without any they tell nothing."""
    return {name: is_of for name, is_of in kinds(plans, inputs).items() if name in known.accelerators}


def _too_many(plans: Plans, most: int) -> BoolColumn:
    """Whether plans take far more accelerators than any published run, shape (n,)."""
    return plans.num_gpus > LARGER * most

"""Resolve: what of a plan depends on its cost: which layers each pipeline stage holds, what is recomputed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from meshwright.cost.shape_times import ShapeTimes
from meshwright.cost.step import estimate_plans
from meshwright.layout.legality import check
from meshwright.layout.plan import Plan, Recompute
from meshwright.layout.plans import Plans
from meshwright.layout.recompute_modules import modules_of, names_of
from meshwright.layout.splits import layers_of_chunks
from meshwright.search.constrained import satisfies
from meshwright.search.modules import usable_modules
from meshwright.search.rank import preference
from meshwright.search.resolve.chunks import lighter_ends
from meshwright.search.resolve.stages import best_splits
from meshwright.specs.inputs import Inputs


def resolved(plans: Sequence[Plan], inputs: Inputs, times: ShapeTimes | None = None) -> list[Plan]:
    """Every plan with the layers of its stages, then with what it recomputes, chosen by cost: as safe as can be, then
    the fastest, then the leanest; the leanest alone where nothing fits; itself where nothing is better.

    times: as of `estimate_plans`.
    """
    others = zip(plans, best_splits(plans, inputs, times), lighter_ends(plans, inputs, times), strict=True)
    split = _best_of([[plan, stages, *chunks] for plan, stages, chunks in others], inputs, times)
    less = recomputations(split, inputs)
    return _best_of([[plan, *others] for plan, others in zip(split, less, strict=True)], inputs, times)


def _best_of(alternatives: Sequence[Sequence[Plan]], inputs: Inputs, times: ShapeTimes | None) -> list[Plan]:
    """Of every row its best plan, the first of equals."""
    estimates = estimate_plans(Plans.of(plan for row in alternatives for plan in row), inputs, times=times)
    keys = preference(estimates)
    ends = np.cumsum([len(row) for row in alternatives])
    first = [
        np.lexsort([key[end - len(row) : end] for key in keys])[0] for row, end in zip(alternatives, ends, strict=True)
    ]
    return [row[int(index)] for row, index in zip(alternatives, first, strict=True)]


def recomputations(plans: Sequence[Plan], inputs: Inputs) -> list[list[Plan]]:
    """Of every plan the other ways in which its runtime recomputes a part of every layer, or a part of the layers.

    Of a plan that recomputes modules, every legal set of those that free something; of one that recomputes every layer,
    every smaller number of layers of a chunk. Returns none where the plan recomputes nothing, names that number itself,
    or has a runtime that knows only all of a kind.
    """
    legal = iter(_legal_module_sets([plan for plan in plans if plan.recompute == Recompute.SELECTIVE], inputs))
    return [next(legal) if plan.recompute == Recompute.SELECTIVE else _fewer_layers(plan, inputs) for plan in plans]


def _fewer_layers(plan: Plan, inputs: Inputs) -> list[Plan]:
    partial = inputs.runtime.plans.takes_recompute_layers
    if plan.recompute != Recompute.FULL or plan.recompute_layers or not partial:
        return []
    most = int(layers_of_chunks(inputs, plan).max())
    return [replace(plan, recompute_layers=count) for count in range(1, most)]


def _legal_module_sets(plans: Sequence[Plan], inputs: Inputs) -> list[list[Plan]]:
    if not plans:
        return []
    names = names_of(usable_modules(inputs))
    sets = [modules_of(some) for count in range(1, len(names) + 1) for some in combinations(names, count)]
    tried = Plans.of(plans).take(np.repeat(np.arange(len(plans)), len(sets)))
    tried = replace(tried, recompute_modules=np.tile(np.array(sets, dtype=np.int64), len(plans)))
    legal = check(tried, inputs).legal.reshape(len(plans), -1)
    changed = [
        [replace(plan, recompute_modules=sets[index]) for index in np.flatnonzero(accepted)]
        for plan, accepted in zip(plans, legal, strict=True)
    ]
    return [[each for each in row if satisfies(each, inputs)] for row in changed]

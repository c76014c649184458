"""Resolve: what of a plan depends on its cost: which layers each pipeline stage holds, what is recomputed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.shape_times import ShapeTimes
from meshwright.cost.step import estimate_plans
from meshwright.distinct import distinct_values
from meshwright.layout.legality import check
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.layout.splits import layers_of_chunks
from meshwright.search.plan_space.constrained import satisfies
from meshwright.search.plan_space.modules import usable_modules
from meshwright.search.ranking.rank import preference, rank_time_s
from meshwright.search.resolve.chunks import lighter_ends
from meshwright.search.resolve.stages import best_splits
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.recompute_modules import modules_of, names_of


class Resolved(NamedTuple):
    """Plans with what their cost decides."""

    plans: list[Plan]
    time_s: FloatColumn
    """As of `rank_time_s`, seconds."""
    verdict: IntColumn
    """Codes of `Verdict`."""


def resolved(
    plans: Sequence[Plan], inputs: Inputs, times: ShapeTimes | None = None, accepted: Verdict = Verdict.AT_RISK
) -> Resolved:
    """Every plan with the layers of its stages, then with what it recomputes, chosen by cost: as safe as can be, then
    the fastest, then the leanest; the leanest alone where nothing fits; itself where nothing is better.

    times: as of `estimate_plans`; accepted: the worst verdict of stages that are chosen.
    """
    splits = best_splits(plans, inputs, times, accepted)
    others = zip(plans, splits, lighter_ends(plans, inputs, times), strict=True)
    tried = [[plan, stages, *chunks] for plan, stages, chunks in others]
    table, of = Plans.of(plan for row in tried for plan in row), np.repeat(np.arange(len(tried)), [*map(len, tried)])
    split = _best_of(table, of, inputs, times)
    recomputed, own = recomputations(split.plans, inputs)
    return _best_of(recomputed, own, inputs, times) if len(recomputed) > len(plans) else split


def _best_of(plans: Plans, of: IntColumn, inputs: Inputs, times: ShapeTimes | None) -> Resolved:
    """For every number in `of` the best of its plans, the first of equals. of: 0 and up, shape (n,)."""
    estimates = estimate_plans(plans, inputs, times=times)
    ranked = np.lexsort((*preference(estimates), of))
    first = ranked[distinct_values(of[ranked]).first]
    return Resolved([plans[row] for row in first], rank_time_s(estimates)[first], estimates.verdict[first])


def recomputations(plans: Sequence[Plan], inputs: Inputs) -> tuple[Plans, IntColumn]:
    """Every plan with the other ways in which its runtime recomputes a part of every layer, or a part of the layers.

    Of a plan that recomputes modules, every legal set of those that free something; of one that recomputes every layer,
    every smaller number of layers of a chunk. None where the plan recomputes nothing, names that number itself, or has
    a runtime that knows only all of a kind. Returns all of them, the plans themselves first, and which of them each is
    of, shape (n,).
    """
    table = Plans.of(plans)
    fewer, modules = _fewer_layers(plans, table, inputs), _legal_module_sets(table, inputs)
    own = np.arange(len(plans))
    return Plans.join([table, fewer[0], modules[0]]), np.concatenate([own, fewer[1], modules[1]])


def _fewer_layers(plans: Sequence[Plan], table: Plans, inputs: Inputs) -> tuple[Plans, IntColumn]:
    partial = inputs.runtime.plans.takes_recompute_layers
    all_layers = [
        (row, int(layers_of_chunks(inputs, plan).max()))
        for row, plan in enumerate(plans)
        if partial and plan.recompute == Recompute.FULL and not plan.recompute_layers
    ]
    of = np.array([row for row, most in all_layers for _ in range(1, most)], dtype=np.int64)
    fewer = np.array([count for _, most in all_layers for count in range(1, most)], dtype=np.int64)
    return replace(table.take(of), recompute_layers=fewer), of


def _legal_module_sets(table: Plans, inputs: Inputs) -> tuple[Plans, IntColumn]:
    selective = np.flatnonzero(table.recompute == Recompute.SELECTIVE)
    if not len(selective):
        return table.take(selective), selective
    names = names_of(usable_modules(inputs))
    sets = [modules_of(some) for count in range(1, len(names) + 1) for some in combinations(names, count)]
    of = np.repeat(selective, len(sets))
    tried = replace(table.take(of), recompute_modules=np.tile(np.array(sets, dtype=np.int64), len(selective)))
    chosen = check(tried, inputs).legal & satisfies(tried, inputs)
    return tried.take(chosen), of[chosen]

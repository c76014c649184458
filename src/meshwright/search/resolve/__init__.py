"""Resolve: what of a plan depends on its cost: which layers each pipeline stage holds, what is recomputed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meshwright.cost.step import estimate_plans
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.rank import preference
from meshwright.search.resolve.chunks import lighter_ends
from meshwright.search.resolve.recompute import recomputations
from meshwright.search.resolve.stages import best_split
from meshwright.specs.inputs import Inputs


def resolved(plans: Sequence[Plan], inputs: Inputs) -> list[Plan]:
    """Every plan with the layers of its stages, then with what it recomputes, chosen by cost: as safe as can be, then
    the fastest, then the leanest; the leanest alone where nothing fits; itself where nothing is better.
    """
    split = _best_of([[plan, best_split(plan, inputs), *lighter_ends(plan, inputs)] for plan in plans], inputs)
    return _best_of([[plan, *recomputations(plan, inputs)] for plan in split], inputs)


def _best_of(alternatives: Sequence[Sequence[Plan]], inputs: Inputs) -> list[Plan]:
    """Of every row its best plan, the first of equals."""
    estimates = estimate_plans(Plans.of(plan for row in alternatives for plan in row), inputs)
    keys = preference(estimates)
    ends = np.cumsum([len(row) for row in alternatives])
    first = [
        np.lexsort([key[end - len(row) : end] for key in keys])[0] for row, end in zip(alternatives, ends, strict=True)
    ]
    return [row[int(index)] for row, index in zip(alternatives, first, strict=True)]

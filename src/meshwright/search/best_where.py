"""Best where: the best of the plans that are of one sort, fitting or not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshwright.arrays import BoolColumn
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.layout.legality import check
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.find import chunks
from meshwright.search.rank import preference
from meshwright.specs.inputs import Inputs


def best_where(inputs: Inputs, wanted: Callable[[Plans], BoolColumn]) -> Estimate | None:
    """Of the legal plans of a question that are wanted, the safest, then the fastest; the leanest where none fits.

    wanted: (plans) -> which of them, shape (n,). Returns None where no legal plan is wanted.
    """
    best: list[Plan] = []
    for chunk in chunks(inputs):
        plans = chunk.take(wanted(chunk))
        legal = plans.take(check(plans, inputs).legal) if len(plans) else plans
        if len(legal):
            best.append(_first(legal, inputs))
    return estimate_each([_first(Plans.of(best), inputs)], inputs)[0] if best else None


def _first(plans: Plans, inputs: Inputs) -> Plan:
    return plans[int(np.lexsort(preference(estimate_plans(plans, inputs)))[0])]

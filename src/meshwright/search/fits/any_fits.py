"""Any fits: whether a question has a legal plan that fits in memory, told from as few plans as possible."""

from __future__ import annotations

from meshwright.cost.footprint import footprints_of
from meshwright.cost.memory.fit import Verdict
from meshwright.layout.legality import check
from meshwright.layout.plans import regrouped
from meshwright.search.plan_space.space import parts, tables_of
from meshwright.specs.inputs import Inputs

TABLE = 1 << 12
"""Plans that are looked at together."""
MOST = 1 << 15
"""Plans after which the answer stays open: a second at most."""


def any_fits(inputs: Inputs) -> bool | None:
    """Whether some legal plan of a question fits, safely or at risk; None where the first `MOST` of its space do not
    tell.
    """
    seen = 0
    for plans in regrouped(tables_of(parts(inputs), inputs), TABLE):
        if seen >= MOST:
            return None
        seen += len(plans)
        legal = plans.take(check(plans, inputs).legal)
        if len(legal) and (footprints_of(legal, inputs).verdict < Verdict.OUT_OF_MEMORY).any():
            return True
    return False

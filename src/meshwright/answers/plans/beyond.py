"""Beyond: what is searched for after the best plans, and told beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from meshwright.answers.plans.switched_plan import SwitchedPlan, switched_plan
from meshwright.answers.unfit.ways_to_fit import ways_to_fit
from meshwright.cost.estimate import Estimate
from meshwright.errors import Stopped
from meshwright.search.find import Progress, SearchResult
from meshwright.search.many_searches.constraint_costs import ConstraintCost, constraint_costs

if TYPE_CHECKING:
    from meshwright.search.many_searches.remedies import Remedy


class Beyond(NamedTuple):
    """What is told beside the best plans; what was not searched for is empty."""

    front: Sequence[Estimate] = ()
    """The plans that no other beats in both time and memory."""
    costs: Sequence[ConstraintCost] = ()
    """What the constraints of the question cost."""
    switched: SwitchedPlan | None = None
    """The best plan with other switches."""
    ways: Sequence[Remedy] | None = None
    """What would be safe, where no plan is."""


NOTHING = Beyond()


def beyond(result: SearchResult, progress: Progress, *, front: bool = False) -> Beyond:
    """All of it; nothing where a search was stopped. front: whether the front is asked for; progress: as in `find`."""
    if not result.complete:
        return NOTHING
    try:
        return Beyond(
            front=_front(result, progress) if front else (),
            costs=constraint_costs(result, progress),
            switched=switched_plan(result, progress),
            ways=ways_to_fit(result, progress),
        )
    except Stopped:
        return NOTHING


def _front(result: SearchResult, progress: Progress) -> Sequence[Estimate]:
    from meshwright.search.many_searches.pareto import pareto

    return pareto(result, progress)

"""Safe: the plan that a search recommends, where it is safe, for those who need neither other plans nor counts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.shape_times import ShapeTimes
from meshwright.errors import IllegalPlan, Stopped
from meshwright.layout.legality import may_be_legal
from meshwright.layout.plan import Plan
from meshwright.search.finalists import candidates, chosen, gaining, priced
from meshwright.search.find import legal_tables
from meshwright.search.fits.fitting import Tally, fitting_where_safe
from meshwright.search.plan_space.space import Part, parts
from meshwright.search.ranking.rank import order
from meshwright.search.ranking.ties import ranks_of
from meshwright.search.stop import Progress
from meshwright.specs.inputs import Inputs


def safe_plan(inputs: Inputs, progress: Progress | None = None) -> Estimate | None:
    """The plan that `find` recommends, where it is safe; plans that cannot be are left out as soon as bounds tell.

    progress: told as by `find`. Raises `NotModelled` as `find` does, `IllegalPlan`, without what is wrong, when the
    runtime refuses every plan, `Stopped` where progress stops it.
    """
    tally, times = Tally(), ShapeTimes(inputs)
    legal = legal_tables([*_parts(inputs)], inputs, tally, progress)
    few = [candidates(fitting_where_safe(plans, inputs), 1, tally, times) for plans in legal]
    if tally.considered < tally.size:
        raise Stopped("the search is not complete")
    if not tally.legal:
        raise IllegalPlan(f"every plan of {inputs.runtime.id}", [])
    if not any(map(len, few)):
        return None
    finalists = priced(few, inputs, times)
    more = gaining(finalists, times, Verdict.SAFE)
    if len(more):
        finalists = priced([*few, more], inputs, times)
    best = finalists[chosen(finalists, ranks_of(finalists), order(finalists), 1).best[0]]
    return best if best.verdict == Verdict.SAFE else None


def _parts(inputs: Inputs) -> Iterator[Part]:
    """The parts of the space that may have legal plans, without an etp that has none."""

    @cache
    def may_be(tp: int, dp: int, etp: int) -> bool:
        count = max(inputs.job.global_batch // dp, 1)
        return may_be_legal(Plan(tp=tp, dp=dp, etp=etp, num_microbatches=count), inputs)

    for part in parts(inputs):
        grids = [(ep, etp) for ep, etp in part.grids if may_be(part.split.tp, part.split.dp, etp)]
        if grids:
            yield part._replace(grids=grids)

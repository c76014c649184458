"""Safe: the plan that a search recommends, where it is safe, for those who need neither other plans nor counts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from meshwright.cost.estimate import Estimate
from meshwright.cost.footprint import PlanTable
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.shape_times import ShapeTimes
from meshwright.cost.shapes import pipelines_of
from meshwright.cost.step import estimates_of, least_step_time
from meshwright.errors import IllegalPlan, Stopped
from meshwright.layout.legality import may_be_legal
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.finalists import candidate_rows, chosen, gaining, priced, shown
from meshwright.search.find import legal_tables, whole_answer
from meshwright.search.fits.bounds import least_memory
from meshwright.search.fits.fitting import Tally, fitting_where_safe
from meshwright.search.plan_space.space import Part, parts
from meshwright.search.ranking.longest import LongestSteps
from meshwright.search.ranking.rank import order
from meshwright.search.ranking.ties import ranks_of
from meshwright.search.stop import Progress
from meshwright.specs.inputs import Inputs


def safe_plan(inputs: Inputs, progress: Progress | None = None) -> Estimate | None:
    """The plan that `find` recommends, where it is safe; plans that cannot be are left out as soon as bounds tell.

    progress: told as by `find`. Raises `NotModelled` as `find` does, `IllegalPlan`, without what is wrong, when the
    runtime refuses every plan, `Stopped` where progress stops it.
    """
    tally, times, longest = Tally(), ShapeTimes(inputs), LongestSteps(inputs)
    legal = legal_tables([*_parts(inputs)], inputs, tally, progress)
    few = [_candidates(plans, longest, times) for plans in legal]
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
    rows = chosen(finalists, ranks_of(finalists), order(finalists), 1).best
    ((best,),) = shown(finalists, rows, times=times)
    return best if best.verdict == Verdict.SAFE else None


def recommended(inputs: Inputs, progress: Progress | None = None) -> Estimate | None:
    """The plan that `find` recommends, safe or not; None where no plan fits. progress, and what is raised: as of
    `find`, and `Stopped` where progress stops it before its end.
    """
    try:
        safe = safe_plan(inputs, progress)
    except IllegalPlan:  # a whole search says what is wrong
        safe = None
    return safe or next(iter(whole_answer(inputs, progress).best), None)


def _candidates(legal: Plans, longest: LongestSteps, times: ShapeTimes) -> Plans:
    """The plans of a table of legal ones that the answer may take. Memory is priced of those alone that may be safe by
    their states, and that do not take too long for the safe plans of the tables before.
    """
    inputs = times.inputs
    pipelines, _ = pipelines_of(legal, inputs, keep_all_stages=False)
    rows = np.flatnonzero(~least_memory(pipelines, inputs, Verdict.SAFE).unfit)
    if len(rows):
        plans, (own, stages) = legal.some(rows), pipelines.of_plans(rows)
        least_s = least_step_time(PlanTable.of(plans, own, stages, inputs), times)
        rows = rows[longest.allow(plans, least_s)]
    memory = fitting_where_safe(legal, pipelines, rows, inputs)
    if not len(memory):
        return memory.plans
    estimates = estimates_of(memory, times)
    longest.add(estimates)
    return memory.plans.take(candidate_rows(estimates, ranks_of(estimates), 1))


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

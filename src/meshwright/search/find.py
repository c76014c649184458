"""Find: price every legal plan in chunks and keep the best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from meshwright.arrays import BoolColumn, keep_freed_memory
from meshwright.cost.estimate import Estimate
from meshwright.cost.footprint import Footprints, footprints_of
from meshwright.cost.shape_times import ShapeTimes
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.errors import Stopped
from meshwright.layout.legality import check
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans, regrouped
from meshwright.search.finalists import as_published, best_at_risk, candidates, chosen, gaining, priced, shown
from meshwright.search.fits.fitting import Tally, fitting
from meshwright.search.plan_space.space import Part, parts, space, tables_of
from meshwright.search.ranking.rank import order, preference
from meshwright.search.ranking.rivals import Rivals
from meshwright.search.ranking.ties import Ranks, equal_plans, ranks_of
from meshwright.search.result import SearchResult as SearchResult
from meshwright.search.stop import Progress as Progress
from meshwright.search.stop import goes_on, stopped
from meshwright.search.unmet import nothing_legal
from meshwright.specs.inputs import Inputs

CHUNK = 1 << 17
DEEP = 128
"""Layers beyond which tables have fewer rows, by the square of their number: as a search ends between two tables, no
table may take long, and more stages of more layers do."""


def find(
    inputs: Inputs,
    top: int = 5,
    progress: Progress | None = None,
    rivals: Rivals | None = None,
) -> SearchResult:
    """Consider every plan of the space, price the legal ones, rank those that fit.

    top: how many of the best to keep; rivals: what gets those of the plans that fit. Raises `NotModelled` for a model
    that is not planned yet, `IllegalPlan` when the runtime refuses every plan, `Stopped` where progress stops it before
    a plan fits.
    """
    tally, times = Tally(rivals=rivals), ShapeTimes(inputs)
    legal = legal_tables(parts(inputs), inputs, tally, progress)
    known = [candidates(fitting(plans, inputs, tally), top, tally, times) for plans in legal]
    complete = tally.considered == tally.size
    if not complete and not tally.fitting:
        raise stopped(tally.considered, tally.size)
    if not tally.legal:
        raise nothing_legal(inputs, tally.considered)
    finalists = priced([*known, *tally.leanest], inputs, times)
    more = gaining(finalists, times) if complete else Plans.of([])
    if len(more):
        finalists = priced([*known, more, *tally.leanest], inputs, times)
    first_gaining = sum(map(len, known))
    first_lean = first_gaining + len(more)
    lean = finalists.worst_memory.device[first_lean:]
    ranked = order(finalists)
    ranked = ranked[ranked < first_lean]
    ranks = ranks_of(finalists)
    tally.near.append(ranks.take(ranked[ranked >= first_gaining]))
    best, other_splits, fastest, proven, tested, at_risk, leanest = shown(
        finalists,
        *chosen(finalists, ranks, ranked, top),
        ranked[:1],
        as_published(finalists, ranked[ranks.known_layout[ranked]])[:1],
        ranked[ranks.unbeaten[ranked]][:1],
        best_at_risk(finalists, ranked),
        first_lean + np.argmin(lean, keepdims=True),
        times=times,
    )
    return SearchResult(
        inputs=inputs,
        considered=tally.considered,
        legal=tally.legal,
        fitting=tally.fitting,
        unpriced=tally.unpriced,
        refused=tally.refused,
        best=best,
        other_splits=other_splits,
        fastest=next(iter(fastest), None),
        equal=_equal(tally.near, inputs),
        proven=next(iter(proven), None),
        tested=next(iter(tested), None),
        at_risk=next(iter(at_risk), None),
        leanest=leanest[0],
        complete=complete,
        size=tally.size,
        rivals=rivals,
    )


def whole_answer(inputs: Inputs, progress: Progress | None) -> SearchResult:
    """The answer of a whole search, with its best plan alone; raises `Stopped` where it is stopped."""
    answer = find(inputs, top=1, progress=progress)
    if not answer.complete:
        raise Stopped("the search is not complete")
    return answer


def chunks(inputs: Inputs) -> Iterator[Plans]:
    """Every plan of the space, legal or not, in tables of `CHUNK` rows at most."""
    return regrouped(space(inputs), rows_of_table(inputs))


def rows_of_table(inputs: Inputs) -> int:
    """Rows of a table."""
    return CHUNK * DEEP**2 // max(DEEP, inputs.model.num_layers) ** 2 or 1


def legal_footprints(
    answers: Sequence[SearchResult], progress: Progress | None = None, *, fitting_only: bool = False
) -> Iterator[tuple[int, Footprints]]:
    """The memory of the legal plans of every space, in tables of at most `CHUNK` rows, with the index of their answer.

    answers: searches of those spaces; progress: told (plans considered, plans of all spaces); fitting_only: of those
    plans that fit.
    """
    done, total = 0, sum(answer.considered for answer in answers)
    for index, inputs in enumerate(answer.inputs for answer in answers):
        for chunk in chunks(inputs):
            legal = chunk.take(check(chunk, inputs).legal)
            if len(legal):
                yield index, fitting(legal, inputs, Tally()) if fitting_only else footprints_of(legal, inputs)
            done += len(chunk)
            if progress:
                progress(done, total)


def best_where(inputs: Inputs, wanted: Callable[[Plans], BoolColumn]) -> Estimate | None:
    """Of the legal plans of a question that are wanted, the safest, then the fastest; the leanest where none fits.

    wanted: (plans) -> which of them, shape (n,). Returns None where no legal plan is wanted.
    """
    best: list[Plan] = []
    for chunk in chunks(inputs):
        plans = chunk.take(wanted(chunk))
        legal = plans.take(check(plans, inputs).legal) if len(plans) else plans
        if len(legal):
            best.append(_preferred(legal, inputs))
    return estimate_each([_preferred(Plans.of(best), inputs)], inputs)[0] if best else None


def _preferred(plans: Plans, inputs: Inputs) -> Plan:
    return plans[int(np.lexsort(preference(estimate_plans(plans, inputs)))[0])]


def legal_tables(known: Sequence[Part], inputs: Inputs, tally: Tally, progress: Progress | None) -> Iterator[Plans]:
    """The legal plans of some parts of the space, in tables of `CHUNK` rows at most; all plans are counted."""
    return (plans for plans in regrouped(_legal(known, inputs, tally, progress), rows_of_table(inputs)) if len(plans))


def _legal(known: Sequence[Part], inputs: Inputs, tally: Tally, progress: Progress | None) -> Iterator[Plans]:
    """The legal plans of every chunk of some parts of the space; all are counted."""
    keep_freed_memory()
    tally.size = sum(part.size for part in known)
    if not goes_on(progress, 0, tally.size):
        return
    for chunk in regrouped(tables_of(known, inputs), rows_of_table(inputs)):
        legality = check(chunk, inputs)
        tally.considered += len(chunk)
        for rule, count in legality.refused.items():
            tally.refused[rule] = tally.refused.get(rule, 0) + count
        legal = chunk.take(legality.legal)
        tally.legal += len(legal)
        yield legal
        if not goes_on(progress, tally.considered, tally.size):
            return


def _equal(tables: list[Ranks], inputs: Inputs) -> int:
    """How many plans of all tables are as good as the fastest."""
    ranks = Ranks(*(np.concatenate(column) for column in zip(*tables, strict=True)))
    return equal_plans(ranks, inputs) if len(ranks.verdict) else 0

"""Find: price every legal plan in chunks and keep the best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn, IntColumn
from meshwright.cost.estimate import Estimate, Estimates
from meshwright.cost.footprint import Footprints, footprints_of
from meshwright.cost.memory.fit import EVEN, Verdict
from meshwright.cost.shape_times import ShapeTimes
from meshwright.cost.step import estimate_each, estimate_plans, estimates_of
from meshwright.distinct import distinct_rows, distinct_values
from meshwright.layout.legality import check, keeps_tp
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans, regrouped
from meshwright.search.fits.fitting import Tally, fitting
from meshwright.search.plan_space.space import Part, parts, space, tables_of
from meshwright.search.published.layouts import has_published_layout
from meshwright.search.ranking.rank import LEAST_GAIN, order, preference, rank_time_s
from meshwright.search.ranking.rivals import Rivals
from meshwright.search.ranking.ties import (
    Ranks,
    best_of_groups,
    choices,
    contenders,
    contenders_of_all,
    equal_plans,
    ranks_of,
    recomputed_in_vain,
    tied_rows,
)
from meshwright.search.resolve import resolved
from meshwright.search.resolve.stages import named_by_ends
from meshwright.search.result import SearchResult as SearchResult
from meshwright.search.stop import Progress as Progress
from meshwright.search.stop import goes_on, stopped
from meshwright.search.unmet import nothing_legal
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs

CHUNK = 1 << 17
DEEP = 128
"""Layers beyond which tables have fewer rows, by the square of their number: as a search ends between two tables, no
table may take long, and more stages of more layers do."""
RESOLVED = 8
"""Of the best plans, those whose stages, or layers to recompute, are chosen by cost."""


def find(
    inputs: Inputs,
    top: int = 5,
    progress: Progress | None = None,
    rivals: Rivals | None = None,
    *,
    counted: bool = True,
) -> SearchResult:
    """Consider every plan of the space, price the legal ones, rank those that fit.

    top: how many of the best to keep; rivals: what gets those of the plans that fit; counted: whether plans are
    enumerated, and counted, that are illegal by their tp alone. Raises `NotModelled` for a model that is not planned
    yet, `IllegalPlan` when the runtime refuses every plan, `Stopped` where progress stops it before a plan fits.
    """
    tally, times = Tally(rivals=rivals), ShapeTimes(inputs)
    known = [part for part in parts(inputs) if counted or keeps_tp(part.split.tp, inputs)]
    legal = regrouped(_legal(known, inputs, tally, progress), _rows(inputs))
    candidates = [_candidates(fitting(plans, inputs, tally), top, tally, times) for plans in legal if len(plans)]
    complete = tally.considered == tally.size
    if not complete and not tally.fitting:
        raise stopped(tally.considered, tally.size)
    if not tally.legal:
        raise nothing_legal(inputs, tally.considered)
    finalists = _priced([*candidates, *tally.leanest], inputs, times)
    gaining = _gaining(finalists, times) if complete else Plans.of([])
    if len(gaining):
        finalists = _priced([*candidates, gaining, *tally.leanest], inputs, times)
    first_gaining = sum(map(len, candidates))
    first_lean = first_gaining + len(gaining)
    lean = finalists.worst_memory.device[first_lean:]
    ranked = order(finalists)
    ranked = ranked[ranked < first_lean]
    ranks = ranks_of(finalists)
    tally.near.append(ranks.take(ranked[ranked >= first_gaining]))
    rows = _chosen(finalists, ranks, ranked, top)
    return SearchResult(
        inputs=inputs,
        considered=tally.considered,
        legal=tally.legal,
        fitting=tally.fitting,
        unpriced=tally.unpriced,
        refused=tally.refused,
        best=tuple(finalists[row] for row in rows.best),
        other_splits=tuple(finalists[row] for row in rows.other_splits),
        fastest=next((finalists[row] for row in ranked), None),
        equal=_equal(tally.near, inputs),
        proven=next((finalists[row] for row in _as_published(finalists, ranked[ranks.known_layout[ranked]])), None),
        at_risk=next((finalists[row] for row in _best_at_risk(finalists, ranked)), None),
        leanest=finalists[first_lean + int(np.argmin(lean))],
        complete=complete,
        size=tally.size,
        rivals=rivals,
    )


def _priced(tables: Iterable[Plans], inputs: Inputs, times: ShapeTimes) -> Estimates:
    """With all stages, as answers show them."""
    return estimate_plans(Plans.join(tables), inputs, keep_all_stages=True, times=times)


class _Chosen(NamedTuple):
    """Rows of an answer."""

    best: IntColumn
    other_splits: IntColumn


def _chosen(estimates: Estimates, ranks: Ranks, fitting: IntColumn, top: int) -> _Chosen:
    """The recommended plan and its alternatives; ranks: of all; fitting: rows of the plans that fit."""
    if not len(fitting):
        return _Chosen(fitting, fitting)
    inputs, plans = estimates.inputs, estimates.plans.take(fitting)
    ranks, choice, split = ranks.take(fitting), choices(plans), _splits_of(plans)
    first = tied_rows(ranks, inputs)[0]
    others = best_of_groups(ranks, choice, inputs)
    others = others[~recomputed_in_vain(plans, ranks)[others]]
    best = np.concatenate([[first], others[choice[others] != choice[first]]])[:top]
    splits = best_of_groups(ranks, split, inputs)
    return _Chosen(fitting[best], fitting[splits[~np.isin(split[splits], split[best])][:top]])


def _equal(tables: list[Ranks], inputs: Inputs) -> int:
    """How many plans of all tables are as good as the fastest."""
    ranks = Ranks(*(np.concatenate(column) for column in zip(*tables, strict=True)))
    return equal_plans(ranks, inputs) if len(ranks.verdict) else 0


def chunks(inputs: Inputs) -> Iterator[Plans]:
    """Every plan of the space, legal or not, in tables of `CHUNK` rows at most."""
    return regrouped(space(inputs), _rows(inputs))


def _rows(inputs: Inputs) -> int:
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


def _legal(known: Sequence[Part], inputs: Inputs, tally: Tally, progress: Progress | None) -> Iterator[Plans]:
    """The legal plans of every chunk of some parts of the space; the others are counted."""
    tally.size = sum(part.size for part in known)
    if not goes_on(progress, 0, tally.size):
        return
    for chunk in regrouped(tables_of(known, inputs), _rows(inputs)):
        legality = check(chunk, inputs)
        tally.considered += len(chunk)
        for rule, count in legality.refused.items():
            tally.refused[rule] = tally.refused.get(rule, 0) + count
        yield chunk.take(legality.legal)
        if not goes_on(progress, tally.considered, tally.size):
            return


def _candidates(memory: Footprints, top: int, tally: Tally, times: ShapeTimes) -> Plans:
    """The plans that any part of the answer but the leanest may take."""
    fitting, inputs = memory.plans, memory.inputs
    if not len(fitting):
        return fitting
    estimates = estimates_of(memory, times)
    if tally.rivals:
        tally.rivals.add(estimates)
    ranks, ranked = ranks_of(estimates), order(estimates)
    chosen = np.zeros(len(fitting), dtype=bool)
    best = contenders(ranks, choices(fitting), 2 * (top + 1), inputs)
    splits = contenders(ranks, _splits_of(fitting), 2 * top, inputs)
    known = ranked[ranks.known_layout[ranked]]
    for rows in (
        best,
        splits,
        ranked[:1],
        _as_published(estimates, known)[:1],
        _best_at_risk(estimates, ranked),
        *_resolvable(fitting, ranked),
        *_resolvable(fitting, known),
    ):
        chosen[rows] = True
    tally.near.append(ranks.take(contenders_of_all(ranks, inputs)))
    return fitting.take(chosen)


def _splits_of(plans: Plans) -> IntColumn:
    """A number for each (tp, cp, pp), which leave dp to the rest; shape (n,)."""
    return distinct_rows(plans.tp, plans.cp, plans.pp)[1]


def _resolvable(plans: Plans, ranked: IntColumn) -> list[IntColumn]:
    """Of the ranked rows, the first with one chunk a stage, with several, and with layers or modules recomputed."""
    one, recompute = plans.vpp[ranked] == 1, plans.recompute[ranked]
    kinds = (plans.pp[ranked] > 1) & one, ~one, recompute == Recompute.FULL, recompute == Recompute.SELECTIVE
    return [ranked[kind][:RESOLVED] for kind in kinds]


def _gaining(estimates: Estimates, known: ShapeTimes) -> Plans:
    """The first of the candidates, and of those with a published layout, fitting or not, with what their cost decides,
    where this gains.
    """
    candidates, inputs, times = estimates.plans, estimates.inputs, rank_time_s(estimates)
    first = np.lexsort((times, estimates.verdict))
    published = first[has_published_layout(candidates, inputs)[first]]
    resolvable = [*_resolvable(candidates, first), *_resolvable(candidates, published)]
    rows = distinct_values(np.concatenate(resolvable)).values
    after = resolved([candidates[row] for row in rows], inputs, known)
    faster = after.time_s < (1 - LEAST_GAIN) * times[rows]
    safer = after.verdict < estimates.verdict[rows]
    gains = safer | (faster & (after.verdict == estimates.verdict[rows]))
    gained = (after.plans[row] for row in np.flatnonzero(gains))
    return Plans.of(dict.fromkeys(named_by_ends(plan, inputs) for plan in gained))


def _as_published(estimates: Estimates, known: IntColumn) -> IntColumn:
    """Of the ranked rows of a published layout, the fastest first of those that are as likely as not to fit: that it
    fitted is known. All of them as they are ranked, where none is.
    """
    likely = known[estimates.probability[known] >= EVEN]
    if not len(likely):
        return known
    fastest: IntColumn = likely[np.argsort(rank_time_s(estimates)[likely], kind="stable")]
    return fastest


def _best_at_risk(estimates: Estimates, ranked: IntColumn) -> IntColumn:
    """Of the ranked rows, the first that is at risk of running out of memory, where there is one."""
    risky: IntColumn = ranked[estimates.verdict[ranked] == Verdict.AT_RISK][:1]
    return risky

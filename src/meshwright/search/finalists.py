"""Finalists: the fitting plans that an answer may take, what their cost decides, and which are taken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from meshwright.arrays import IntColumn
from meshwright.cost.estimate import Estimate, Estimates
from meshwright.cost.footprint import Footprints
from meshwright.cost.memory.fit import EVEN, Verdict
from meshwright.cost.shape_times import ShapeTimes
from meshwright.cost.step import estimate_plans, estimates_of
from meshwright.distinct import distinct_rows, distinct_values
from meshwright.layout.plans import Plans
from meshwright.search.fits.fitting import Tally
from meshwright.search.published.layouts import has_published_layout
from meshwright.search.ranking.longest import RESOLVED, resolvable
from meshwright.search.ranking.rank import LEAST_GAIN, order, order_of_all, rank_time_s
from meshwright.search.ranking.ties import (
    Ranks,
    best_of_groups,
    choices,
    contenders,
    contenders_of_all,
    ranks_of,
    recomputed_in_vain,
    tied_rows,
)
from meshwright.search.resolve import resolved
from meshwright.search.resolve.stages import named_by_ends
from meshwright.specs.inputs import Inputs


def priced(tables: Iterable[Plans], inputs: Inputs, times: ShapeTimes) -> Estimates:
    """All plans of some tables."""
    return estimate_plans(Plans.join(tables), inputs, times=times)


def shown(finalists: Estimates, *chosen: IntColumn, times: ShapeTimes) -> list[tuple[Estimate, ...]]:
    """The estimates of chosen rows with all stages, as answers show them."""
    plans = finalists.plans.take(np.concatenate(chosen))
    whole = estimate_plans(plans, finalists.inputs, keep_all_stages=True, times=times)
    places = iter(range(len(plans)))
    return [tuple(whole[next(places)] for _ in rows) for rows in chosen]


class Chosen(NamedTuple):
    """Rows of an answer."""

    best: IntColumn
    other_splits: IntColumn


def chosen(estimates: Estimates, ranks: Ranks, fitting: IntColumn, top: int) -> Chosen:
    """The recommended plan and its alternatives; ranks: of all; fitting: rows of the plans that fit."""
    if not len(fitting):
        return Chosen(fitting, fitting)
    inputs, plans = estimates.inputs, estimates.plans.take(fitting)
    ranks, choice, split = ranks.take(fitting), choices(plans), _splits_of(plans)
    first = tied_rows(ranks, inputs)[0]
    others = best_of_groups(ranks, choice, inputs)
    others = others[~recomputed_in_vain(plans, ranks)[others]]
    best = np.concatenate([[first], others[choice[others] != choice[first]]])[:top]
    splits = best_of_groups(ranks, split, inputs)
    return Chosen(fitting[best], fitting[splits[~np.isin(split[splits], split[best])][:top]])


def candidates(memory: Footprints, top: int, tally: Tally, times: ShapeTimes) -> Plans:
    """The plans that any part of the answer but the leanest may take."""
    if not len(memory):
        return memory.plans
    estimates = estimates_of(memory, times)
    if tally.rivals:
        tally.rivals.add(estimates)
    ranks = ranks_of(estimates)
    tally.near.append(ranks.take(contenders_of_all(ranks, memory.inputs)))
    return memory.plans.take(candidate_rows(estimates, ranks, top))


def candidate_rows(estimates: Estimates, ranks: Ranks, top: int) -> IntColumn:
    """The same of priced plans that fit, as rows in their order; ranks: theirs."""
    fitting, inputs, ranked = estimates.plans, estimates.inputs, order(estimates)
    taken = np.zeros(len(fitting), dtype=bool)
    best = contenders(ranks, choices(fitting), 2 * (top + 1), inputs)
    splits = contenders(ranks, _splits_of(fitting), 2 * top, inputs)
    known = ranked[ranks.known_layout[ranked]]
    for rows in (
        best,
        splits,
        ranked[:1],
        as_published(estimates, known)[:1],
        best_at_risk(estimates, ranked),
        ranked[ranks.unbeaten[ranked]][:1],
        *_resolvable(fitting, ranked),
        *_resolvable(fitting, known),
    ):
        taken[rows] = True
    return np.flatnonzero(taken)


def _splits_of(plans: Plans) -> IntColumn:
    """A number for each (tp, cp, pp), which leave dp to the rest; shape (n,)."""
    return distinct_rows(plans.tp, plans.cp, plans.pp)[1]


def _resolvable(plans: Plans, ranked: IntColumn) -> list[IntColumn]:
    """Of the ranked rows, the first of each kind of `resolvable`."""
    return [ranked[kind[ranked]][:RESOLVED] for kind in resolvable(plans)]


def gaining(estimates: Estimates, known: ShapeTimes, accepted: Verdict = Verdict.AT_RISK) -> Plans:
    """The first of the candidates, and of those with a published layout, fitting or not, with what their cost decides,
    where this gains. accepted: the worst verdict of stages that are chosen.
    """
    candidates, inputs, times = estimates.plans, estimates.inputs, rank_time_s(estimates)
    first = order_of_all(estimates)
    published = first[has_published_layout(candidates, inputs)[first]]
    firsts = [*_resolvable(candidates, first), *_resolvable(candidates, published)]
    rows = distinct_values(np.concatenate(firsts)).values
    after = resolved([candidates[row] for row in rows], inputs, known, accepted)
    faster = after.time_s < (1 - LEAST_GAIN) * times[rows]
    safer = after.verdict < estimates.verdict[rows]
    gains = safer | (faster & (after.verdict == estimates.verdict[rows]))
    gained = (after.plans[row] for row in np.flatnonzero(gains))
    return Plans.of(dict.fromkeys(named_by_ends(plan, inputs) for plan in gained))


def as_published(estimates: Estimates, known: IntColumn) -> IntColumn:
    """Of the ranked rows of a published layout, the fastest first of those that are as likely as not to fit: that it
    fitted is known. All of them as they are ranked, where none is.
    """
    likely = known[estimates.probability[known] >= EVEN]
    if not len(likely):
        return known
    fastest: IntColumn = likely[np.argsort(rank_time_s(estimates)[likely], kind="stable")]
    return fastest


def best_at_risk(estimates: Estimates, ranked: IntColumn) -> IntColumn:
    """Of the ranked rows, the first that is at risk of running out of memory, where there is one."""
    risky: IntColumn = ranked[estimates.verdict[ranked] == Verdict.AT_RISK][:1]
    return risky

"""The recommendation that looking at every plan finds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_plans
from meshwright.layout.plans import Plans
from meshwright.search.find import SearchResult
from meshwright.search.ranking.rank import rank_time_s
from meshwright.search.ranking.ties import POINT, Ranks, choices, ranks_of, share_of_layouts, share_of_ties
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from strategies import legal_plans


def _everything(found: SearchResult) -> Plans:
    """All legal plans, and those whose layers were chosen by cost, which stand in no space."""
    shown = {each.plan for each in (*found.best, *found.other_splits, *filter(None, [found.fastest]))}
    legal = legal_plans(found.inputs)
    return Plans.of(dict.fromkeys([*(legal[row] for row in range(len(legal))), *shown]))


def _best(rows: list[int], ranks: Ranks, asked: Inputs) -> int:
    """Of some plans the recommended one, by looking at each."""
    least = min(ranks.verdict[rows])
    best = [row for row in rows if ranks.verdict[row] == least]
    fastest = min(best, key=lambda row: ranks.time_s[row])
    known = [row for row in best if ranks.unbeaten[row]]
    within = ranks.time_s[fastest] * (1 + share_of_ties(asked, published=False))
    if any(ranks.time_s[row] <= within for row in known):
        best = known
        fastest = min(best, key=lambda row: ranks.time_s[row])
    share, further = share_of_ties(asked), share_of_layouts(asked)
    most = {known: ranks.time_s[fastest] * (1 + (further if known else share)) for known in (False, True)}
    equal = [row for row in best if ranks.time_s[row] <= most[ranks.known_to_work[row]]]
    worth = {row: ranks.time_s[row] * (1 + POINT * ranks.complexity[row]) for row in equal}
    return min(equal, key=lambda row: (not ranks.known_to_work[row], worth[row], ranks.time_s[row]))


def _in_vain(rows: list[int], ranks: Ranks, plans: Plans) -> list[int]:
    """Of some plans those that recompute in full beside a safe one, no slower, that does not, by looking at each."""
    full = plans.recompute == Recompute.FULL
    alike = choices(replace(plans, recompute=np.zeros_like(plans.recompute)))
    safe = [row for row in rows if not full[row] and ranks.verdict[row] == Verdict.SAFE]
    return [
        row
        for row in rows
        if full[row] and any(alike[row] == alike[other] and ranks.time_s[other] <= ranks.time_s[row] for other in safe)
    ]


def check_recommendation(found: SearchResult) -> None:
    """The recommended plan, and every other choice, are those that looking at every plan finds."""
    asked = found.inputs
    estimates = estimate_plans(_everything(found), asked)
    ranks, choice = ranks_of(estimates), choices(estimates.plans)
    fitting = [int(row) for row in np.flatnonzero(estimates.verdict < Verdict.OUT_OF_MEMORY)]
    if not fitting:
        assert not found.best
        return
    first = _best(fitting, ranks, asked)
    assert rank_time_s(found.best[0]) == pytest.approx(ranks.time_s[first], rel=1e-9)
    assert rank_time_s(found.fastest) == pytest.approx(
        min(ranks.time_s[row] for row in fitting if ranks.verdict[row] == ranks.verdict[first]), rel=1e-9
    )
    alike = defaultdict(list)
    for row in fitting:
        alike[choice[row]].append(row)
    best = {number: _best(rows, ranks, asked) for number, rows in alike.items()}
    vain = _in_vain([*best.values()], ranks, estimates.plans)
    others = [row for number, row in best.items() if number != choice[first] and row not in vain]
    expected = sorted((int(ranks.verdict[row]), float(ranks.time_s[row])) for row in others)
    shown = [(int(each.verdict), float(rank_time_s(each))) for each in found.best[1:]]
    assert shown == sorted(shown)
    np.testing.assert_allclose(shown, expected[: len(shown)], rtol=1e-9)

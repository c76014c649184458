"""Best of: which of some named plans a search recommends, or would if there were no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_plans
from meshwright.errors import Stopped
from meshwright.layout.plans import Plans
from meshwright.search.ranking.rank import rank_key
from meshwright.search.ranking.ties import contenders_of_all, ranks_of, tied_rows
from meshwright.search.safe import recommended
from meshwright.search.stop import Progress
from meshwright.specs.inputs import Inputs


class BestOf(NamedTuple):
    """The best of some plans."""

    row: int
    """Its place among them."""
    tied: tuple[int, ...] = ()
    """Places of others that predictions cannot tell apart from it."""
    recommended: Estimate | None = None
    """What a search of the question recommends; None where it was not asked, as no other plan comes close."""


def best_of(priced: Sequence[Estimate], questions: Sequence[Inputs], progress: Progress | None = None) -> BestOf:
    """The plan that a search recommends, where it is one of those close to the fastest; else the one that it would
    recommend if there were no others. Of several questions, or where none fits, the first in rank.

    priced: legal plans, at least one; questions: of each plan; progress: as `find` tells it.
    """
    first = min(range(len(priced)), key=lambda row: rank_key(priced[row]))
    if not priced[first].verdict.fits or any(asked != questions[0] for asked in questions):
        return BestOf(first)
    inputs = questions[0]
    ranks = ranks_of(estimate_plans(Plans.of(each.plan for each in priced), inputs))
    close = contenders_of_all(ranks, inputs).tolist()
    if len(close) == 1:
        return BestOf(first)
    tied = tied_rows(ranks, inputs)
    recommended = _recommended(inputs, progress)
    best = next((row for row in close if recommended and priced[row].plan == recommended.plan), int(tied[0]))
    alike = [row for row in close if row != best and (row in tied or ranks.time_s[row] < ranks.time_s[best])]
    return BestOf(best, tuple(alike), recommended)


def _recommended(inputs: Inputs, progress: Progress | None) -> Estimate | None:
    """What a search recommends; None where it is stopped."""
    try:
        return recommended(inputs, progress)
    except Stopped:
        return None

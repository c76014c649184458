"""Fits: what is said of runs that fitted in memory, and of those that ran out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from meshwright.cost.memory.fit import Verdict
from meshwright.validation.score.outcomes import Outcome


class Fits(NamedTuple):
    """Counts of configurations."""

    oom: int
    """That ran out of memory."""
    oom_called_safe: int
    fitted: int
    fitted_called_oom: int


def fits_of(outcomes: Sequence[Outcome]) -> Fits:
    """How the verdicts compare with what happened."""
    priced = [(outcome.configuration.fits, outcome.estimate.verdict) for outcome in outcomes if outcome.estimate]
    return Fits(
        oom=sum(not fitted for fitted, _ in priced),
        oom_called_safe=sum(not fitted and verdict is Verdict.SAFE for fitted, verdict in priced),
        fitted=sum(fitted for fitted, _ in priced),
        fitted_called_oom=sum(fitted and not verdict.fits for fitted, verdict in priced),
    )

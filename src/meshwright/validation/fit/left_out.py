"""Left out: what is predicted for every source when the constants are fitted to all the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshwright.validation.fit.curves import Constants, curves_of, priced_s
from meshwright.validation.fit.fitting import fitted
from meshwright.validation.fit.residuals import (
    by_kind,
    covered_by_others,
    memory_residuals,
    of_another_site,
    step_time_residuals,
)
from meshwright.validation.score.outcomes import Outcome
from meshwright.validation.score.score import Intervals


def left_out(outcomes: Sequence[Outcome], published: Sequence[Outcome]) -> list[Outcome]:
    """The same outcomes, each step time under constants that are fitted to the published runs of other sources."""
    curves = curves_of(published)
    without = {
        source: fitted([curve for curve in curves if curve.source != source])
        for source in {outcome.configuration.dataset for outcome in outcomes}
    }
    return [_under(outcome, without[outcome.configuration.dataset]) for outcome in outcomes]


def _under(outcome: Outcome, constants: Constants) -> Outcome:
    if not outcome.case or not outcome.step_time:
        return outcome
    seconds = priced_s(outcome.case, constants)
    return replace(outcome, step_time=replace(outcome.step_time, predicted=seconds))


def left_out_intervals(outcomes: Sequence[Outcome], published: Sequence[Outcome]) -> Intervals:
    """How many runs lie where the residuals of other sources put them; both as `left_out` returns them."""
    return Intervals(
        covered_by_others(step_time_residuals(outcomes), step_time_residuals(published), of_another_site),
        covered_by_others(memory_residuals(outcomes), memory_residuals(published), by_kind),
    )

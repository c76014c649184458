"""Left out: what is predicted for every source when the constants are fitted to all the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshwright.validation.fit.curves import Constants, curves_of, names_of, priced_s, times_of
from meshwright.validation.fit.fitting import fitted
from meshwright.validation.fit.residuals import covered_by_others, memory_residuals, step_time_residuals
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
    seconds = priced_s(outcome.case, *times_of(names_of(outcome.case), constants))
    return replace(outcome, step_time=replace(outcome.step_time, predicted=seconds))


def left_out_intervals(outcomes: Sequence[Outcome], published: Sequence[Outcome]) -> Intervals:
    """How many runs lie where the residuals of other sources put them; both as `left_out` returns them."""
    return Intervals(
        covered_by_others(step_time_residuals(outcomes), step_time_residuals(published)),
        covered_by_others(memory_residuals(outcomes), memory_residuals(published)),
    )

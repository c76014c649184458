"""Fitting: the constants under which the published runs are nearest, and what is predicted for a source without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from meshwright.arrays import FloatColumn
from meshwright.errors import Stopped
from meshwright.search.stop import Progress
from meshwright.specs.fitted import fitted_values
from meshwright.validation.fit.curves import Constants, Curve, curves_of, step_time_under
from meshwright.validation.fit.residuals import (
    Coverage,
    coverage_by_others,
    memory_residuals,
    step_time_residuals,
)
from meshwright.validation.outcomes import NOT_REACHED, Outcome

STEPS = np.arange(0.9, 2.0, 0.01)
"""Values that every constant is tried at."""
ROUNDS = 6
"""At most so many times every constant in turn."""


def fit_constants(curves: Sequence[Curve], without: str = "") -> dict[str, float]:
    """The constants of least absolute logarithmic error, one after the other until none moves; shares.

    A run weighs 1 / sqrt(n) where its source has n, between every run alike and every source alike. A constant that no
    run follows keeps the file's value; without: the name of one that stays at 1.
    """
    runs = Counter(curve.source for curve in curves)
    weights = np.array([runs[curve.source] ** -0.5 for curve in curves])
    constants = fitted_values() | ({without: 1.0} if without else {})
    for _ in range(ROUNDS):
        before = dict(constants)
        for name in (each for each in constants if each != without):
            constants[name] = _best(name, constants, curves, weights)
        if constants == before:
            break
    return constants


def _best(name: str, constants: Constants, curves: Sequence[Curve], weights: FloatColumn) -> float:
    mine = [
        (curve, weight)
        for curve, weight in zip(curves, weights, strict=True)
        if any(name in group for group in curve.follows)
    ]
    if not mine:
        return constants[name]
    total = np.zeros(len(STEPS))
    for curve, weight in mine:
        follows = np.array([[name in group] for group in curve.follows])
        tried = curve.times_of({**constants, name: 1.0}) * STEPS**follows
        total += weight * np.abs(curve.log_errors(tried))
    return round(float(STEPS[int(total.argmin())]), 2)


def leave_one_source_out(
    outcomes: Sequence[Outcome], published: Sequence[Outcome], progress: Progress | None = None
) -> list[Outcome]:
    """The same outcomes, each step time under constants that are fitted to the published runs of other sources.

    progress: told (runs priced, in all), then (sources left out, in all), and where it stops, outcomes of the other
    sources are not represented.
    """
    sources, constants = dict.fromkeys(outcome.configuration.dataset for outcome in outcomes), dict[str, Constants]()
    with suppress(Stopped):
        curves = curves_of(published, progress)
        for done, source in enumerate(sources):
            if progress:
                progress(done, len(sources))
            constants[source] = fit_constants([curve for curve in curves if curve.source != source])
    return [
        _repriced(outcome, constants[outcome.configuration.dataset])
        if outcome.configuration.dataset in constants
        else Outcome(outcome.configuration, refusal=NOT_REACHED)
        for outcome in outcomes
    ]


def _repriced(outcome: Outcome, constants: Constants) -> Outcome:
    if not outcome.case or not outcome.step_time:
        return outcome
    seconds = step_time_under(outcome.case.plan, outcome.case.inputs, constants)
    return replace(outcome, step_time=replace(outcome.step_time, predicted=seconds))


def leave_one_source_out_coverage(outcomes: Sequence[Outcome], published: Sequence[Outcome]) -> dict[str, Coverage]:
    """How many runs lie where those of other sources put them; both as `leave_one_source_out` returns them."""
    return {
        **coverage_by_others(step_time_residuals(outcomes), step_time_residuals(published), off_zero=True),
        **coverage_by_others(memory_residuals(outcomes), memory_residuals(published)),
    }

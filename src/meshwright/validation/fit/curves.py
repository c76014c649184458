"""Curves: how the step time of one measured run follows the fitted constants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meshwright.arrays import FloatColumn
from meshwright.cost.step import estimate_each
from meshwright.specs.fitted import fitted_constants, slowdowns
from meshwright.validation.rows.frameworks import LIKE
from meshwright.validation.rows.reading import Case
from meshwright.validation.rows.words import OLDER_ATTENTION
from meshwright.validation.score.outcomes import Outcome

KERNELS = np.array([0.9, 1.0, 1.1, 1.2, 1.35, 1.6, 2.2])
"""Times of all kernels over those that they take alone, at which a run is priced."""
ATTENTION = np.array([0.9, 1.2, 1.4, 1.6, 2.0])
"""Times of older attention over that of the newest kernels."""
Constants = Mapping[str, float]
"""Values of the fitted constants by name."""


@dataclass(frozen=True)
class Curve:
    """One measured run."""

    source: str
    names: tuple[str, ...]
    """Of the constants that its step time follows."""
    measured_s: float
    predicted_s: FloatColumn
    """Seconds at every time of attention and of all kernels, shape (attention, kernels)."""
    attention: FloatColumn
    """Times of attention at which it was priced."""

    def log_errors(self, kernels: FloatColumn, attention: FloatColumn) -> FloatColumn:
        """The logarithm of predicted over measured, a share; kernels, attention: as in `times_of`, shape (k,)."""
        below = np.clip(
            np.searchsorted(self.attention, attention, side="right") - 1, 0, max(len(self.attention) - 2, 0)
        )
        rows = [np.interp(kernels, KERNELS, row) for row in self.predicted_s]
        seconds = rows[0]
        if len(rows) > 1:
            low, high = (np.choose(below + step, rows) for step in (0, 1))
            start, end = self.attention[below], self.attention[below + 1]
            seconds = low + (high - low) * (attention - start) / (end - start)
        errors: FloatColumn = np.log(seconds / self.measured_s)
        return errors


def file_constants() -> dict[str, float]:
    """The values that the catalogue's file holds, each a share."""
    return {name: constant.value for name, constant in fitted_constants().items()}


def times_of(names: Sequence[str], constants: Constants) -> tuple[float, float]:
    """Times of all kernels over those alone, and of older attention over the newest, under some constants; shares.

    names: of the constants that a run follows; constants: the values of all.
    """
    shares = {name: constants[name] for name in names}
    attention = shares.pop(OLDER_ATTENTION, 1.0)
    return float(np.prod([*shares.values(), 1.0])), attention


def names_of(case: Case) -> tuple[str, ...]:
    """The constants that a run's step time follows."""
    inputs = case.inputs
    names = slowdowns(inputs.cluster.accelerator.kernels.id, inputs.recipe.number_format, inputs.runtime.id)
    return (*names, OLDER_ATTENTION) if inputs.runtime.attention_slowdown != 1 else names


def curves_of(outcomes: Iterable[Outcome]) -> list[Curve]:
    """Of every run that counts: its source does not doubt it, and the catalogue has its framework."""
    timed = (each for each in outcomes if each.step_time and counts(each))
    return [_curve(outcome, outcome.case) for outcome in timed if outcome.case]


def counts(outcome: Outcome) -> bool:
    """Whether constants and error bars may rest on a run."""
    return outcome.sound and outcome.configuration.rows[0]["runtime"] not in LIKE


def _curve(outcome: Outcome, case: Case) -> Curve:
    names = names_of(case)
    attention = ATTENTION if OLDER_ATTENTION in names else np.array([1.0])
    seconds = [[priced_s(case, kernels, share) for kernels in KERNELS] for share in attention]
    measured = outcome.step_time.measured if outcome.step_time else np.nan
    return Curve(outcome.configuration.dataset, names, measured, np.array(seconds), attention)


def priced_s(case: Case, kernels: float, attention: float) -> float:
    """Seconds of a step with kernels and older attention so many times as long, beside what the run's own site adds;
    kernels, attention: as `times_of`.
    """
    cluster, runtime = case.inputs.cluster, case.inputs.runtime
    of_file = case.inputs.slowdown / cluster.site_derate
    inputs = case.inputs.replace(
        cluster=cluster.replace(site_derate=cluster.site_derate * kernels / of_file),
        runtime=runtime.replace(attention_slowdown=attention),
    )
    return estimate_each([case.plan], inputs)[0].step_time_s

"""Curves: how the step time of one measured run follows the fitted constants."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from meshwright.arrays import FloatColumn
from meshwright.cost.compute.slowdown import constants_of
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.search.stop import Progress
from meshwright.specs.fitted import fitted_values
from meshwright.specs.inputs import Inputs
from meshwright.validation.outcomes import Outcome
from meshwright.validation.rows.reading import Case
from meshwright.validation.rows.settings import stand_ins

TIMES = np.array([0.9, 1.0, 1.1, 1.2, 1.35, 1.6, 2.2])
"""Values of a group of constants, multiplied, at which a run is priced."""
Constants = Mapping[str, float]
"""Values of the fitted constants by name."""


class Refitted(Inputs):
    """A question under other values of the fitted constants."""

    values: dict[str, float]

    @property
    def constants(self) -> Mapping[str, float]:
        """The values by name."""
        return self.values


@dataclass(frozen=True)
class Curve:
    """One measured run."""

    source: str
    follows: tuple[tuple[str, ...], ...]
    """Names of the constants that its step time follows, in groups that act on the same kernels."""
    measured_s: float
    predicted_s: FloatColumn
    """Seconds at every one of `TIMES` for every group, shape (7,) * groups."""

    def log_errors(self, times: FloatColumn) -> FloatColumn:
        """ln(predicted / measured), a share, interpolated linearly between the points that were priced.

        times: for every group, of its constants multiplied, shape (groups, k). Returns shape (k,).
        """
        # Index of the grid point below, and the share of the way to the one above, both of shape (groups, k).
        below = np.clip(np.searchsorted(TIMES, times, side="right") - 1, 0, len(TIMES) - 2)
        above = (times - TIMES[below]) / (TIMES[below + 1] - TIMES[below])
        # Multilinear interpolation: every corner of the cell around a point, weighted by its share of it, shape (k,).
        seconds = np.zeros(times.shape[1:])
        for corner in product((0, 1), repeat=len(self.follows)):
            upper = np.array(corner, dtype=int)[:, None]
            share = np.where(upper, above, 1 - above).prod(axis=0)
            seconds = seconds + share * self.predicted_s[tuple(below + upper)]
        errors: FloatColumn = np.log(seconds / self.measured_s)
        return errors

    def times_of(self, constants: Constants) -> FloatColumn:
        """For every group, its constants multiplied, shares of shape (groups, 1)."""
        return np.array([[math.prod(constants[name] for name in group)] for group in self.follows]).reshape(-1, 1)


def curves_of(outcomes: Iterable[Outcome], progress: Progress | None = None) -> list[Curve]:
    """Of every run that constants may rest on: its source does not doubt it, the catalogue has its framework, it has
    several accelerators, as runs on one alone are kept to judge by, they draw what they are rated for, as the watts of
    others are assumed, its kernels of experts are measured as well as others, and less than half of its step is
    predicted to wait for exchanges and the host, whose errors are not those of kernels.

    progress: told (runs priced, in all); what it raises is raised.
    """
    sound = (each for each in outcomes if each.step_time and each.sound and each.framework not in stand_ins())
    runs = [(each, each.case) for each in sound if each.case and _may_bear_constants(each.case.inputs)]
    runs = [(each, case) for each, case in runs if each.estimate and _mostly_computes(each.estimate)]
    curves: list[Curve] = []
    for outcome, case in runs:
        if progress:
            progress(len(curves), len(runs))
        curves.append(_curve(outcome, case))
    return curves


def _may_bear_constants(inputs: Inputs) -> bool:
    cluster = inputs.cluster
    measured = cluster.accelerator.kernels.measures_experts or not inputs.model.is_moe
    return measured and cluster.num_gpus > 1 and cluster.power_limit_w is None


def _mostly_computes(estimate: Estimate) -> bool:
    time = estimate.time
    return time.compute_s + time.bubble_s + time.optimizer_s > time.total / 2


def follows_of(inputs: Inputs) -> tuple[tuple[str, ...], ...]:
    """The constants that a step time follows, in groups that act on the same kernels: on all, and on attention."""
    older = inputs.runtime.kernels.attention_constant
    return tuple(group for group in (constants_of(inputs), (older,) if older else ()) if group)


def _curve(outcome: Outcome, case: Case) -> Curve:
    follows = follows_of(case.inputs)
    grid = product(TIMES, repeat=len(follows))
    seconds = [step_time_under(case.plan, case.inputs, fitted_values() | _of_groups(follows, times)) for times in grid]
    measured = outcome.step_time.measured if outcome.step_time else np.nan
    shape = (len(TIMES),) * len(follows)
    return Curve(outcome.configuration.dataset, follows, measured, np.array(seconds).reshape(shape))


def _of_groups(follows: Sequence[tuple[str, ...]], times: Sequence[float]) -> dict[str, float]:
    """Constants that multiply to these times in every group."""
    first = {group[0]: float(time) for group, time in zip(follows, times, strict=True)}
    return {name: first.get(name, 1.0) for group in follows for name in group}


def step_time_under(plan: Plan, inputs: Inputs, constants: Constants) -> float:
    """Seconds of a step under other values of the fitted constants."""
    fields = {name: getattr(inputs, name) for name in Inputs.model_fields}
    return estimate_each([plan], Refitted(**fields, values=dict(constants)))[0].step_time_s

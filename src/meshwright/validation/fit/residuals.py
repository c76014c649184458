"""Residuals of left-out runs, by the kinds that users' questions are like, and how many of them intervals hold."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from meshwright.specs.residuals import (
    EVERY,
    SHARES,
    Residuals,
    chosen,
    like,
    like_memory,
)
from meshwright.validation.rows.reading import Case
from meshwright.validation.score.outcomes import Outcome, Pair

STUDENT = (3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372, 1.363, 1.356, 1.350, 1.345, 1.341)
"""Student's t that nine of ten values stay below, with 1, 2, ... degrees of freedom; its test integrates them."""
NORMAL = 1.282
"""The same of the normal distribution."""


class Residual(NamedTuple):
    """One left-out run."""

    source: str
    kind: str
    ratio: float
    """Measured over predicted, a share."""


class Coverage(NamedTuple):
    """How many left-out runs lie in intervals that do not rest on their source."""

    n: int
    inside: float
    """A share; 0.8 is meant."""


def step_time_residuals(outcomes: Iterable[Outcome]) -> list[Residual]:
    """Of the step times of sound runs."""
    return _residuals(outcomes, lambda each: each.step_time, lambda case: like(case.inputs))


def within_sources(runs: Sequence[Residual]) -> list[Residual]:
    """What is left of every run's residual when the median of its source's other runs is known; none of lone runs."""
    sources: dict[str, list[Residual]] = defaultdict(list)
    for run in runs:
        sources[run.source].append(run)
    return [
        run._replace(ratio=run.ratio / statistics.median(other.ratio for other in each if other is not run))
        for each in sources.values()
        if len(each) > 1
        for run in each
    ]


def memory_residuals(outcomes: Iterable[Outcome]) -> list[Residual]:
    """Of the memory of sound runs, of any kind that is predicted."""
    return _residuals(outcomes, lambda each: each.memory, lambda case: like_memory(case.inputs))


def _residuals(
    outcomes: Iterable[Outcome], quantity: Callable[[Outcome], Pair | None], kind: Callable[[Case], str]
) -> list[Residual]:
    pairs = ((each, each.case, quantity(each)) for each in outcomes if each.sound)
    return [
        Residual(each.configuration.dataset, kind(case), pair.measured / pair.predicted)
        for each, case, pair in pairs
        if case and pair
    ]


def by_kind(runs: Sequence[Residual]) -> dict[str, Residuals]:
    """Residuals of every kind of runs, and of all."""
    kinds: dict[str, list[Residual]] = defaultdict(list)
    for run in runs:
        kinds[run.kind].append(run)
    every = {EVERY: list(runs)} | dict(sorted(kinds.items()))
    return {
        name: weighted_ratios([run.ratio for run in each], [run.source for run in each]) for name, each in every.items()
    }


def of_another_site(runs: Sequence[Residual]) -> dict[str, Residuals]:
    """As `by_kind`, as wide as where the runs of a further source lie: few sources tell little of how sites differ.

    By Student's t with one degree of freedom less than there are sources, over the normal distribution.
    """
    return {name: _of_a_further_source(each) for name, each in by_kind(runs).items()}


def _of_a_further_source(known: Residuals) -> Residuals:
    degrees = known.sources - 1
    return known.widened(STUDENT[min(degrees, len(STUDENT)) - 1] / NORMAL) if degrees else known


def coverage(runs: Sequence[Residual], known: Mapping[str, Residuals]) -> Coverage:
    """How many runs lie in the interval that known residuals make, by kind."""
    inside = sum(_is_inside(run, known) for run in runs)
    return Coverage(len(runs), inside / len(runs) if runs else 0.0)


def coverage_by_others(
    runs: Sequence[Residual],
    published: Sequence[Residual],
    kinds: Callable[[Sequence[Residual]], Mapping[str, Residuals]],
) -> Coverage:
    """How many runs lie in the interval that the like published runs of all other sources make; kinds: makes them."""
    inside = 0
    for source in {run.source for run in runs}:
        known = kinds([run for run in published if run.source != source])
        inside += sum(_is_inside(run, known) for run in runs if run.source == source)
    return Coverage(len(runs), inside / len(runs) if runs else 0.0)


def _is_inside(run: Residual, known: Mapping[str, Residuals]) -> bool:
    low, high = chosen(known, run.kind)[0].eight_of_ten
    return low <= run.ratio <= high


def weighted_ratios(ratios: Sequence[float], sources: Sequence[str]) -> Residuals:
    """Residuals of runs; ratios: measured over predicted, shares; sources: of each run. A run weighs 1 / sqrt(n) where
    its source has n.
    """
    weights = np.array([sources.count(source) ** -0.5 for source in sources])
    order = np.argsort(ratios)
    place = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    logs = np.interp(SHARES, place, np.log(np.array(ratios)[order]))
    return Residuals(
        runs=len(ratios), sources=len({*sources}), ratios=tuple(float(f"{np.exp(each):.4f}") for each in logs)
    )

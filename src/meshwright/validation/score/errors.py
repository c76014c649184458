"""Errors: what is said of many predictions at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from statistics import median
from typing import NamedTuple, TypeVar

import numpy as np

from meshwright.arrays import FloatColumn
from meshwright.validation.outcomes import Outcome, Pair

K = TypeVar("K", bound=Hashable)
ROUND = 12
"""Decimals of an error's size: 1.1 over 1.0 is 10 % off, and not a rounding error more."""
Quantity = Callable[[Outcome], Pair | None]


class Errors(NamedTuple):
    """Errors of predictions as shares: predicted / measured - 1."""

    n: int
    mape: float
    """Mean of the absolute errors."""
    median_ape: float
    bias: float
    """Mean of the errors with their sign."""
    p90: float
    """Of ten absolute errors nine are no larger."""
    within_10: float
    """Share of predictions that are at most 10 % off."""
    within_20: float


def step_time(outcome: Outcome) -> Pair | None:
    """The seconds of a step."""
    return outcome.step_time


def memory(outcome: Outcome) -> Pair | None:
    """GiB of the kind that was measured."""
    return outcome.memory


def memory_of(kind: str) -> Quantity:
    """GiB of one kind alone; kind: allocated, reserved or device."""
    return lambda outcome: outcome.memory if outcome.configuration.memory_kind == kind else None


def errors_of(outcomes: Iterable[Outcome], quantity: Quantity) -> Errors | None:
    """The errors of one quantity over configurations; None where nothing of it was measured."""
    errors = _signed(outcomes, quantity)
    if not len(errors):
        return None
    size = _sizes(errors)
    return Errors(
        n=len(errors),
        mape=float(size.mean()),
        median_ape=median(size.tolist()),
        bias=float(errors.mean()),
        p90=float(np.quantile(size, 0.9)),
        within_10=float((size <= 0.1).mean()),
        within_20=float((size <= 0.2).mean()),
    )


def mean_of_datasets(outcomes: Sequence[Outcome], quantity: Quantity) -> float | None:
    """The mean over datasets of their mean absolute errors, a share; None where nothing was measured."""
    sources = grouped(outcomes, lambda each: each.configuration.dataset).values()
    means = [_sizes(errors).mean() for each in sources if len(errors := _signed(each, quantity))]
    return float(np.mean(means)) if means else None


def _signed(outcomes: Iterable[Outcome], quantity: Quantity) -> FloatColumn:
    """The errors of what was measured of one quantity, shares."""
    return np.array([pair.error for outcome in outcomes if (pair := quantity(outcome)) is not None])


def _sizes(errors: FloatColumn) -> FloatColumn:
    return np.abs(errors).round(ROUND)


def grouped(outcomes: Iterable[Outcome], key: Callable[[Outcome], K]) -> dict[K, list[Outcome]]:
    """Outcomes by what the key says of them, in the order in which it first does."""
    groups: dict[K, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[key(outcome)].append(outcome)
    return dict(groups)

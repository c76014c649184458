"""Fitting: the constants under which the published runs are nearest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from meshwright.arrays import FloatColumn
from meshwright.specs.fitted import fitted_values
from meshwright.validation.fit.curves import Constants, Curve

STEPS = np.arange(0.9, 2.0, 0.01)
"""Values that every constant is tried at."""
ROUNDS = 6
"""At most so many times every constant in turn."""


def fitted(curves: Sequence[Curve], without: str = "") -> dict[str, float]:
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

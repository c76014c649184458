"""Fitting: the constants under which the published runs are nearest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from meshwright.arrays import FloatColumn
from meshwright.validation.fit.curves import Constants, Curve, file_constants, times_of
from meshwright.validation.rows.words import OLDER_ATTENTION

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
    constants = file_constants() | ({without: 1.0} if without else {})
    for _ in range(ROUNDS):
        before = dict(constants)
        for name in (each for each in constants if each != without):
            constants[name] = _best(name, constants, curves, weights)
        if constants == before:
            break
    return constants


def _best(name: str, constants: Constants, curves: Sequence[Curve], weights: FloatColumn) -> float:
    mine = [(curve, weight) for curve, weight in zip(curves, weights, strict=True) if name in curve.names]
    if not mine:
        return constants[name]
    total = np.zeros(len(STEPS))
    for curve, weight in mine:
        kernels, attention = times_of(curve.names, {**constants, name: 1.0})
        times = (STEPS, np.ones(len(STEPS))) if name != OLDER_ATTENTION else (np.ones(len(STEPS)), STEPS)
        total += weight * np.abs(curve.log_errors(kernels * times[0], attention * times[1]))
    return round(float(STEPS[int(total.argmin())]), 2)

"""Normal deviates: below which a share of a normal distribution lies, and how large the largest of several is."""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.distinct import distinct_values


@lru_cache(maxsize=256)
def normal_deviate(share: float) -> float:
    """Below which a share p of a standard normal distribution lies: P^-1(p).

    share: p, between 0 and 1. Returns a number. Source: by definition.

    >>> round(normal_deviate(0.9), 3)
    1.282
    """
    return NormalDist().inv_cdf(share)


def expected_largest(ranks: Ints) -> Floats:
    """The expected largest of n independent values of a standard normal distribution: P^-1((n - 3/8) / (n + 1/4)).

    ranks: n, a count, scalar or array (n,). Returns a number, 0 for one value; within 5 %. Source: Blom, Statistical
    Estimates and Transformed Beta-Variables, 1958.

    >>> [round(float(expected_largest(ranks)), 2) for ranks in (1, 8, 64)]
    [0.0, 1.43, 2.34]
    """
    if not isinstance(ranks, np.ndarray):
        return normal_deviate((ranks - 0.375) / (ranks + 0.25))
    counts, _, index = distinct_values(ranks)
    return np.array([expected_largest(each) for each in counts.tolist()])[index]

"""Collectives: what was measured of one operation inside one scale-up domain."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
from pydantic import Field

from meshwright.arrays import FloatColumn, Floats, IntColumn, Ints, larger
from meshwright.specs.base import Spec
from meshwright.specs.quantities import Bandwidth, Seconds


class CollectiveConstants(Spec):
    """T = latency + root * sqrt(w / 1 kB) + w / bandwidth for w bytes sent by one rank, inside one domain."""

    ranks: Annotated[int, Field(gt=0, le=10**9)]
    """Ranks in the measured group."""
    latency_s: Seconds
    """alpha, seconds."""
    root_s: Seconds
    """gamma, seconds per square root of kB."""
    bandwidth: Bandwidth
    """B, bytes/s sent by one rank."""


@dataclass(frozen=True, eq=False)
class MeasuredCollectives:
    """The constants of one operation, by growing group size; never compared: specifications keep them beside fields."""

    ranks: IntColumn
    """Of each measured group, shape (k,)."""
    constants: FloatColumn
    """Latency, root and bandwidth of each, shape (3, k)."""
    sizes: list[int]
    """The same as numbers."""
    rows: list[tuple[float, float, float]]
    """Latency, root and bandwidth of each, as numbers."""
    rank_s: float
    """Latency that each rank beyond the largest group adds, seconds."""

    @classmethod
    def of(cls, rows: tuple[CollectiveConstants, ...]) -> Self:
        """Those of a table."""
        sizes = [row.ranks for row in rows]
        each = [(row.latency_s, row.root_s, row.bandwidth) for row in rows]
        rank_s = 0.0
        if len(rows) > 1:
            last, largest = rows[-2:]
            rank_s = max((largest.latency_s - last.latency_s) / (largest.ranks - last.ranks), 0.0)
        return cls(np.array(sizes), np.array(each).T, sizes, each, rank_s)

    def of_group(self, ranks: Ints) -> tuple[Floats, Floats, Floats]:
        """Latency, root and bandwidth of the smallest measured group that is as large, else of the largest one, whose
        latency grows with the ranks.

        ranks: scalar or array (n,).
        """
        if isinstance(ranks, np.ndarray):
            latency, root, bandwidth = self.constants.take(self.ranks[:-1].searchsorted(ranks), axis=1)
        else:
            latency, root, bandwidth = self.rows[bisect_left(self.sizes, ranks, hi=len(self.sizes) - 1)]
        return latency + larger(ranks - self.sizes[-1], 0) * self.rank_s, root, bandwidth

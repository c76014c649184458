"""Effects: how much what like runs have in common varies, and what each source counts for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn
from meshwright.specs.predictive import TAILS, common_effects, labelled, own_covariance
from meshwright.specs.residuals import EFFECTS, Between, Cell

ROUNDS = 300
FIRST = 0.5
"""Where the search for standard deviations begins, over the spread of runs."""
SMALLEST, LARGEST = 1e-9, 9.0
"""Of a variance over that of runs: none is 0 for good, nor grows without end where all cells have one label."""


class Effects(NamedTuple):
    """What `effects` finds."""

    between: Between
    weights: list[float]
    """Of the source of each cell."""


def effects(cells: Sequence[Cell], names: Sequence[str] = EFFECTS, off_zero: bool = False) -> Effects:
    """The standard deviations under which the cells' means are likeliest, over the spread of runs, and weights.

    Each round takes of every variance v the positive root of a v'^2 - p v' - b = 0, with a = tr(V^-1 K), b = v^2 y'
    V^-1 K V^-1 y, y the means, V their covariance and K the effect's part of it; the likelihood never falls (Zhou, Hu,
    Zhou and Lange, arXiv:1509.07426). p is 0, and 1 with off_zero: a prior in proportion to the standard deviation,
    under which none is 0 (Chung et al. 2013, doi:10.1007/s11336-013-9328-2). It then weighs every source anew
    (`_weights`), whose part of V its weight divides (Pinheiro, Liu and Wu 2001, doi:10.1198/10618600152628059).
    cells: those of all sources, their own weights unread; names: the labels that have effects, with the source.
    Returns shares, and weights without unit.
    """
    cells = [cell._replace(weight=1.0) for cell in cells]
    known, prior = labelled(cells, cells), float(off_zero)
    parts, own = common_effects(known, known, names), own_covariance(cells)
    source = names.index("source")
    means, sources = np.array([cell.mean for cell in cells]), _sources(parts[source])
    variances: FloatColumn = np.full(len(names), FIRST**2)
    weights: FloatColumn = np.ones(len(cells))
    for _ in range(ROUNDS):
        weighted = parts.copy()
        weighted[source] /= weights
        inverse = np.linalg.inv(np.tensordot(variances, weighted, axes=1) + own)
        pulls = inverse @ means
        a, b = np.sum(weighted * inverse, axis=(1, 2)), variances**2 * (weighted @ pulls @ pulls)
        variances = np.clip((prior + np.sqrt(prior + 4 * a * b)) / (2 * a), SMALLEST, LARGEST)
        weights = _weights(variances[source] / weights, variances[source], sources @ pulls, sources @ inverse, sources)
    sizes = {name: round(float(each) ** 0.5, 3) for name, each in zip(names, variances, strict=True)}
    return Effects(Between(**sizes), [float(f"{each:.3g}") for each in weights])


def _sources(part: FloatColumn) -> FloatColumn:
    """Of each cell, the spreads of the cells that share its source and kind, else 0: (n, n); part: of the source."""
    spreads: FloatColumn = np.sqrt(np.diag(part))
    shared: FloatColumn = (part > 0) * spreads
    return shared


def _weights(
    variance: FloatColumn, usual: float, pulls: FloatColumn, seen: FloatColumn, sources: FloatColumn
) -> FloatColumn:
    """(t + 1) / (t + E[u^2] / v), with u the effect of a cell's source, v its usual variance, t `TAILS`; E[u^2] = c^2
    g^2 + c - c^2 p, with c the variance of this source, g = z' V^-1 y, p = z' V^-1 z and z the spreads of its cells.

    variance: c; usual: v; pulls: g; seen: z' V^-1; sources: z; of each cell. Returns weights (n,).
    """
    unknown = np.maximum(variance - variance**2 * np.sum(seen * sources, axis=1), 0)
    weights: FloatColumn = (TAILS + 1) / (TAILS + (variance**2 * pulls**2 + unknown) / usual)
    return weights

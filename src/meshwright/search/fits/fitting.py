"""Fitting: which legal plans fit, and which has the least memory; plans that bounds rule out are not priced."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from meshwright.arrays import BoolColumn, IntColumn
from meshwright.cost.footprint import Footprints, footprints_of
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.shapes import Pipelines, pipelines_of
from meshwright.layout.plans import Plans
from meshwright.search.fits.bounds import least_memory
from meshwright.search.fits.forward_bounds import ForwardBounds
from meshwright.search.ranking.rivals import Rivals
from meshwright.search.ranking.ties import Ranks
from meshwright.specs.inputs import Inputs


@dataclass
class Tally:
    """Counts, and the plan of every chunk that holds the least."""

    size: int = 0
    considered: int = 0
    legal: int = 0
    fitting: int = 0
    unpriced: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    leanest: list[Plans] = field(default_factory=list)
    least_bytes: float = np.inf
    """Of the worst stage of the leanest plan so far."""
    near: list[Ranks] = field(default_factory=list)
    """Of every chunk, what the plans near its fastest are ranked by."""
    rivals: Rivals | None = None
    """As of `find`."""

    def add_leanest(self, memory: Footprints) -> None:
        """Of these plans, the one with the least memory on its worst stage."""
        device = memory.worst_memory.device
        first = int(np.argmin(device))
        self.leanest.append(memory.plans.take(slice(first, first + 1)))
        self.least_bytes = min(self.least_bytes, float(device[first]))


def fitting(legal: Plans, inputs: Inputs, tally: Tally) -> Footprints:
    """The memory of those that fit; the others are counted.

    Plans whose states alone do not fit are not priced, unless one of them may be the leanest.
    """
    pipelines, _ = pipelines_of(legal, inputs, keep_all_stages=False)
    least = least_memory(pipelines, inputs)
    unfit = least.unfit.copy()
    unfit[np.argmin(least.device)] &= not unfit.all()
    memory = _priced(legal, pipelines, ~unfit, inputs, tally)
    leaner = unfit & (least.device <= tally.least_bytes)
    if leaner.any():
        _priced(legal, pipelines, leaner, inputs, tally)
    fits = memory.verdict < Verdict.OUT_OF_MEMORY
    tally.fitting += int(fits.sum())
    tally.unpriced += int((unfit & ~leaner).sum())
    return memory.take(fits)


def fitting_where_safe(legal: Plans, pipelines: Pipelines, rows: IntColumn, inputs: Inputs) -> Footprints:
    """The memory of those rows of a table of legal plans that fit, and may be safe by their bounds.

    pipelines: of the table; rows: of plans that may be safe by their states alone, shape (k,).
    """
    if inputs.runtime.storage.weights != "half" and len(rows):
        own, _ = pipelines.of_plans(rows)
        rows = rows[~ForwardBounds.of(legal.some(rows), own, inputs, Verdict.SAFE).unfit]
    memory = footprints_of(legal.take(rows), inputs)
    return memory.take(memory.verdict < Verdict.OUT_OF_MEMORY)


def _priced(legal: Plans, pipelines: Pipelines, chosen: BoolColumn, inputs: Inputs, tally: Tally) -> Footprints:
    """The memory of the chosen plans, by mask, less those that do not fit by what they hold in their last forward: of
    these only that with the least then. Which of all plans is the leanest is asked of those that may hold less.
    """
    rows = np.flatnonzero(chosen)
    plans, (own, stages) = legal.take(rows), pipelines.of_plans(rows)
    if inputs.runtime.storage.weights == "half":
        memory = Footprints.of(plans, own, stages, inputs)
        tally.add_leanest(memory)
        return memory
    least = ForwardBounds.of(plans, own, inputs)
    leanest, may_fit = least.leanest(), ~least.unfit
    may_fit[leanest] = True
    memory = footprints_of(plans.take(may_fit), inputs)
    device = memory.worst_memory.device
    least.ask(least.device <= device.min())
    leaner = ~may_fit & (least.device <= device.min())
    tally.unpriced += int((~may_fit & ~leaner).sum())
    if leaner.any():
        leaner[np.flatnonzero(may_fit)[np.argmin(device)]] = True
    tally.add_leanest(footprints_of(plans.take(leaner), inputs) if leaner.any() else memory)
    return memory

"""Forward bounds: which plans hold too much in their last forward pass, mostly told by weights and gradients alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.shapes import Pipelines
from meshwright.distinct import first_rows
from meshwright.layout.plans import Plans
from meshwright.search.fits.bounds import least_in_forward
from meshwright.specs.inputs import Inputs


@dataclass(frozen=True, eq=False)
class ForwardBounds:
    """`least_in_forward` of plans: first as if micro-batches kept nothing, once for plans that are alike in all else;
    then of those that are asked for.
    """

    plans: Plans
    pipelines: Pipelines
    inputs: Inputs
    accepted: Verdict
    device: FloatColumn
    """Bytes, as of `LeastMemory`; of plans that were not asked for no more than these; shape (n,)."""
    unfit: BoolColumn
    """As of `LeastMemory`; plans that are unfit with nothing kept are with all of it; shape (n,)."""
    asked: BoolColumn
    """Whether that is with all that micro-batches keep, shape (n,)."""

    @classmethod
    def of(cls, plans: Plans, pipelines: Pipelines, inputs: Inputs, accepted: Verdict = Verdict.AT_RISK) -> Self:
        """Those of plans; asked are those that may fit. accepted: as of `least_memory`."""
        first, alike = first_rows(pipelines.of_plan, plans.num_microbatches, plans.microbatch_group)
        empty = least_in_forward(plans.some(first), *pipelines.of_plans(first), inputs, accepted, keeps=False)
        asked = np.zeros(len(plans), dtype=bool)
        device, unfit = empty.device.take(alike), empty.unfit.take(alike)
        bounds = cls(plans, pipelines, inputs, accepted, device=device, unfit=unfit, asked=asked)
        bounds.ask(~bounds.unfit)
        return bounds

    def ask(self, chosen: BoolColumn) -> None:
        """Take into account what the micro-batches of the chosen plans keep, by mask."""
        rows = np.flatnonzero(chosen & ~self.asked)
        if len(rows):
            own = self.pipelines.of_plans(rows)
            least = least_in_forward(self.plans.some(rows), *own, self.inputs, self.accepted)
            self.device[rows], self.unfit[rows], self.asked[rows] = least.device, least.unfit, True

    def leanest(self) -> int:
        """The row of the first plan that holds the least."""
        self.ask(self.device <= self.device.min())
        self.ask(self.device <= self.device[self.asked].min())
        return int(self.device.argmin())

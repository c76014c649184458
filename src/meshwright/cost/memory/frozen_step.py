"""The step of adapters beside frozen weights that ranks gather, as allocations and releases."""

from __future__ import annotations

import numpy as np

from meshwright.cost.memory.sharded_step import last_forward
from meshwright.cost.memory.timeline import MemoryTimeline, Moment
from meshwright.cost.memory.unit_step import UnitStep


def frozen_step(step: UnitStep) -> MemoryTimeline:
    """The last micro-batch where ranks gather frozen weights and their adapters, as those of `sharded_step`.

    Nothing of frozen weights is reduced, so that a step is over with its last layer's backward as far as peaks go.
    step: of every stage, shape (r,). Returns allocations in bytes. Source: as of `sharded_step`.
    """
    line, saved = last_forward(step), step.in_flight
    line.allocate("parameters", "two layers", step.prefetched(2))
    line.allocate("activations", "saved for backward", np.maximum(saved.activations - saved.head, 0.0))
    line.allocate("temporaries", "working set", saved.working)
    line.at(Moment.LAST_LAYER_BACKWARD)
    line.free("saved for backward", "working set")
    return line

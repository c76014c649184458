"""The step of adapters beside frozen weights that ranks gather, as allocations and releases."""

from __future__ import annotations

import numpy as np

from meshwright.cost.memory.sharded_step import last_forward
from meshwright.cost.memory.timeline import MemoryTimeline, Moment
from meshwright.cost.memory.unit_step import UnitStep
from meshwright.specs.precision import HALF_BYTES


def frozen_step(step: UnitStep) -> MemoryTimeline:
    """The last micro-batch where ranks gather frozen weights and their adapters, as those of `sharded_step`.

    Nothing of frozen weights is reduced, so that a step is over with its last layer's backward as far as peaks go.
    Before any step packed weights stand whole beside what is kept of them, as ranks load them on the device, when no
    moments are there yet.
    step: of every stage, shape (r,). Returns allocations in bytes. Source: as of `sharded_step`; accelerate 1.15.0
    utils/fsdp_utils.py, fsdp2_prepare_model (`original_sd` holds the weights until all are sharded; L791-793 of what is
    packed); transformers 5.23.0 quantizers/quantizer_bnb_4bit.py, update_device_map.
    """
    line, saved = MemoryTimeline(len(step.plans), step.unused), step.in_flight
    if step.inputs.packs_weights and step.inputs.runtime.sharding.loads_whole:
        moments = step.inputs.runtime.storage.moments_bytes * step.stored.adapters
        line.allocate("parameters", "whole as they are loaded", np.maximum(HALF_BYTES * step.whole.all - moments, 0.0))
        line.at(Moment.LOADING)
        line.free("whole as they are loaded")
    line = last_forward(step, line)
    line.allocate("parameters", "two layers", step.prefetched(2))
    line.allocate("activations", "saved for backward", np.maximum(saved.activations - saved.head, 0.0))
    line.allocate("temporaries", "working set", saved.working)
    line.at(Moment.LAST_LAYER_BACKWARD)
    line.free("saved for backward", "working set")
    return line

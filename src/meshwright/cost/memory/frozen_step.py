"""The step of adapters beside frozen weights, of replicas and of shards, as allocations and releases.

Nothing of frozen weights is reduced, so that a step is over with its last layer's backward as far as peaks go.
"""

from __future__ import annotations

import numpy as np

from meshwright.cost.memory.sharded_step import last_forward
from meshwright.cost.memory.timeline import MemoryTimeline, Moment
from meshwright.cost.memory.unit_step import UnitStep


def frozen_shards(step: UnitStep) -> MemoryTimeline:
    """The last micro-batch where ranks gather frozen weights and their adapters, as those of `sharded_step`.

    step: of every stage, shape (r,). Returns allocations in bytes. Source: as of `sharded_step`.
    """
    line = last_forward(step)
    line.allocate("parameters", "two layers", step.prefetched(2))
    _last_layer(line, step)
    return line


def frozen_replicas(step: UnitStep) -> MemoryTimeline:
    """The last micro-batch of replicas, with the gradients of adapters from the first one on, and their buckets.

    step: of every stage, shape (r,). Returns allocations in bytes. Source: as of `replicated_step`.
    """
    saved, line = step.in_flight, MemoryTimeline(len(step.plans), step.unused)
    buckets = step.inputs.runtime.storage.gradient_buckets
    gradients, copies = step.weight_bytes * step.stored.adapters, 1.0 * step.several + (buckets != "none")
    line.allocate("gradients", "of earlier micro-batches, and buckets", gradients * copies)
    line.allocate("activations", "saved for backward", saved.activations)
    line.allocate("temporaries", "output of the layer", saved.layer_output)
    line.at(Moment.LAST_LAYER_FORWARD)
    line.free("output of the layer")
    line.allocate("logits", "logits", saved.logits_forward)
    line.at(Moment.LOSS_FORWARD)
    line.allocate("logits", "logits", saved.logits)
    line.at(Moment.LOSS_BACKWARD)
    line.free("logits")
    _last_layer(line, step)
    new = ~step.several & (buckets != "views")
    line.allocate("gradients", "of this micro-batch", gradients * new)
    line.at(Moment.GRADIENT_REDUCTION)
    return line


def _last_layer(line: MemoryTimeline, step: UnitStep) -> None:
    saved = step.in_flight
    line.allocate("activations", "saved for backward", np.maximum(saved.activations - saved.head, 0.0))
    line.allocate("temporaries", "working set", saved.working)
    line.at(Moment.LAST_LAYER_BACKWARD)
    line.free("saved for backward", "working set")

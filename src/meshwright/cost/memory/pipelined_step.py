"""The step of fully sharded data parallelism under a pipeline, where gradients wait for the last micro-batch."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn
from meshwright.cost.memory.timeline import MemoryTimeline, Moment
from meshwright.cost.memory.unit_step import UnitStep, reduced_unit
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES


def pipelined_step(step: UnitStep) -> MemoryTimeline:
    """The step from the last forward with the most micro-batches in flight on.

    Chunks take turns by groups of micro-batches, the one with the head works backward first. The whole gradients of
    each appear with its first backward. Weights are gathered as in `sharded_step`, but stay gathered after a backward.
    Played are the last forward, the backward that follows it, the next backward, the one by which every chunk has
    worked backward, and the reduction.
    Source: torch 2.13, distributed/pipelining/stage.py (backward_maybe_with_nosync) and `sharded_step`. step: of every
    stage, shape (r,). Returns allocations in bytes.
    """
    line, saved, chunks = MemoryTimeline(len(step.plans)), step.in_flight, step.unsharded
    gradients, _ = worked_chunks(step, step.backwards)
    next_gradients, _ = worked_chunks(step, step.backwards + 1)
    every = np.maximum((step.plans.vpp - 1) * step.group + 1 - step.backwards, 1)
    every = np.where(step.resharded, chunks.passed, every)
    line.allocate("gradients", "of chunks", gradients)
    _forward(line, step)
    line.allocate("parameters", "other chunks", _other_chunks(step, chunks.at_loss))
    _loss(line, saved.activations, saved.logits)
    _last_layer(line, step, saved.activations, chunks.first, chunks.first_own)
    _first_layer(line, step, next_gradients)
    for later, unsharded, own in ((1, chunks.second, chunks.second_own), (every, chunks.fullest, chunks.fullest_own)):
        left = np.maximum(saved.second_activations - (later - 1) * saved.chunk, 0.0)
        gradients, resharded = worked_chunks(step, step.backwards + later)
        line.allocate("gradients", "of chunks", gradients)
        line.allocate("parameters", "gathered until backward", step.until_backward - resharded)
        line.allocate("parameters", "other chunks", _other_chunks(step, unsharded))
        _loss(line, left, saved.second_logits)
        _last_layer(line, step, left, unsharded, own)
    _reduction(line, step)
    return line


def _forward(line: MemoryTimeline, step: UnitStep) -> None:
    line.allocate("temporaries", "message buffers", step.in_flight.messages)
    line.allocate("parameters", "gathered until backward", step.until_backward)
    line.allocate("parameters", "other chunks", _other_chunks(step, step.unsharded.forward))
    line.allocate("parameters", "two layers", step.prefetched(2))
    line.allocate("activations", "saved for backward", step.in_flight.activations)
    line.allocate("temporaries", "output of the layer", step.in_flight.layer_output)
    line.at(Moment.LAST_LAYER_FORWARD)
    line.free("two layers", "output of the layer")


def _loss(line: MemoryTimeline, activations: FloatColumn, logits: FloatColumn) -> None:
    line.allocate("activations", "saved for backward", activations)
    line.allocate("logits", "logits", logits)
    line.at(Moment.LOSS_BACKWARD, activations > 0)
    line.free("logits")


def _last_layer(
    line: MemoryTimeline, step: UnitStep, activations: FloatColumn, unsharded: IntColumn, own: IntColumn
) -> None:
    """Backward of the last layer, gathered unless its own chunk is; then its gradients are about to be added."""
    saved = step.in_flight
    line.allocate("activations", "saved for backward", np.maximum(activations - saved.head, 0.0))
    line.allocate("parameters", "other chunks", _other_chunks(step, unsharded))
    line.allocate("parameters", "two layers", step.prefetched(2) * (own == 0))
    line.allocate("temporaries", "gradients of the head", step.root_head)
    line.allocate("temporaries", "working set", saved.working)
    line.at(Moment.LAST_LAYER_BACKWARD, activations > 0)
    line.allocate("activations", "saved for backward", np.maximum(activations - saved.head - saved.layer, 0.0))
    line.allocate("temporaries", "working set", saved.residual)
    line.allocate("temporaries", "gradients of a layer", HALF_BYTES * step.whole.layer)
    line.at(Moment.LAST_LAYER_GRADIENTS, activations > 0)
    line.free("two layers", "gradients of a layer", "gradients of the head", "working set")


def _first_layer(line: MemoryTimeline, step: UnitStep, gradients: FloatColumn) -> None:
    """Backward of a chunk's first layer and of the embedding, after which all others have stayed gathered."""
    saved, whole, group, chunks = step.in_flight, step.whole, step.group, step.plans.vpp
    with_embedding = step.backwards >= (chunks - 1) * group
    appear = (step.backwards % group == 0) & (step.backwards < group * chunks) & step.several
    own = step.inputs.gradient_bytes * (whole.layer + whole.embedding * with_embedding) * appear
    passed = np.maximum(saved.activations - saved.head, 0.0)
    left = np.maximum(passed - saved.chunk, 0.0)
    line.allocate("gradients", "of chunks", gradients - own)
    line.allocate("parameters", "other chunks", _other_chunks(step, step.unsharded.after_backward))
    line.allocate("parameters", "layer put together", HALF_BYTES * (whole.layer + whole.split_experts) * step.resharded)
    line.allocate("activations", "saved for backward", np.minimum(left + saved.layer, passed))
    line.allocate("temporaries", "gradients of the head", step.root_head)
    line.allocate("temporaries", "working set", saved.residual)
    line.at(Moment.FIRST_LAYER_ALL_GATHER)
    line.free("layer put together")
    line.allocate("temporaries", "working set", saved.working)
    line.at(Moment.FIRST_LAYER_BACKWARD)
    line.free("working set")
    line.allocate("gradients", "of chunks", gradients)
    line.allocate("activations", "saved for backward", left)
    line.allocate("temporaries", "gradients of the embedding", HALF_BYTES * whole.embedding * with_embedding)
    line.at(Moment.EMBEDDING_GRADIENTS)
    line.free("gradients of the embedding", "gradients of the head")


def _reduction(line: MemoryTimeline, step: UnitStep) -> None:
    """The gradients of one unit after the other are reduced, the ends' first; all other weights are still gathered,
    with ZeRO 2 those of an only chunk.
    """
    whole, apart = step.whole, step.inputs.runtime.sharding.ends_apart
    gradients, _ = worked_chunks(step, step.plans.num_microbatches * step.plans.vpp)
    last = (whole.embedding, step.stored.embedding) if apart else (whole.ends, step.stored.ends)
    line.free("saved for backward")
    line.allocate("gradients", "of chunks", gradients)
    own = HALF_BYTES * np.where(last[0] > 0, last[0], whole.layer)
    stays = step.until_backward * (step.resharded | (step.plans.vpp == 1))
    others = _other_chunks(step, step.unsharded.after_backward)
    line.allocate("parameters", "gathered until backward", stays)
    line.allocate("parameters", "other chunks", np.maximum(others + stays - own, 0.0) - stays)
    ends = reduced_unit(step, *last, FP32_BYTES) - FP32_BYTES * last[0]
    joined = np.maximum(ends, step.inputs.gradient_bytes * whole.layer)
    line.allocate("temporaries", "gradients of a unit, joined", joined)
    line.at(Moment.GRADIENT_REDUCTION)


def worked_chunks(step: UnitStep, backwards: IntColumn) -> tuple[FloatColumn, FloatColumn]:
    """Gradients after some backward passes of chunks, and the weights that ZeRO 2 has resharded by then.

    Whole gradients of the chunks that have worked backward, which last if there are several micro-batches. A chunk
    reduces its own after its last micro-batch: with one group of micro-batches, and so one chunk after the other, fp32
    shards are left of all but the last one.
    step: of every stage; backwards: a count, shape (r,). Returns bytes, shape (r,). Source: torch 2.13,
    distributed/pipelining/stage.py, backward_maybe_with_nosync.
    """
    chunks, whole, stored = step.plans.vpp, step.whole, step.stored
    one_group = (step.plans.num_microbatches <= step.group) & (chunks > 1)
    # Chunks that have worked backward, and those of them that have reduced their gradients, (r,).
    worked = np.minimum(np.ceil(backwards / step.group), chunks)
    reduced = np.maximum(worked - 1, 0) * one_group
    layers, head = whole.of_chunks(reduced, chunks), reduced > 0
    # Whole gradients of the chunks between, with the ends, and shards of those that are reduced.
    alive = whole.of_chunks(worked, chunks) - layers + whole.head * ((worked > 0) & ~head)
    alive = alive + whole.embedding * (worked >= chunks)
    shards = stored.of_chunks(reduced, chunks) + stored.head * head
    gradients = (step.inputs.gradient_bytes * alive + FP32_BYTES * shards) * step.several
    return gradients, HALF_BYTES * (layers + whole.head * head) * ~step.resharded


def _other_chunks(step: UnitStep, chunks: IntColumn) -> FloatColumn:
    """ZeRO 3: 2-byte weights of so many chunks, beside what is gathered anyway."""
    layers = HALF_BYTES * step.layers * chunks / step.plans.vpp
    every = HALF_BYTES * step.whole.all - step.until_backward
    return np.where(chunks == step.plans.vpp, every, layers) * step.resharded

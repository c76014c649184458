"""The step of fully sharded data parallelism under a pipeline, where gradients wait for the last micro-batch."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn, Ints
from meshwright.cost.element import FP32_BYTES, HALF_BYTES
from meshwright.cost.memory.timeline import Moment, Timeline
from meshwright.cost.memory.unit_step import UnitStep
from meshwright.cost.memory.units import Units
from meshwright.schedules.gathered import Standing


def pipelined_step(step: UnitStep) -> Timeline:
    """The step from the last forward with the most micro-batches in flight on.

    Chunks take turns by groups of micro-batches, the one with the head works backward first. The whole gradients of
    each appear with its first backward. Weights are gathered as in `sharded_step`, but stay gathered after a backward.
    Played are the last forward, the backward that follows it, the next backward, the one by which every chunk has
    worked backward, and the reduction.
    Source: torch 2.13, distributed/pipelining/stage.py (backward_maybe_with_nosync) and `sharded_step`.
    """
    line, saved, unsharded = Timeline(len(step.plans)), step.in_flight, step.unsharded
    every = np.maximum((step.plans.vpp - 1) * step.group + 1 - step.backwards, 1)
    every = np.where(step.resharded, unsharded.backwards, every)
    _forward(line, step)
    _loss(line, step, 0, saved.activations, saved.logits, unsharded.at_loss)
    _last_layer(line, step, saved.activations, unsharded.in_flight)
    _first_layer(line, step)
    for later, chunks in ((1, unsharded.ending), (every, unsharded.most)):
        left = np.maximum(saved.later - (later - 1) * saved.chunk, 0.0)
        _loss(line, step, later, left, saved.later_logits, chunks.others + chunks.own)
        _last_layer(line, step, left, chunks)
    _reduction(line, step)
    return line


def _forward(line: Timeline, step: UnitStep) -> None:
    line.hold("temporaries", "message buffers", step.in_flight.messages)
    line.hold("gradients", "of chunks", chunk_gradients(step, step.backwards))
    line.hold("parameters", "gathered until backward", step.until_backward)
    line.hold("parameters", "other chunks", _other_chunks(step, step.unsharded.forward))
    line.hold("parameters", "two layers", step.prefetched(2))
    line.hold("activations", "saved for backward", step.in_flight.activations)
    line.hold("temporaries", "output of the layer", step.in_flight.ending)
    line.at(Moment.LAST_LAYER_FORWARD)
    line.free("two layers", "output of the layer")


def _loss(
    line: Timeline, step: UnitStep, later: Ints, activations: FloatColumn, logits: FloatColumn, chunks: IntColumn
) -> None:
    """The cross-entropy so many backward passes after the last forward, beside these activations and chunks."""
    backwards = step.backwards + later
    line.hold("gradients", "of chunks", chunk_gradients(step, backwards))
    given_back = HALF_BYTES * _reduced(step.whole, step, backwards) * ~step.resharded
    line.hold("parameters", "gathered until backward", step.until_backward - given_back)
    line.hold("parameters", "other chunks", _other_chunks(step, chunks))
    line.hold("activations", "saved for backward", activations)
    line.hold("logits", "logits", logits)
    line.at(Moment.LOSS_BACKWARD, activations > 0)
    line.free("logits")


def _last_layer(line: Timeline, step: UnitStep, activations: FloatColumn, chunks: Standing) -> None:
    """Backward of the last layer beside these activations and chunks; then its gradients are about to be added."""
    saved = step.in_flight
    line.hold("activations", "saved for backward", np.maximum(activations - saved.head, 0.0))
    line.hold("parameters", "other chunks", _other_chunks(step, chunks.others + chunks.own))
    line.hold("parameters", "two layers", step.prefetched(2) * (chunks.own == 0))
    line.hold("temporaries", "gradients of the head", step.root_head)
    line.hold("temporaries", "working set", saved.working)
    line.at(Moment.LAST_LAYER_BACKWARD, activations > 0)
    line.hold("activations", "saved for backward", np.maximum(activations - saved.head - saved.layer, 0.0))
    line.hold("temporaries", "working set", saved.residual)
    line.hold("temporaries", "gradients of a layer", HALF_BYTES * step.whole.layer)
    line.at(Moment.LAST_LAYER_GRADIENTS, activations > 0)
    line.free("two layers", "gradients of a layer", "gradients of the head", "working set")


def _first_layer(line: Timeline, step: UnitStep) -> None:
    """Backward of a chunk's first layer and of the embedding, after which all others have stayed gathered."""
    saved, whole, group, chunks = step.in_flight, step.whole, step.group, step.plans.vpp
    passed = np.maximum(saved.activations - saved.head, 0.0)
    behind = np.maximum(passed - saved.chunk, 0.0)
    gradients, with_embedding = chunk_gradients(step, step.backwards + 1), step.backwards >= (chunks - 1) * group
    appear = (step.backwards % group == 0) & (step.backwards < group * chunks) & step.several
    own = step.inputs.gradient_bytes * (whole.layer + whole.embedding * with_embedding) * appear
    line.hold("gradients", "of chunks", gradients - own)
    line.hold("parameters", "other chunks", _other_chunks(step, step.unsharded.behind))
    line.hold("parameters", "layer put together", HALF_BYTES * (whole.layer + whole.split_experts) * step.resharded)
    line.hold("activations", "saved for backward", np.minimum(behind + saved.layer, passed))
    line.hold("temporaries", "gradients of the head", step.root_head)
    line.hold("temporaries", "working set", saved.residual)
    line.at(Moment.FIRST_LAYER_ALL_GATHER)
    line.free("layer put together")
    line.hold("temporaries", "working set", saved.working)
    line.at(Moment.FIRST_LAYER_BACKWARD)
    line.free("working set")
    line.hold("gradients", "of chunks", gradients)
    line.hold("activations", "saved for backward", behind)
    line.hold("temporaries", "gradients of the embedding", HALF_BYTES * whole.embedding * with_embedding)
    line.at(Moment.EMBEDDING_GRADIENTS)
    line.free("gradients of the embedding", "gradients of the head")


def _reduction(line: Timeline, step: UnitStep) -> None:
    """The gradients of one unit after the other are reduced; what was gathered again and again still is."""
    whole, apart = step.whole, step.inputs.runtime.sharding.ends_apart
    last = whole.embedding if apart else whole.ends
    line.free("saved for backward")
    line.hold("gradients", "of chunks", chunk_gradients(step, step.plans.num_microbatches * step.plans.vpp))
    line.hold("parameters", "gathered until backward", step.until_backward * step.resharded)
    line.hold("parameters", "other chunks", _other_chunks(step, step.unsharded.behind))
    largest = step.inputs.gradient_bytes * np.maximum(last, whole.layer)
    line.hold("temporaries", "gradients of a unit, joined", largest)
    line.at(Moment.GRADIENT_REDUCTION)


def chunk_gradients(step: UnitStep, backwards: IntColumn) -> FloatColumn:
    """Gradients after some backward passes of chunks, which last if there are several micro-batches.

    Whole ones of the chunks that have worked backward, of which each reduces its own after its last micro-batch: with
    one group of micro-batches, and so one chunk after the other, fp32 shards of all but the last one.
    step: of every stage; backwards: a count, shape (r,). Returns bytes, shape (r,).
    """
    chunks, whole = step.plans.vpp, step.whole
    worked, reduced = _worked(step, backwards)
    layers = whole.of_chunks(worked, chunks) - whole.of_chunks(reduced, chunks)
    head = whole.head * ((worked > 0) & (reduced == 0))
    parameters = layers + head + whole.embedding * (worked >= chunks)
    shards = FP32_BYTES * _reduced(step.stored, step, backwards)
    gradients: FloatColumn = (step.inputs.gradient_bytes * parameters + shards) * step.several
    return gradients


def _worked(step: UnitStep, backwards: IntColumn) -> tuple[IntColumn, IntColumn]:
    """Chunks that have worked backward, and those of them that have reduced their gradients."""
    group, chunks = step.group, step.plans.vpp
    worked = np.minimum(np.ceil(backwards / group), chunks)
    one_group = (step.plans.num_microbatches <= group) & (chunks > 1)
    return worked, np.maximum(worked - 1, 0) * one_group


def _reduced(units: Units, step: UnitStep, backwards: IntColumn) -> FloatColumn:
    """Parameters of the chunks that have reduced their gradients."""
    _, reduced = _worked(step, backwards)
    parameters: FloatColumn = units.of_chunks(reduced, step.plans.vpp) + units.head * (reduced > 0)
    return parameters


def _other_chunks(step: UnitStep, chunks: IntColumn) -> FloatColumn:
    """ZeRO 3: 2-byte weights of so many chunks, beside what is gathered anyway."""
    layers = HALF_BYTES * step.layers * chunks / step.plans.vpp
    every = HALF_BYTES * step.whole.all - step.until_backward
    beside: FloatColumn = np.where(chunks == step.plans.vpp, every, layers) * step.resharded
    return beside

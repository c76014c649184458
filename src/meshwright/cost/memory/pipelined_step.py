"""The step of fully sharded data parallelism under a pipeline, where gradients wait for the last micro-batch."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import BoolColumn, Bools, FloatColumn, IntColumn, Numbers
from meshwright.cost.memory.chunk_turns import (
    chunk_sizes,
    chunks_beside_forward,
    chunks_passed,
    first_passed,
    of_first_chunk,
    of_last_chunk,
    other_chunk_size,
    other_chunks,
    waiting_embedding,
)
from meshwright.cost.memory.kept_outputs import joined_outputs, kept_outputs
from meshwright.cost.memory.pipelined_reduction import reduction
from meshwright.cost.memory.timeline import MemoryTimeline, Moment
from meshwright.cost.memory.unit_states import WorkedChunks, reduced_unit
from meshwright.cost.memory.unit_step import UnitStep
from meshwright.layout.groups import sharding_ranks
from meshwright.specs.precision import HALF_BYTES


def pipelined_step(step: UnitStep) -> MemoryTimeline:
    """The step from the last forward with the most micro-batches in flight on.

    Chunks take turns by groups of micro-batches, the one with the head works backward first. The whole gradients of
    each appear with its first backward. Weights are gathered as in `sharded_step`, but stay gathered after a backward.
    Played are the last forward, the backward that follows it, the next backward, those by which the next chunk, with
    one group of micro-batches all but one and every chunk have worked backward, and the reduction.
    Source: torch 2.13, distributed/pipelining/stage.py (backward_maybe_with_nosync) and `sharded_step`. step: of every
    stage, shape (r,). Returns allocations in bytes.
    """
    saved, chunks = step.in_flight, step.unsharded
    gradients = WorkedChunks(step, step.backwards).gradients
    line = last_forward(step, gradients)
    next_gradients = WorkedChunks(step, step.backwards + 1, last_reduced=False).gradients
    # Of the chunks that wait to be gathered, the next backward that is played brings the last, with the embedding.
    last, fewest = step.plans.vpp - 1, np.maximum(step.waiting_chunks, 1)
    next_one, every = (
        np.where(step.resharded, walked, np.maximum(count * step.group + 1 - step.backwards, 1))
        for count, walked in (
            (np.clip(-(-step.backwards // step.group), fewest, np.maximum(last, 1)), chunks.following_passed),
            (last, chunks.passed),
        )
    )
    line.allocate("parameters", "other chunks", other_chunks(step, chunks.at_loss, size=other_chunk_size(step)))
    _loss(line, step, saved.activations, saved.logits)
    line.allocate("gradients", "of chunks", gradients)
    line.allocate("logits", "logits", saved.others_logits)
    line.allocate("parameters", "other chunks", other_chunks(step, chunks.first))
    _last_layer(line, step, saved.activations, chunks.first_own, of_last_chunk(step, 0))
    _first_layer(line, step, next_gradients)
    before_last = np.where(step.one_group, np.maximum((last - 1) * step.group + 1 - step.backwards, next_one), next_one)
    for later, unsharded, own, first in (
        (1, chunks.second, chunks.second_own, 0 * chunks.second),
        (next_one, chunks.following, chunks.following_own, chunks.following_first),
        (before_last, chunks.following, chunks.following_own, chunks.following_first),
        (every, chunks.fullest, chunks.fullest_own, 0 * chunks.fullest),
    ):
        left = saved.second_activations + (1 - chunks_passed(step, later)) * saved.chunk
        left = np.where(saved.second_activations > 0, np.maximum(left, 0.0), 0.0)
        worked = WorkedChunks(step, step.backwards + later)
        line.allocate("temporaries", "message buffers", saved.messages - _outputs(step, later))
        line.allocate("gradients", "of chunks", worked.gradients)
        of_first, more = of_first_chunk(step, later - 1), np.minimum(unsharded + 1, step.plans.vpp)
        standing = step.until_backward - worked.resharded
        with_first = (first > 0) | of_first
        waiting = waiting_embedding(step, with_first & (unsharded < step.plans.vpp))
        line.allocate("parameters", "gathered until backward", standing + waiting)
        size = np.where(later > step.group - step.backwards, chunk_sizes(step)[1], 1.0)
        line.allocate("parameters", "other chunks", other_chunks(step, unsharded, size=size, first=with_first))
        line.allocate("activations", "saved for backward", left)
        _embedding_gradients(line, step, of_first)
        if not step.loss_in_pieces:
            _loss(line, step, left, saved.second_logits)
        line.allocate("logits", "logits", saved.second_others_logits)
        _last_layer(line, step, left, own, of_last_chunk(step, later))
        line.allocate("parameters", "gathered until backward", standing + waiting * (more < step.plans.vpp))
        line.allocate("parameters", "other chunks", other_chunks(step, more, first=with_first))
        left = left - (saved.head - saved.put_out) - saved.chunk + saved.layer
        _first_layer_gathered(line, step, left, (own == 0) & (left > 0))
    reduction(line, step)
    joined_outputs(line, step)
    return line


def last_forward(step: UnitStep, gradients: FloatColumn) -> MemoryTimeline:
    """The last forward, with the most micro-batches in flight: the last layer of its chunk is gathered, its experts
    that are divided by rows are put together, and it works; then its output is sent.

    step: as of `pipelined_step`; gradients: of the chunks that have worked backward before, bytes, shape (r,). Returns
    allocations in bytes.
    """
    line, saved = MemoryTimeline(len(step.plans), step.unused), step.in_flight
    # A reduced gradient lies twice once the second loss has reduced its own.
    second_loss = step.plans.num_microbatches == 2
    line.allocate("gradients", "of chunks", gradients - step.weight_bytes * step.reduced_twice * second_loss)
    kept_outputs(line, step)
    line.allocate("temporaries", "message buffers", saved.messages - _outputs(step, 1))
    line.allocate("parameters", "gathered until backward", step.until_backward)
    others = other_chunks(step, step.unsharded.forward, size=chunks_beside_forward(step))
    line.allocate("parameters", "other chunks", others + waiting_embedding(step, step.unsharded.forward_first > 0))
    line.allocate("parameters", "two layers", step.prefetched(2))
    line.allocate("parameters", "experts put together", HALF_BYTES * step.whole.split_experts * step.resharded)
    activations = saved.activations + saved.further
    line.allocate("activations", "saved for backward", np.maximum(activations - saved.layer, 0.0))
    line.at(Moment.LAST_LAYER_FORWARD)
    line.free("experts put together")
    line.allocate("activations", "saved for backward", activations)
    line.allocate("temporaries", "output of the layer", saved.layer_output)
    line.at(Moment.LAST_LAYER_FORWARD)
    line.free("two layers", "output of the layer")
    line.allocate("temporaries", "message buffers", saved.messages)
    return line


def _loss(line: MemoryTimeline, step: UnitStep, activations: FloatColumn, logits: FloatColumn) -> None:
    """Backward of the cross-entropy; in pieces also that of the head, whose gradients are then reduced."""
    saved, sums, (head, stored) = step.in_flight, step.inputs.gradient_bytes, step.loss_unit
    line.allocate("activations", "saved for backward", activations)
    line.allocate("parameters", "head, gathered again", step.head_again * step.loss_in_pieces)
    line.allocate("temporaries", "gradients of the head", sums * head)
    line.allocate("logits", "logits", logits)
    line.at(Moment.LOSS_BACKWARD, activations > 0)
    if step.loss_in_pieces:
        line.allocate("logits", "logits", logits - saved.entropy_working)
        line.allocate("temporaries", "gradients of the head", (sums + HALF_BYTES) * head)
        line.at(Moment.LOSS_BACKWARD, activations > 0)
        line.allocate("logits", "logits", logits - saved.entropy_working - saved.piece_output)
        earlier = sums * head * step.several
        line.allocate("temporaries", "gradients of the head", reduced_unit(step, head, stored, sums, head) - earlier)
        line.at(Moment.HEAD_REDUCE_SCATTER, (activations > 0) & (head > 0))
    line.free("logits", "gradients of the head", "head, gathered again")


def _last_layer(
    line: MemoryTimeline, step: UnitStep, activations: FloatColumn, own: IntColumn, of_last: BoolColumn
) -> None:
    """Backward of the last layer, gathered unless its own chunk is; then its gradients are about to be added. of_last:
    whether it is of the chunk with the head.
    """
    saved = step.in_flight
    activations = np.maximum(activations - (saved.head - saved.put_out), 0.0)
    line.allocate("activations", "saved for backward", activations)
    line.allocate("parameters", "two layers", step.prefetched(2) * (own == 0))
    line.allocate("parameters", "head, gathered again", step.head_again * (own == 0))
    line.allocate("temporaries", "gradients of the head", step.root_head * of_last)
    line.allocate("temporaries", "working set", _working(step))
    line.at(Moment.LAST_LAYER_BACKWARD, activations > 0)
    line.allocate("activations", "saved for backward", np.maximum(activations - saved.layer, 0.0))
    line.allocate("temporaries", "working set", saved.residual)
    line.allocate("temporaries", "gradients of a layer", HALF_BYTES * step.whole.layer)
    line.at(Moment.LAST_LAYER_GRADIENTS, activations > 0)
    line.free("two layers", "head, gathered again", "gradients of a layer", "gradients of the head", "working set")


def _first_layer(line: MemoryTimeline, step: UnitStep, gradients: FloatColumn) -> None:
    """Backward of a chunk's first layer and of the embedding, after which all others have stayed gathered; before them
    that of its second one, beside which ZeRO 3 gathers the first one ahead, and not yet an embedding of its own unit.
    """
    saved, whole, group, chunks = step.in_flight, step.whole, step.group, step.plans.vpp
    with_embedding = step.backwards >= (chunks - 1) * group
    appear = (step.backwards % group == 0) & (step.backwards < group * chunks)
    layer = step.inputs.gradient_bytes * whole.layer * appear
    own = layer + step.inputs.gradient_bytes * whole.embedding * with_embedding * appear
    passed = np.maximum(saved.activations - (saved.head - saved.put_out), 0.0)
    left = np.maximum(passed - first_passed(step) * saved.chunk, 0.0)
    line.allocate("gradients", "of chunks", gradients - own)
    begins = of_last_chunk(step, 0)
    unsharded = other_chunks(step, step.unsharded.after_backward, begins)
    embedding = waiting_embedding(step, step.unsharded.after_backward == chunks)
    line.allocate("parameters", "other chunks", np.maximum(unsharded - embedding, 0.0))
    line.allocate("temporaries", "gradients of the head", step.root_head * begins)
    _first_layer_gathered(line, step, np.minimum(left + saved.layer, passed))
    line.allocate("gradients", "of chunks", np.maximum(gradients - own - layer, 0.0))
    line.allocate("activations", "saved for backward", np.minimum(left + 2 * saved.layer, passed))
    line.allocate("temporaries", "working set", _working(step, ~step.has_more_layers_than(2)))
    line.at(Moment.SECOND_LAYER_BACKWARD, step.resharded & (sharding_ranks(step.plans) > 1))
    line.allocate("parameters", "other chunks", unsharded)
    line.allocate("gradients", "of chunks", gradients - own)
    line.allocate("activations", "saved for backward", np.minimum(left + saved.layer, passed))
    line.allocate("temporaries", "working set", _working(step, ~step.has_more_layers_than(1)))
    line.at(Moment.FIRST_LAYER_BACKWARD)
    line.free("working set")
    line.allocate("gradients", "of chunks", gradients)
    line.allocate("activations", "saved for backward", left)
    _embedding_gradients(line, step, with_embedding)
    line.free("gradients of the head")


def _embedding_gradients(line: MemoryTimeline, step: UnitStep, with_embedding: BoolColumn) -> None:
    """Gradients of the embedding are about to be added."""
    line.allocate("temporaries", "gradients of the embedding", HALF_BYTES * step.whole.embedding * with_embedding)
    line.at(Moment.EMBEDDING_GRADIENTS)
    line.free("gradients of the embedding")


def _first_layer_gathered(
    line: MemoryTimeline, step: UnitStep, activations: FloatColumn, only: BoolColumn | None = None
) -> None:
    """ZeRO 3: a chunk's first layer is put together for its backward, beside what was sent of it."""
    together = HALF_BYTES * (step.whole.layer + step.whole.split_experts) * step.resharded
    line.allocate("parameters", "layer put together", together)
    line.allocate("activations", "saved for backward", np.maximum(activations, 0.0))
    line.allocate("temporaries", "working set", step.in_flight.residual)
    line.at(Moment.FIRST_LAYER_ALL_GATHER, only)
    line.free("layer put together", "working set")


def _working(step: UnitStep, last: Bools = True) -> FloatColumn:
    """Alive in a layer's backward; the gradient that the last layer of a rank begins with may be a buffer."""
    return step.in_flight.working - step.in_flight.residual * (step.sends & last)


def _outputs(step: UnitStep, micro_batches: Numbers) -> FloatColumn:
    """What a rank of one chunk sends of so many of the micro-batches in flight."""
    outputs: FloatColumn = 1.0 * np.minimum(micro_batches, step.plans.num_microbatches - step.backwards)
    return step.in_flight.residual * outputs * step.sends

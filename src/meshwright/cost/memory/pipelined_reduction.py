"""The gradients of a pipeline rank's chunks are reduced, each chunk behind its last backward pass."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn, IntColumn
from meshwright.cost.memory.chunk_turns import other_chunks, waiting_embedding
from meshwright.cost.memory.timeline import MemoryTimeline, Moment
from meshwright.cost.memory.unit_states import WorkedChunks, reduced_unit
from meshwright.cost.memory.unit_step import UnitStep
from meshwright.specs.precision import HALF_BYTES


def reduction(line: MemoryTimeline, step: UnitStep) -> None:
    """A chunk is reduced behind its last backward: the first one while one group of micro-batches of all others is in
    flight, with one group the one before the last beside what waits of the last, and that, with the embedding, by
    itself.

    line: allocations in bytes, to which these are added; step: of every stage. Source: torch 2.13,
    distributed/pipelining/stage.py, perform_reduce_grad.
    """
    whole, stored, saved, chunks, group = step.whole, step.stored, step.in_flight, step.plans.vpp, step.group
    apart, every = step.ends_apart, step.plans.num_microbatches * chunks
    others = (chunks - 1) * group
    not_last = 1 - whole.last_chunk / np.maximum(step.layers, 1)
    logits = np.clip(saved.head_gradients - saved.residual, 0.0, saved.messages)
    gradients = WorkedChunks(step, every - others, last_reduced=False).gradients
    # What the last loss sent of the head goes before anything else is reduced.
    sent = step.inputs.gradient_bytes * step.loss_unit[0]
    unsharded = other_chunks(step, step.unsharded.after_backward, step.plans.num_microbatches <= group)
    line.allocate("temporaries", "message buffers", saved.messages - logits)
    line.allocate("activations", "saved for backward", saved.standing + group * chunks * saved.chunk * not_last)
    line.allocate("parameters", "other chunks", unsharded)
    head = (0.0 * whole.head, 0.0 * stored.head) if apart else (whole.head, stored.head)
    _reduced_units(line, step, np.maximum(gradients - sent, 0.0), step.until_backward, *head, chunks > 1)
    _reduction_before_last(line, step, every - group)
    worked = WorkedChunks(step, every, last_reduced=False)
    line.free("saved for backward")
    own = HALF_BYTES * (whole.first_chunk + whole.embedding + whole.head * (chunks == 1))
    own_chunk = other_chunks(step, np.minimum(step.unsharded.after_backward, 1), first=chunks > 1)
    line.allocate("parameters", "other chunks", own_chunk)
    kept = step.until_backward - worked.resharded + waiting_embedding(step, chunks > 1)
    gathered = np.where(step.resharded, kept, own)
    ends = whole.embedding, stored.embedding
    if not apart:
        ends = tuple(each.embedding + each.head * (chunks == 1) for each in (whole, stored))
    _reduced_units(line, step, worked.gradients - sent * (chunks == 1), gathered, *ends, chunks > 0)


def _reduction_before_last(line: MemoryTimeline, step: UnitStep, backwards: IntColumn) -> None:
    """One group of micro-batches: shards of the chunks before stand, and the last chunk may be gathered. backwards: of
    chunks that are done.
    """
    unsharded, saved, nothing = step.unsharded, step.in_flight, 0.0 * step.whole.head
    worked = WorkedChunks(step, backwards, last_reduced=False)
    first = unsharded.following_first > 0
    waiting = waiting_embedding(step, first & (unsharded.following < step.plans.vpp))
    line.allocate("activations", "saved for backward", saved.standing + step.group * saved.chunk)
    size = step.plans.vpp * step.whole.chunk_between / np.maximum(step.layers, 1)
    line.allocate("parameters", "other chunks", other_chunks(step, unsharded.following, size=size, first=first))
    gathered_now = step.until_backward - worked.resharded + waiting
    _reduced_units(line, step, worked.gradients, gathered_now, nothing, nothing, step.one_group & (step.plans.vpp > 2))


def _reduced_units(
    line: MemoryTimeline,
    step: UnitStep,
    gradients: FloatColumn,
    gathered: FloatColumn,
    ends: FloatColumn,
    stored: FloatColumn,
    only: BoolColumn,
) -> None:
    """One unit after the other is sharded again and its gradients reduced, that of the ends first, then any layer.

    gradients, gathered: before, bytes; ends, stored: parameters of their unit, whole and sharded, counts; only: the
    ranks that do so. The gradients of experts that are divided by rows are laid out anew, one product after the other,
    the last of which a loop of foreach_reduce still names. On one rank a quotient stands beside them.
    """
    whole, sent = step.whole, step.inputs.gradient_bytes
    line.allocate("gradients", "of chunks", gradients)
    line.allocate("parameters", "gathered until backward", gathered - HALF_BYTES * ends)
    joined = reduced_unit(step, ends, stored, sent) - sent * ends
    line.allocate("temporaries", "gradients of a unit, joined", joined)
    line.at(Moment.GRADIENT_REDUCTION, only & (ends > 0))
    line.allocate("gradients", "of chunks", gradients - sent * ends + step.weight_bytes * stored)
    line.allocate("parameters", "gathered until backward", gathered - HALF_BYTES * (ends + whole.layer))
    relaid, alone = whole.product * (whole.split_experts > 0), step.stored.all >= whole.all
    quotient = whole.layer * (alone & step.inputs.runtime.sharding.divides_gradients)
    line.allocate("temporaries", "gradients of a unit, joined", sent * (whole.layer + relaid + quotient))
    line.at(Moment.GRADIENT_REDUCTION, only)

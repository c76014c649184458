"""The step of fully sharded data parallelism under a pipeline whose backward pass torch's autograd splits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn, IntColumn, column
from meshwright.cost.memory.kept_outputs import joined_outputs, kept_outputs
from meshwright.cost.memory.timeline import MemoryTimeline, Moment
from meshwright.cost.memory.unit_states import reduced_unit
from meshwright.cost.memory.unit_step import UnitStep
from meshwright.distinct import distinct_rows
from meshwright.layout.splits import PipelineSplit, layers_of_chunks
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule, blocks, grouped
from meshwright.schedules.split_walk import (
    BACKWARD,
    FORWARD,
    INPUT_GRADIENT,
    REDUCTION,
    WEIGHT_GRADIENT,
    SplitWalk,
    split_walks,
    walked_micro_batches,
)
from meshwright.specs.precision import HALF_BYTES

ALIVE = {
    "saved for backward": "activations",
    "gradients waiting": "temporaries",
    "gradients of chunks": "gradients",
    "weights sharded again": "parameters",
    "logits": "logits",
    "working set": "temporaries",
}
"""What is alive at a moment, and its component."""
SAVED, WAITING, GRADIENTS, WEIGHTS, LOGITS, WORKING = range(len(ALIVE))

Beside = dict[int, FloatColumn]
"""Bytes alive for a moment beside t states of n ranks, by the place in `ALIVE`: (t, n), or alike in all states, (n,).
"""


class _Held(NamedTuple):
    """What the chunks of ranks are, each of shape (v, r)."""

    share: FloatColumn
    """Of the rank's layers."""
    embedding: BoolColumn
    head: BoolColumn
    receives: BoolColumn
    """Whether its input comes from another rank."""
    sends: BoolColumn
    """Whether its output goes to another rank."""


class _Ranks(NamedTuple):
    """Bytes of the chunks of ranks, up to v of them each: (v, r); of the ranks themselves (r,)."""

    saved: FloatColumn
    """Saved of one micro-batch, with the output that is sent, without what lies in the buffer that received it."""
    logits: FloatColumn
    """Of one micro-batch in flight, of the loss and the logits."""
    inputs: FloatColumn
    """Of these, what goes with the weight gradients of the layers one by one."""
    gradients: FloatColumn
    """Of one such, the gradients of the outputs of its linear layers and norms, and of an input that is a DTensor."""
    layer_gradients: FloatColumn
    """Of these, those of its layers."""
    weights: FloatColumn
    """2-byte ones of the chunk."""
    whole: FloatColumn
    """Its gradients, added up."""
    sharded: FloatColumn
    """Its gradients, reduced."""
    last_product: FloatColumn
    """2-byte gradients of the weight that is added up last."""
    layer: FloatColumn
    """2-byte gradients of one layer."""
    whole_layer: FloatColumn
    """The same, added up."""
    first_unit: FloatColumn
    """2-byte weights of the unit that is reduced first."""
    joined: FloatColumn
    """Gradients of that unit in one buffer, and of experts that are divided by rows those of one product."""
    standing: FloatColumn
    """Saved whatever is in flight."""
    residual: FloatColumn
    """One tensor between layers."""
    input_gradient: FloatColumn
    """Of one micro-batch, what stays for the step in the buffer that received it."""
    groups: FloatColumn
    """Of micro-batches, that are not walked, a count."""
    loss_working: FloatColumn
    loss_forward: FloatColumn
    """Alive for a moment when the cross-entropy works forward: a copy of the logits less than backward."""
    logits_waiting: FloatColumn
    layer_output: FloatColumn
    layer_ending: FloatColumn
    """Alive for a moment when the gradient of a layer's input is made: that of its norm, or, with sequence parallelism,
    what is scattered, twice."""
    working: FloatColumn
    input_working: FloatColumn
    head_gradients: FloatColumn
    first_layer: FloatColumn
    """Working set of the first layer with what it saved."""
    embedding_gradients: FloatColumn

    def between(self, start: int, end: int, chunks: int) -> _Ranks:
        """Some ranks one after the other, with so many chunks each."""
        return _Ranks(*(each[:chunks, start:end] if each.ndim == 2 else each[start:end] for each in self))


def split_step(step: UnitStep) -> MemoryTimeline:
    """The step by its highest moments, found by playing every action of every rank.

    Input gradients come from a graph that is retained. So a chunk and micro-batch keep everything saved until the
    weight gradients, with the loss until all input gradients are there, and beside it the gradient of the output of
    every linear layer and norm, from which weight gradients start. These come layer by layer, first one first, and free
    that gradient and the input of the linear layer or norm; what attention and activations saved stays until the last
    one, as the graph of later layers holds that of earlier ones. 2-byte weight gradients stay until the next backward
    pass of the chunk adds them up weight by weight, or until they are reduced, and the gradient of what a chunk
    received until the step ends, as that of its buffer, or until the weight gradients, as that of a DTensor. What a
    chunk put out stays as long. The chunk with the embedding has its whole backward when its weight gradients come.
    Source: torch 2.13, distributed/pipelining/_backward.py (stage_backward_input, stage_backward_weight), stage.py
    (_retrieve_recv_activations, backward_one_chunk: backward_state; perform_reduce_grad),
    fsdp/_fully_shard/_fsdp_param.py (to_accumulated_grad_if_needed). step: of every stage, shape (r,). Returns
    allocations in bytes.
    """
    line = MemoryTimeline(len(step.plans), step.unused)
    line.allocate("temporaries", "message buffers", step.in_flight.received)
    line.allocate("parameters", "gathered until backward", step.until_backward)
    kept_outputs(line, step)
    # Ranks that work alike stand together in `order`, (r,); alive: at every moment, by name and rank.
    order, walks = _alike(step)
    ranks, alive = _ranks(step.take(order)), np.zeros((len(Moment), len(ALIVE), len(order)))
    present = np.zeros((len(Moment), len(order)), dtype=bool)
    for start, end, walk in walks:
        for moment, parts in _moments(walk, ranks.between(start, end, walk.states.waiting.shape[1])):
            alive[moment, :, start:end], present[moment, start:end] = parts, True
    back = np.argsort(order)
    for moment in (each for each in Moment if present[each].any()):
        for place, (name, component) in enumerate(ALIVE.items()):
            line.allocate(component, name, alive[moment, place, back])
        line.at(moment, present[moment, back])
    joined_outputs(line, step)
    return line


def _alike(step: UnitStep) -> tuple[IntColumn, list[tuple[int, int, SplitWalk]]]:
    """An order of the ranks, (r,), and where those begin and end in it that work alike, with what they work."""
    plans = step.plans
    group = np.where(grouped(plans.schedule), step.group, 1)
    walked = column(walked_micro_batches(plans.pp, plans.num_microbatches, group))
    distinct, index = distinct_rows(plans.schedule, plans.pp, plans.vpp, walked, group, step.stage)
    ends = np.bincount(index, minlength=len(distinct[0])).cumsum().tolist()
    walks = []
    for start, end, *row in zip([0, *ends], ends, *(each.tolist() for each in distinct), strict=False):
        schedule, pp, vpp, count, size, stage = row
        shape = PipelineShape(stages=pp, micro_batches=count, chunks=vpp, microbatch_group=size)
        walks.append((start, end, split_walks(Schedule(schedule), shape)[stage]))
    return np.argsort(index, kind="stable"), walks


def _held(step: UnitStep) -> _Held:
    """The chunks of every rank, up to v of them: (v, r)."""
    plans = step.plans
    names = ("pp", "vpp", "embedding_as_layer", "head_as_layer", "first_stage_layers", "last_stage_layers")
    columns = (1 * getattr(plans, name) for name in (*names, "chunk_layers", "schedule"))
    distinct, index = distinct_rows(*columns, step.stage)
    held = np.zeros((len(_Held._fields), int(plans.vpp.max(initial=0)), len(distinct[0])))
    sizes_of = lru_cache(lambda split: layers_of_chunks(step.inputs, split))
    blocks_of = lru_cache(blocks)
    for place, row in enumerate(zip(*(each.tolist() for each in distinct), strict=True)):
        *fields, chunking, schedule, stage = row
        split = PipelineSplit(*fields)._replace(chunk_layers=plans.chunkings[chunking])
        own = blocks_of(schedule, split.pp, split.vpp)[:, stage]
        layers, head = sizes_of(split)[own], own == split.pp * split.vpp - 1
        share, first = layers / max(layers.sum(), 1), own == 0
        receives, sends = ~first & ~np.isin(own - 1, own), ~head & ~np.isin(own + 1, own)
        held[:, : split.vpp, place] = share, first, head, receives, sends
    share, *flags = held[:, :, index]
    return _Held(share, *(each > 0 for each in flags))


def _ranks(step: UnitStep) -> _Ranks:
    """Bytes of every rank's chunks. step: of every stage, shape (r,)."""
    saved, whole, held, plans = step.in_flight, step.whole, _held(step), step.plans
    apart, gradient_bytes = step.ends_apart, step.inputs.gradient_bytes
    chunks, group = held.share * plans.vpp, np.where(grouped(plans.schedule), step.group, 1)
    walked = column(walked_micro_batches(plans.pp, plans.num_microbatches, group))
    in_dtensor = step.inputs.runtime.pipeline.receives_dtensors & (plans.tp > 1)
    kept = chunks * saved.chunk + held.head * saved.head + saved.residual * (1 * held.sends - 1 * ~held.embedding)
    # What the last product puts out has the gradient that was received, unless sequence parallelism gathers that.
    gathers, layer = plans.sp & (plans.tp > 1), step.whole.layer * (held.share > 0)
    of_input = 1 * (held.receives & in_dtensor) - 1 * (~held.head & ~gathers & (not step.inputs.model.is_moe))
    weights = held.share * step.layers + held.head * whole.head + held.embedding * whole.embedding
    # The first unit in the order of modules: the ends that are one, the embedding, or a layer.
    ends = held.embedding * whole.embedding + held.head * whole.head * (not apart)
    unit, stored = np.where(ends > 0, ends, whole.layer), step.stored.all / whole.all
    relaid = np.where(ends > 0, 0.0, whole.product * (whole.split_experts > 0))
    joined = reduced_unit(step, unit, unit * stored, gradient_bytes) - gradient_bytes * (unit - relaid)
    return _Ranks(
        saved=kept,
        logits=held.head * saved.logits_waiting,
        inputs=chunks * saved.weight_inputs,
        gradients=chunks * saved.output_gradients + held.head * saved.head_gradients + of_input * saved.residual,
        layer_gradients=chunks * saved.output_gradients,
        weights=HALF_BYTES * weights,
        whole=gradient_bytes * weights,
        sharded=gradient_bytes * weights * stored,
        last_product=HALF_BYTES * np.where(held.head & (not apart), whole.head, whole.product),
        layer=HALF_BYTES * layer,
        whole_layer=gradient_bytes * layer,
        first_unit=HALF_BYTES * unit,
        joined=joined,
        standing=saved.standing,
        residual=saved.residual,
        input_gradient=saved.residual * ~in_dtensor,
        groups=(plans.num_microbatches - walked) / group,
        loss_working=saved.loss_working,
        loss_forward=saved.loss_working - (saved.logits_forward - saved.logits_waiting),
        logits_waiting=saved.logits_waiting,
        layer_output=saved.layer_output,
        layer_ending=saved.residual * np.where(gathers, 2 * plans.tp, 1),
        working=saved.working,
        input_working=saved.input_working,
        head_gradients=saved.head_gradients,
        first_layer=saved.working + saved.layer,
        embedding_gradients=HALF_BYTES * whole.embedding,
    )


def _moments(walk: SplitWalk, ranks: _Ranks) -> Iterator[tuple[Moment, FloatColumn]]:
    """What n ranks that work alike have alive at the fullest of each kind of moment, as in `ALIVE`: (6, n)."""
    alive, every = _alive(walk, ranks), np.arange(len(ranks.standing))
    total = alive.sum(axis=0)
    for moment, states, beside in _candidates(walk, ranks):
        if len(states):
            fullest = (total[states] + sum(beside.values())).argmax(axis=0)
            parts = alive[:, states[fullest], every]
            for place, size in beside.items():
                parts[place] += size[fullest, every] if size.ndim == 2 else size
            yield moment, parts


def _alive(walk: SplitWalk, ranks: _Ranks) -> FloatColumn:
    """Bytes alive in every state of a walk, in the order of `ALIVE`, without a working set: (6, 2 t, n)."""
    states = walk.states
    alive = np.zeros((len(ALIVE), len(states.further), len(ranks.standing)))
    alive[SAVED] = (states.in_flight + states.waiting) @ ranks.saved + ranks.standing
    alive[WAITING] = states.waiting @ ranks.gradients + states.half @ ranks.weights
    alive[WAITING] += (states.input_gradients[:, None] + states.further[:, None] * ranks.groups) * ranks.input_gradient
    alive[GRADIENTS] = states.added @ ranks.whole + states.reduced @ ranks.sharded
    alive[WEIGHTS] = -(states.reduced @ ranks.weights)
    alive[LOGITS] = states.in_flight @ ranks.logits
    return alive


def _candidates(walk: SplitWalk, ranks: _Ranks) -> Iterator[tuple[Moment, IntColumn, Beside]]:
    """Moments, the states at which they may come, t of them, and what is alive beside these for a moment."""
    kind, after = walk.kind, len(walk.kind)
    split, backward = (kind == INPUT_GRADIENT) & ~walk.embedding, kind == BACKWARD
    begins = split | backward
    of_loss, of_layers = np.flatnonzero(begins & walk.head), np.flatnonzero(begins & ~walk.head)
    yield Moment.LAST_LAYER_FORWARD, np.flatnonzero(kind == FORWARD) + after, {WORKING: ranks.layer_output}
    yield Moment.LOSS_FORWARD, np.flatnonzero((kind == FORWARD) & walk.head) + after, {LOGITS: ranks.loss_forward}
    yield Moment.LOSS_BACKWARD, of_loss, {LOGITS: ranks.loss_working}
    behind_loss, working = (
        np.where(split[index, None], ranks.input_working, ranks.working) for index in (of_loss, of_layers)
    )
    behind_loss = behind_loss + ranks.head_gradients
    yield Moment.LAST_LAYER_BACKWARD, of_loss, {LOGITS: -ranks.logits_waiting, WORKING: behind_loss}
    yield Moment.MIDDLE_LAYER_BACKWARD, of_layers, {WORKING: working}
    index = np.flatnonzero(split)
    chunk, half = walk.chunk[index], walk.half[index, None]
    # The gradient of the first layer's input comes before those of its weights are added up; the first time that
    # makes whole ones, product by product.
    first = half & ~walk.states.added[index, chunk][:, None]
    ends = half * ranks.layer[chunk] - first * ranks.whole_layer[chunk] + ranks.layer_ending
    working = np.maximum(half * ranks.last_product[chunk], ends)
    yield Moment.SECOND_LAYER_BACKWARD, index + after, {LOGITS: ranks.logits[chunk], WORKING: working}
    yield Moment.FIRST_LAYER_BACKWARD, np.flatnonzero(backward) + after, {WORKING: ranks.first_layer}
    with_embedding = np.flatnonzero(backward & walk.embedding) + after
    yield Moment.EMBEDDING_GRADIENTS, with_embedding, {WORKING: ranks.embedding_gradients}
    index = np.flatnonzero(kind == WEIGHT_GRADIENT)
    chunk, half = walk.chunk[index], walk.half[index, None]
    waiting = ~half * ranks.weights[chunk] - ranks.layer_gradients[chunk]
    yield Moment.WEIGHT_GRADIENTS, index, {SAVED: -ranks.inputs[chunk], WAITING: waiting}
    index = np.flatnonzero(kind == REDUCTION)
    chunk, half = walk.chunk[index], walk.half[index, None]
    unit = ranks.first_unit[chunk]
    yield Moment.GRADIENT_REDUCTION, index, {WEIGHTS: -unit, WAITING: -(half * unit), WORKING: ranks.joined[chunk]}

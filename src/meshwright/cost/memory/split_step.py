"""The step of fully sharded data parallelism under a pipeline whose backward pass torch's autograd splits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn, IntColumn
from meshwright.cost.memory.timeline import MemoryTimeline, Moment
from meshwright.cost.memory.unit_step import UnitStep
from meshwright.layout.splits import PipelineSplit, layers_of_blocks
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule, blocks
from meshwright.schedules.split_walk import BACKWARD, FORWARD, INPUT_GRADIENT, SplitWalk, split_walks
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


class _Chunks(NamedTuple):
    """Bytes of the chunks of one rank, each of shape (v,)."""

    in_flight: FloatColumn
    """Saved of one micro-batch, with the output that is sent, without what lies in the buffer that received it."""
    logits: FloatColumn
    """Of one micro-batch in flight, of the loss and the logits."""
    waiting: FloatColumn
    """Saved of one micro-batch that waits for its weight gradients."""
    gradients: FloatColumn
    """Of one such, the gradients of the outputs of its linear layers and norms."""
    weights: FloatColumn
    """Parameters, a count."""
    embedding: BoolColumn
    head: BoolColumn


def split_step(step: UnitStep) -> MemoryTimeline:
    """The step by its highest moments, found by playing every action of every rank.

    Input gradients come from a graph that is retained. So a chunk and micro-batch keep everything saved until the
    weight gradients, and beside it the gradient of the output of every linear layer and norm, from which these start.
    2-byte weight gradients stay until the next backward pass of the chunk adds them up, and the gradient of what a
    chunk received until the step ends. The chunk with the embedding has its whole backward when its weight gradients
    come.
    Source: torch 2.13, distributed/pipelining/_backward.py (stage_backward_input, stage_backward_weight). step: of
    every stage, shape (r,). Returns allocations in bytes.
    """
    line, saved = MemoryTimeline(len(step.plans)), step.in_flight
    line.allocate("temporaries", "message buffers", saved.received)
    line.allocate("parameters", "gathered until backward", step.until_backward)
    rows = [_moments(step, row) for row in range(len(step.plans))]
    for moment in rows[0] if rows else ():
        parts = [row[moment] for row in rows]
        for name, component in ALIVE.items():
            line.allocate(component, name, np.array([part[name] if part else 0.0 for part in parts]))
        line.at(moment, np.array([bool(part) for part in parts]))
    return line


Parts = dict[str, float]


def _moments(step: UnitStep, row: int) -> dict[Moment, Parts]:
    """What one rank has alive at the fullest of each kind of moment; nothing where it has no such moment."""
    plans = step.plans
    split = PipelineSplit(
        pp=int(plans.pp[row]),
        vpp=int(plans.vpp[row]),
        embedding_as_layer=bool(plans.embedding_as_layer[row]),
        head_as_layer=bool(plans.head_as_layer[row]),
        first_stage_layers=int(plans.first_stage_layers[row]),
        last_stage_layers=int(plans.last_stage_layers[row]),
        chunk_layers=plans.chunkings[int(plans.chunk_layers[row])],
    )
    schedule, stage = Schedule(int(plans.schedule[row])), int(step.stage[row])
    shape = PipelineShape(
        stages=split.pp,
        micro_batches=int(plans.num_microbatches[row]),
        chunks=split.vpp,
        microbatch_group=int(step.group[row]),
    )
    blocks_of_rank = blocks(schedule, split.pp, split.vpp)[:, stage]
    layers = layers_of_blocks(step.inputs, split)[blocks_of_rank].sum(axis=1)
    chunks = _chunks(step, row, layers / max(layers.sum(), 1), blocks_of_rank)
    return _fullest(step, row, split_walks(schedule, shape)[stage], chunks)


def _chunks(step: UnitStep, row: int, share: FloatColumn, blocks_of_rank: IntColumn) -> _Chunks:
    """share: of the rank's layers, that of each chunk; blocks_of_rank: the block that each of them is; shape (v,)."""
    saved, whole, vpp = step.in_flight, step.whole, len(share)
    embedding, head = blocks_of_rank == 0, blocks_of_rank == int(step.plans.pp[row]) * vpp - 1
    sends = ~head & ~np.isin(blocks_of_rank + 1, blocks_of_rank)
    residual, layers = float(saved.residual[row]), share * vpp * float(saved.chunk[row])
    waiting = layers + head * float(saved.head[row]) - residual * ~embedding
    return _Chunks(
        in_flight=waiting + residual * sends,
        logits=head * float(saved.logits_waiting[row]),
        waiting=waiting,
        gradients=share * vpp * float(saved.output_gradients[row]) + head * float(saved.head_gradients[row]),
        weights=share * float(step.layers[row]) + head * float(whole.head[row]) + embedding * whole.embedding[row],
        embedding=embedding,
        head=head,
    )


def _fullest(step: UnitStep, row: int, walk: SplitWalk, chunks: _Chunks) -> dict[Moment, Parts]:
    saved, gradient_bytes = step.in_flight, step.inputs.gradient_bytes
    stored = float(step.stored.all[row] / step.whole.all[row])
    alive = {
        "saved for backward": walk.in_flight @ chunks.in_flight + walk.waiting @ chunks.waiting + saved.standing[row],
        "gradients waiting": walk.waiting @ chunks.gradients
        + walk.half @ (HALF_BYTES * chunks.weights)
        + walk.input_gradients * saved.residual[row],
        "gradients of chunks": (walk.added & ~walk.reduced) @ (gradient_bytes * chunks.weights) * step.several[row]
        + walk.reduced @ (gradient_bytes * chunks.weights * stored),
        "weights sharded again": -(walk.reduced @ (HALF_BYTES * chunks.weights)),
        "logits": walk.in_flight @ chunks.logits,
    }
    return {
        moment: _at(alive, states, logits, working)
        for moment, states, logits, working in _candidates(step, row, walk, chunks)
    }


def _candidates(
    step: UnitStep, row: int, walk: SplitWalk, chunks: _Chunks
) -> Iterator[tuple[Moment, IntColumn, float, float]]:
    """Moments, the states at which they may come (as indices), and what the logits and the working set are more."""
    saved, whole = step.in_flight, step.whole
    before = np.arange(len(walk.kind))
    head, backward = chunks.head[walk.chunk], walk.kind == BACKWARD
    begins = (backward | (walk.kind == INPUT_GRADIENT)) & ~(chunks.embedding[walk.chunk] & ~backward)
    residual, waiting = float(saved.residual[row]), float(saved.logits_waiting[row])
    working, layer = float(saved.working[row]), float(saved.layer[row])
    yield Moment.LAST_LAYER_FORWARD, before[walk.kind == FORWARD] + 1, 0.0, float(saved.layer_output[row])
    yield Moment.LOSS_BACKWARD, before[begins & head], float(saved.loss_working[row]), 0.0
    yield Moment.LAST_LAYER_BACKWARD, before[begins & head], -waiting, working + float(saved.head_gradients[row])
    yield Moment.MIDDLE_LAYER_BACKWARD, before[begins & ~head], 0.0, working
    yield Moment.SECOND_LAYER_BACKWARD, before[begins & ~backward] + 1, 0.0, residual
    yield Moment.FIRST_LAYER_BACKWARD, before[begins & backward] + 1, 0.0, working + layer
    with_embedding = before[begins & chunks.embedding[walk.chunk]] + 1
    yield Moment.EMBEDDING_GRADIENTS, with_embedding, 0.0, float(HALF_BYTES * whole.embedding[row])


def _at(alive: dict[str, FloatColumn], states: IntColumn, logits: float, working: float) -> Parts:
    """What is alive at the fullest of some states."""
    if not len(states):
        return {}
    fullest = states[np.sum([*alive.values()], axis=0)[states].argmax()]
    parts = {name: float(size[fullest]) for name, size in alive.items()}
    return parts | {"logits": parts["logits"] + logits, "working set": working}

"""Split walk: what a rank has worked, action by action, where the backward pass is split under torch's autograd."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn, IntColumn, Ints
from meshwright.distinct import gathered
from meshwright.schedules.action import Action
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule, blocks


class SplitStates(NamedTuple):
    """What a rank has worked at some moments; t moments, v chunks held."""

    in_flight: IntColumn
    """Micro-batches of each chunk whose backward has not begun, shape (t, v)."""
    waiting: IntColumn
    """Those that wait for their weight gradients alone, shape (t, v)."""
    half: BoolColumn
    """Whether 2-byte gradients of the chunk's weights wait to be added up, shape (t, v)."""
    added: BoolColumn
    """Whether the chunk's gradients have been added up and are whole, shape (t, v)."""
    reduced: BoolColumn
    """Whether its gradients and weights are sharded, as all its micro-batches are done, shape (t, v)."""
    input_gradients: IntColumn
    """Gradients of activations that came from other ranks, shape (t,)."""
    further: IntColumn
    """How many more of them for each group of micro-batches that is not walked, shape (t,)."""


class SplitWalk(NamedTuple):
    """One rank's actions that differ in what they do or find; t of them."""

    kind: IntColumn
    """Index into `KINDS`, shape (t,)."""
    chunk: IntColumn
    """Which chunk works, shape (t,)."""
    half: BoolColumn
    """Whether 2-byte gradients of its weights wait before that, shape (t,)."""
    embedding: BoolColumn
    """Whether it holds the embedding, shape (t,)."""
    head: BoolColumn
    states: SplitStates
    """Before every action, and then after every one: 2 t of them."""


KINDS = ("forward", "input_gradient", "weight_gradient", "backward", "reduction")
FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, BACKWARD, REDUCTION = range(len(KINDS))
FILLING = 3
"""Micro-batches for each stage after which every further group is worked as the one before."""


def walked_micro_batches(stages: Ints, micro_batches: Ints, group: Ints) -> Ints:
    """How many micro-batches show all that a rank does: those that fill the pipeline and one group of them more.

    stages: p; micro_batches: m, whole groups of them; group: 1 where the schedule has none; counts, scalar or array
    (n,). Returns a count.

    >>> int(walked_micro_batches(4, 512, 1))
    13
    """
    full = -(-FILLING * stages // group) + 1
    return np.minimum(micro_batches, full * group)


@lru_cache(maxsize=1024)
def split_walks(schedule: Schedule, pipeline: PipelineShape) -> tuple[SplitWalk, ...]:
    """What every rank works, first one first; alike actions in alike states once, as they come last.

    The chunk with the embedding receives no activations: it does nothing where its input gradients would come, and its
    whole backward with its weight gradients. Of the others, weight gradients stay beside the weights until fully_shard
    adds them up, in the next backward pass of the same chunk; the gradients of what was received stay for the step.
    What one chunk hands to the next on the same rank, and the gradient on the way back, takes no buffer of its own.
    A chunk's gradients are reduced behind the last of its actions.
    schedule: with a split backward pass; pipeline: counts. Source: torch 2.13, distributed/pipelining/stage.py
    (backward_one_chunk, backward_weight_one_chunk), schedules.py (_add_reduce_grad) and _backward.py; counted on a
    fake process group. Returns counts by rank and moment.

    >>> first, last = split_walks(Schedule.INTERLEAVED_ZERO_BUBBLE, PipelineShape(2, 2, chunks=2, microbatch_group=2))
    >>> int(first.states.in_flight.sum(axis=1).max())  # chunks that the first rank has in flight at most
    4
    """
    blocks_of_rank = blocks(schedule, pipeline.stages, pipeline.chunks).T
    ranks = schedule.record.actions(pipeline)
    return tuple(_walk(actions, own, pipeline) for actions, own in zip(ranks, blocks_of_rank, strict=True))


def _walk(actions: Sequence[Action], blocks_of_rank: IntColumn, pipeline: PipelineShape) -> SplitWalk:
    """blocks_of_rank: the block of the model that each chunk of the rank is, shape (v,)."""
    first, received = blocks_of_rank == 0, ~np.isin(blocks_of_rank - 1, [-1, *blocks_of_rank])
    kind, chunk = _worked(actions, first)
    # Every group of micro-batches that is not walked repeats what lies between the forwards of the last two groups.
    forwards, group = np.flatnonzero((kind == FORWARD) & (chunk == 0)), pipeline.microbatch_group
    begins, after = forwards[-2 * group :][0], forwards[-group:][0]
    further = ((kind == INPUT_GRADIENT) & received[chunk])[begins:after].sum()
    kind, chunk = _with_reductions(kind, chunk, len(first))
    states = _states(kind, chunk, first, received)._replace(further=further * (np.arange(len(kind) + 1) >= after))
    # Alike actions in alike states stay once, as they come last.
    key = np.column_stack([kind, chunk, *(each[:-1] for each in states[:5])])
    final = np.array(sorted({row.tobytes(): index for index, row in enumerate(key)}.values()), dtype=np.int64)
    return SplitWalk(
        kind=kind[final],
        chunk=chunk[final],
        half=states.half[final, chunk[final]],
        embedding=first[chunk[final]],
        head=blocks_of_rank[chunk[final]] == pipeline.stages * pipeline.chunks - 1,
        states=gathered(states, np.concatenate([final, final + 1])),
    )


def _worked(actions: Sequence[Action], first: BoolColumn) -> tuple[IntColumn, IntColumn]:
    """Kind and chunk of every action, (t,) each; the chunk with the embedding works backward all at once."""
    kind = np.array([KINDS.index(action.kind) for action in actions])
    chunk = np.array([action.chunk for action in actions])
    return np.where(first[chunk] & (kind == WEIGHT_GRADIENT), BACKWARD, kind), chunk


def _with_reductions(kind: IntColumn, chunk: IntColumn, chunks: int) -> tuple[IntColumn, IntColumn]:
    """The same with the reduction of every chunk behind its last action."""
    last = np.array([int(np.flatnonzero(chunk == each)[-1]) for each in range(chunks)]) + 1
    return np.insert(kind, last, REDUCTION), np.insert(chunk, last, np.arange(chunks))


def _states(kind: IntColumn, chunk: IntColumn, first: BoolColumn, received: BoolColumn) -> SplitStates:
    """The state before each of t actions and after the last, t + 1 of them."""
    own = chunk[:, None] == np.arange(len(first))
    forward, split, weight, whole, reduction = ((kind == code)[:, None] & own for code in range(len(KINDS)))
    split = split & ~first
    # How often each chunk has done what, (t + 1, v).
    forwards, splits, weights, wholes, reductions = (
        _before(each.astype(np.int64)).cumsum(axis=0) for each in (forward, split, weight, whole, reduction)
    )
    # The last action of each chunk that left 2-byte gradients, and the last one that took them: (t + 1, v).
    half = _last(weight) > _last(split | whole | reduction)
    # A chunk adds up with its first whole backward, or with the first input gradients behind weight gradients.
    added = wholes + _before((split & half[:-1]).astype(np.int64)).cumsum(axis=0) > 0
    return SplitStates(
        in_flight=forwards - splits - wholes,
        waiting=splits - weights,
        half=half,
        added=added & (reductions == 0),
        reduced=reductions > 0,
        input_gradients=splits @ received,
        further=0 * splits[:, 0],
    )


def _before(happens: IntColumn) -> IntColumn:
    """Moved by one, so that a running sum counts what came before each action; (t, v) to (t + 1, v)."""
    return np.concatenate([np.zeros_like(happens[:1]), happens])


def _last(happens: BoolColumn) -> IntColumn:
    """The last action before each one at which something happened, 0 for none; (t, v) to (t + 1, v)."""
    times = np.arange(1, len(happens) + 1)[:, None]
    return np.maximum.accumulate(_before(np.where(happens, times, 0)), axis=0)

"""Split walk: what a rank has worked, action by action, where the backward pass is split under torch's autograd."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn, IntColumn
from meshwright.schedules.action import Action
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule, blocks


class SplitWalk(NamedTuple):
    """One rank's actions, and its state before each of them and after the last; t actions, v chunks held."""

    kind: IntColumn
    """Index into `KINDS`, shape (t,)."""
    chunk: IntColumn
    """Which chunk works, shape (t,)."""
    in_flight: IntColumn
    """Micro-batches of each chunk whose backward has not begun, shape (t + 1, v)."""
    waiting: IntColumn
    """Those that wait for their weight gradients alone, shape (t + 1, v)."""
    half: BoolColumn
    """Whether 2-byte gradients of the chunk's weights wait to be added up, shape (t + 1, v)."""
    added: BoolColumn
    """Whether the chunk's gradients have been added up, shape (t + 1, v)."""
    reduced: BoolColumn
    """Whether all its micro-batches are done, so that its gradients and weights are sharded, shape (t + 1, v)."""
    input_gradients: IntColumn
    """Gradients of activations that came from other ranks, shape (t + 1,)."""


KINDS = ("forward", "input_gradient", "weight_gradient", "backward")
FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, BACKWARD = range(4)


@lru_cache(maxsize=1024)
def split_walks(schedule: Schedule, pipeline: PipelineShape) -> tuple[SplitWalk, ...]:
    """What every rank works, first one first.

    The chunk with the embedding receives no activations: it does nothing where its input gradients would come, and its
    whole backward with its weight gradients. Of the others, weight gradients stay beside the weights until fully_shard
    adds them up, in the next backward pass of the same chunk; the gradients of what was received stay for the step.
    What one chunk hands to the next on the same rank, and the gradient on the way back, takes no buffer of its own.
    schedule: with a split backward pass; pipeline: counts. Source: torch 2.13, distributed/pipelining/stage.py
    (backward_one_chunk, backward_weight_one_chunk) and _backward.py; counted on a fake process group. Returns counts by
    rank and moment.

    >>> first, last = split_walks(Schedule.INTERLEAVED_ZERO_BUBBLE, PipelineShape(2, 2, chunks=2, microbatch_group=2))
    >>> int(first.in_flight.sum(axis=1).max())  # chunks that the first rank has in flight at most
    4
    """
    blocks_of_rank = blocks(schedule, pipeline.stages, pipeline.chunks).T
    return tuple(_walk(*each) for each in zip(schedule.record.actions(pipeline), blocks_of_rank, strict=True))


def _walk(actions: Sequence[Action], blocks_of_rank: IntColumn) -> SplitWalk:
    """held: the block of the model that each chunk of the rank is, shape (v,)."""
    first, received = blocks_of_rank == 0, ~np.isin(blocks_of_rank - 1, [-1, *blocks_of_rank])
    kind = np.array([KINDS.index(action.kind) for action in actions])
    chunk = np.array([action.chunk for action in actions])
    # Which chunk works, (t, v); the one with the embedding works backward when its weight gradients come.
    own = chunk[:, None] == np.arange(len(first))
    begins = first[chunk]
    kind = np.where(begins & (kind == WEIGHT_GRADIENT), BACKWARD, kind)
    forward, split, weight, whole = ((kind == code)[:, None] & own for code in range(4))
    split = split & ~first
    counts = [_before(each.astype(np.int64)).cumsum(axis=0) for each in (forward, split, weight, whole)]
    # The last action of each chunk that left 2-byte gradients, and the last one that added them up: (t + 1, v).
    left, taken = (_last(each) for each in (weight, split | whole))
    half = left > taken
    # A chunk adds up with its first whole backward, or with the first input gradients behind weight gradients.
    added = counts[3] + _before((split & half[:-1]).astype(np.int64)).cumsum(axis=0) > 0
    done = counts[2] + counts[3]
    return SplitWalk(
        kind=kind,
        chunk=chunk,
        in_flight=counts[0] - counts[1] - counts[3],
        waiting=counts[1] - counts[2],
        half=half & (done < done[-1]),
        added=added,
        reduced=done == done[-1],
        input_gradients=counts[1] @ received,
    )


def _before(happens: IntColumn) -> IntColumn:
    """Moved by one, so that a running sum counts what came before each action; (t, v) to (t + 1, v)."""
    return np.concatenate([np.zeros_like(happens[:1]), happens])


def _last(happens: BoolColumn) -> IntColumn:
    """The last action before each one at which something happened, 0 for none; (t, v) to (t + 1, v)."""
    times = np.arange(1, len(happens) + 1)[:, None]
    return np.maximum.accumulate(_before(np.where(happens, times, 0)), axis=0)

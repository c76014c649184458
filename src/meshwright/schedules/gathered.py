"""Gathered: how often the weights of a rank's chunks are gathered, and which of them are unsharded meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from meshwright.arrays import BoolColumn, IntColumn
from meshwright.schedules.action import Action
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule

AHEAD = 3
"""Chunks that are unsharded at once: those that work next."""
GROUPS = 3
"""Groups of micro-batches after which every further one adds as many gathers."""


class ChunkGathers(NamedTuple):
    """How often a step gathers the weights of every chunk of every rank; counts, each of shape (chunks, ranks)."""

    ahead: IntColumn
    """Before it works, all of it at once."""
    forward: IntColumn
    backward: IntColumn


Count = TypeVar("Count", int, IntColumn)


class UnshardedChunks(NamedTuple, Generic[Count]):
    """How many chunks of a rank are unsharded, where weights are resharded after forward and not after backward.

    The most of them while as many micro-batches are in flight as ever, and as many chunks have worked backward as
    before the last forward. Counts, of one rank or of many, shape (n,); of `own` 1 where the chunk that works is
    among them.
    """

    forward: Count
    """Beside the chunk of a forward."""
    forward_first: Count
    """1 where the rank's first chunk is one of these."""
    at_loss: Count
    """Before a backward of the last chunk."""
    first: Count
    """Before the backward that follows the last forward."""
    first_own: Count
    after_backward: Count
    second: Count
    """Before the second backward after the last forward."""
    second_own: Count
    following: Count
    """Before the second backward of the chunk that works next, the first one that none had worked on before; with one
    group of micro-batches a later one than that behind the last forward."""
    following_own: Count
    following_first: Count
    """1 where the rank's first chunk is one of these and does not work, with one group of micro-batches."""
    following_passed: Count
    """Backward passes between the last forward and that one."""
    fullest: Count
    """Before the backward with the most from there and from when every chunk has worked backward."""
    fullest_own: Count
    passed: Count
    """Backward passes between the last forward and that one."""


def chunk_gathers(schedule: Schedule, pipeline: PipelineShape, *, resharded: bool) -> ChunkGathers:
    """Gathers of every chunk: the three chunks that work next are unsharded; resharded when others come first.

    Resharded after every forward as well, a chunk is gathered again for its next pass, but stays gathered
    after a backward. Every group of micro-batches beyond the third adds as many gathers as the third does.
    schedule: of several chunks a rank; pipeline: its counts. Returns counts, shape (chunks, ranks).
    Source: torch 2.13, pipelining/schedules.py, _add_unshard_reshard (max_active_stages) and _PipelineScheduleRuntime;
    stage.py, backward_maybe_with_nosync (set_reshard_after_backward).

    >>> pipeline = PipelineShape(stages=2, micro_batches=4, chunks=2, microbatch_group=2)
    >>> [part.tolist() for part in chunk_gathers(Schedule.INTERLEAVED, pipeline, resharded=True)]
    [[[1, 1], [1, 1]], [[3, 2], [2, 0]], [[1, 2], [2, 4]]]
    """
    groups, rest = divmod(pipeline.micro_batches, pipeline.microbatch_group)
    if groups <= GROUPS or rest:
        return _gathers(schedule, pipeline, resharded)
    fewer, enough = (
        _gathers(schedule, pipeline._replace(micro_batches=count * pipeline.microbatch_group), resharded)
        for count in (GROUPS - 1, GROUPS)
    )
    further = groups - GROUPS
    return ChunkGathers(*(more + further * (more - less) for less, more in zip(fewer, enough, strict=True)))


@lru_cache(maxsize=4096)
def _gathers(schedule: Schedule, pipeline: PipelineShape, resharded: bool) -> ChunkGathers:
    walk = _walk(schedule.record.actions(pipeline), pipeline.chunks, resharded)
    again = walk.own & ~walk.unsharded
    before = np.concatenate([np.zeros_like(walk.window[:, :1]), walk.window[:, :-1]], axis=1)
    events = walk.window & ~before, again & walk.forward, again & ~walk.forward
    return ChunkGathers(*(each.sum(axis=1).T for each in events))


@lru_cache(maxsize=4096)
def unsharded_chunks(
    schedule: Schedule, pipeline: PipelineShape, *, resharded: bool = True, alone: bool = False
) -> list[UnshardedChunks[int]]:
    """Chunks of every rank that are unsharded at the moments with the most activations.

    schedule: of any number of chunks a rank; pipeline: its counts; resharded: after forward; alone: no other rank has a
    part of the weights, so that nothing is sent ahead, and a chunk is put together when it works. Returns counts by
    rank. Source: `chunk_gathers`; torch 2.13, fsdp/_fully_shard/_fsdp_param_group.py (unshard and wait_for_unshard of a
    world of one).

    >>> unsharded_chunks(Schedule.ONE_F_ONE_B, PipelineShape(stages=2, micro_batches=4)) == [ONE_CHUNK] * 2
    True
    """
    chunks = pipeline.chunks
    if chunks == 1:
        return [ONE_CHUNK] * pipeline.stages
    ranks = schedule.record.actions(pipeline)
    walk = _walk(ranks, chunks, resharded)
    unsharded = walk.unsharded & (walk.own | walk.left) if alone else walk.unsharded
    own, every = (walk.own & unsharded).sum(axis=2), unsharded.sum(axis=2)
    first = (unsharded & ~walk.own)[:, :, 0]
    columns = zip(walk.forward[:, :, 0], walk.own.argmax(axis=2), every, own, first, map(len, ranks), strict=True)
    return [
        _of_rank(forward[:count], worked[:count], of_all[:count], of_own[:count], of_first[:count], pipeline)
        for forward, worked, of_all, of_own, of_first, count in columns
    ]


ONE_CHUNK = UnshardedChunks(
    forward=0, forward_first=0, at_loss=0, first=0, first_own=0, after_backward=1, second=1, second_own=1, following=1,
    following_own=1, following_first=0, following_passed=1, fullest=1, fullest_own=1, passed=1,
)  # fmt: skip
"""It is unsharded after its backward."""


def _of_rank(
    forward: BoolColumn,
    worked: IntColumn,
    every: IntColumn,
    own: IntColumn,
    first_chunk: BoolColumn,
    pipeline: PipelineShape,
) -> UnshardedChunks[int]:
    """Of one rank, of each action: whether it is a forward, its chunk, what is unsharded before it, and whether the
    first chunk is and does not work; shape (t,).
    """
    chunks, one_group = pipeline.chunks, pipeline.micro_batches <= pipeline.microbatch_group
    # Actions that are backward passes, and how many of them come before the last forward.
    backwards = np.flatnonzero(~forward)
    before = int(np.searchsorted(backwards, np.flatnonzero(forward)[-1]))
    # The first backward of each chunk; from the last of those before that forward on, the most are in flight.
    firsts = [int(np.flatnonzero(worked[backwards] == chunk)[0]) for chunk in range(chunks)]
    in_flight = backwards[max((first + 1 for first in firsts if first < before), default=0) : before + 1]
    # Of these moments, the one with the most unsharded chunks, and those at which the loss works.
    first = in_flight[every[in_flight].argmax()]
    at_loss = in_flight[worked[in_flight] == chunks - 1]
    second = backwards[min(before + 1, len(backwards) - 1)]
    # The moment with the most from when every chunk has worked backward.
    all_worked = min(max(before, *firsts) + 1, len(backwards) - 1)
    fullest = all_worked + int(every[backwards[all_worked:]].argmax())
    following = min([first + 1 for first in firsts if first >= before + one_group], default=all_worked)
    following = min(following, all_worked)
    others = (every - own)[in_flight - 1]
    return UnshardedChunks(
        forward=others.max(),
        forward_first=int(first_chunk[in_flight - 1][others == others.max()].any()),
        at_loss=every[at_loss].max(initial=0),
        first=every[first],
        first_own=own[first],
        after_backward=(every - own)[in_flight].max() + 1,
        second=every[second],
        second_own=own[second],
        following=every[backwards[following]],
        following_own=own[backwards[following]],
        following_first=int(one_group and first_chunk[backwards[following]]),
        following_passed=max(following - before, 1),
        fullest=every[backwards[fullest]],
        fullest_own=own[backwards[fullest]],
        passed=max(fullest - before, 1),
    )


class _Walk(NamedTuple):
    """What every rank does, one action after the other."""

    forward: BoolColumn
    """Whether it is a forward, shape (ranks, t, 1)."""
    own: BoolColumn
    """Which chunk works, shape (ranks, t, chunks)."""
    window: BoolColumn
    """Which ones are among those that work next, shape (ranks, t, chunks)."""
    unsharded: BoolColumn
    """Which ones are unsharded before it, shape (ranks, t, chunks)."""
    left: BoolColumn
    """Which ones their last action left unsharded and wanted, shape (ranks, t, chunks)."""


def _walk(ranks: Sequence[Sequence[Action]], chunks: int, resharded: bool) -> _Walk:
    """A chunk is unsharded if it works soon, and after its last action was either left so or not wanted for a while."""
    # One column for each action, t; ranks with fewer of them are filled up with -1: (ranks, t).
    longest = max(map(len, ranks))
    worked = np.array([[action.chunk for action in actions] + [-1] * (longest - len(actions)) for actions in ranks])
    kinds = [[action.kind == "forward" for action in actions] + [False] * (longest - len(actions)) for actions in ranks]
    forward = np.array(kinds)[:, :, None]
    # Which chunk each action works on: own (ranks, t, chunks).
    times, own = np.arange(worked.shape[1])[:, None], worked[:, :, None] == np.arange(chunks)
    never = len(times)
    # The next action of each chunk from each moment on, t where there is none: (ranks, t, chunks).
    coming = np.minimum.accumulate(np.where(own, times, never)[:, ::-1], axis=1)[:, ::-1]
    window = coming < never
    if chunks > AHEAD:
        # Chunks that work sooner than each one; one among the first three of them is unsharded ahead of its work.
        window &= (coming[:, :, None, :] < coming[:, :, :, None]).sum(axis=3) < AHEAD
    # The action of each chunk before this one, -1 where there is none: (ranks, t, chunks).
    last = np.maximum.accumulate(np.where(own, times, -1), axis=1)
    last = np.concatenate([np.full_like(last[:, :1], -1), last[:, :-1]], axis=1)
    # Whether that action left it unsharded (a backward does), or it was out of the window right after it.
    left = ~np.take_along_axis(forward, last, axis=1) if resharded else np.ones_like(own)
    unwanted = ~np.take_along_axis(window, np.minimum(last + 1, never - 1), axis=1)
    return _Walk(
        forward=forward,
        own=own,
        window=window,
        unsharded=window & ((last < 0) | left | unwanted),
        left=(last >= 0) & left & ~unwanted,
    )

"""Peak: the chunks in flight, and those that wait for weight gradients, when a rank keeps the most."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn, IntColumn, Ints
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule


class ChunksAtPeak(NamedTuple):
    """Micro-batches of which each chunk of each rank keeps something; counts of shape (chunks held, p)."""

    in_flight: IntColumn
    """Worked forward and not yet backward."""
    waiting: IntColumn
    """Of which only the weight gradients are still to come."""


def in_flight(schedule: int, stage: Ints, pipeline: PipelineShape) -> Ints:
    """Chunks that one rank has worked forward and not yet backward, at most, under its schedule.

    schedule: code of `Schedule`; stage: 0 is first; pipeline: counts; scalar or array (n,). Returns a count of chunks.
    Sources: the schedule's own file.

    >>> [int(in_flight(Schedule.ONE_F_ONE_B, rank, PipelineShape(stages=4, micro_batches=64))) for rank in range(4)]
    [4, 3, 2, 1]
    """
    counts = Schedule(schedule).record.in_flight(stage, pipeline)
    return counts[0] + counts[1] if isinstance(counts, tuple) else counts


def chunks_at_peak(schedule: int, pipeline: PipelineShape, layers: IntColumn, *, all_worked: bool) -> ChunksAtPeak:
    """Micro-batches that each chunk of each rank keeps when the rank keeps the most.

    schedule: code of `Schedule`; pipeline: counts; layers: of each chunk, counts of shape (chunks held, p). Looped
    chunks take turns on groups of micro-batches, the last one works backward first: once full, a rank keeps as many
    chunks after every forward, and of these moments the one with the most layers counts. all_worked: of those alone by
    which every chunk has worked backward, if there are such.
    Sources: the schedule's own file. Returns counts, shape (chunks held, p).

    >>> shape = PipelineShape(stages=4, micro_batches=8)
    >>> chunks_at_peak(0, shape, np.ones((1, 4), dtype=int), all_worked=False)[0].tolist()  # 1F1B: p - r
    [[4, 3, 2, 1]]
    """
    moments = _moments(schedule, pipeline, several=bool((layers != layers[0]).any()))
    # Layers in flight at each moment, (moments, p); the fullest moment of each rank, (p,).
    weight = (moments.in_flight * layers).sum(axis=1)
    if all_worked:
        weight = np.where(moments.all_worked, weight + layers.sum(), weight)
    fullest = weight.argmax(axis=0)
    most: IntColumn = moments.in_flight[fullest, :, np.arange(len(fullest))].T
    return ChunksAtPeak(most, moments.waiting)


class _Moments(NamedTuple):
    """Moments after a forward, at which a rank that is full keeps as many chunks as at every other."""

    in_flight: IntColumn
    """Micro-batches of each chunk, shape (moments, chunks, p)."""
    all_worked: BoolColumn
    """Whether every chunk has worked backward, shape (moments, p)."""
    waiting: IntColumn
    """As of `ChunksAtPeak`."""


@lru_cache(maxsize=64)
def _moments(schedule: int, pipeline: PipelineShape, *, several: bool) -> _Moments:
    """Those in which chunks take turns; several: all, where it matters which chunks are in flight."""
    record, chunks, group = Schedule(schedule).record, pipeline.chunks, pipeline.microbatch_group
    stage = np.arange(pipeline.stages)
    counts: Any = record.in_flight(stage, pipeline)
    if isinstance(counts, tuple):
        both = np.stack(counts)
        return _Moments(both[None], np.zeros((1, len(stage)), dtype=bool), np.zeros_like(both))
    # One row each: a rank has worked `forwards` chunks, and all but `counts` of them backward.
    later = np.arange(2 * group * chunks if several else 1)[:, None]
    forwards = np.minimum(counts + later, pipeline.micro_batches * chunks)
    backwards = forwards - counts
    in_flight = _of_each_chunk(forwards, chunks, group) - _of_each_chunk(backwards, chunks, group)[:, ::-1]
    waiting = record.waiting(stage, counts, pipeline) if record.waiting else 0 * counts
    last = np.arange(chunks)[:, None] == chunks - 1
    return _Moments(in_flight, backwards > group * (chunks - 1), np.where(last, waiting, 0))


def _of_each_chunk(passes: IntColumn, chunks: int, group: int) -> IntColumn:
    """How many of so many passes each chunk has had, the first one first; passes: shape (k, p); returns (k, v, p)."""
    # Whole rounds of all chunks, (k, 1, p), and what is left of the last one.
    rounds, rest = np.divmod(passes[:, None], group * chunks)
    return rounds * group + np.minimum(np.maximum(rest - group * np.arange(chunks)[:, None], 0), group)

"""Interleaved 1F1B: each rank holds v chunks of layers, so that the pipeline fills v times faster."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints, larger
from meshwright.schedules import one_forward_one_backward
from meshwright.schedules.action import Action
from meshwright.schedules.pipeline import PipelineShape, PipelineTimes
from meshwright.schedules.record import ScheduleRecord


def in_flight(stage: Ints, pipeline: PipelineShape) -> Ints:
    """Chunk activations that one rank keeps at most: min(m v, 2(p - r - 1) + (v - 1)g + 1).

    stage: r, 0 is first; pipeline: p, v, m and g; counts, scalar or array (n,). Returns a count of chunks, each of 1/v
    of the rank's layers. Source: Megatron-LM, pipeline_parallel/schedules.py, get_pp_rank_microbatches.

    >>> [int(in_flight(rank, PipelineShape(4, 64, chunks=2, microbatch_group=4))) for rank in range(4)]
    [11, 9, 7, 5]
    """
    warm_up = 2 * (pipeline.stages - stage - 1) + (pipeline.chunks - 1) * pipeline.microbatch_group
    return np.minimum(pipeline.micro_batches * pipeline.chunks, warm_up + 1)


def bubble_time(pipeline: PipelineTimes) -> Floats:
    """Idle time of the slowest rank: that of 1F1B, and what fewer micro-batches than ranks leave empty between chunks.

    A rank begins its next chunk when the first micro-batch has gone through all others, sum of t_r / v after the last
    one; it has work for m max t_r / v of that. pipeline: times t_r of one micro-batch through all v chunks of a rank,
    scalar or array (n,). Returns seconds. With equal ranks this is (p - 1 + (v - 1) max(p - m, 0))(F + B) / v.

    >>> from meshwright.schedules.pipeline import PassTimes
    >>> one, four = PassTimes(1.0, 1.0, 1.0), PassTimes(4.0, 4.0, 4.0)  # seconds of one of four equal ranks, and of all
    >>> times = [PipelineTimes(one, four, 4, 2, few, waiting=1.0, overlaps_steps=True) for few in (8, 1)]
    >>> [float(bubble_time(each)) for each in times]
    [4.5, 9.0]
    """
    empty = larger(pipeline.whole.total - pipeline.micro_batches * pipeline.slowest.total, 0.0)
    return one_forward_one_backward.bubble_time(pipeline) + (pipeline.chunks - 1) / pipeline.chunks * empty


def actions(pipeline: PipelineShape) -> list[list[Action]]:
    """For every rank, what it does in order. pipeline: p, v, m and g, counts.

    Returns actions by rank. Source: Narayanan et al., arXiv:2104.04473, section 2.2.

    >>> ranks = actions(PipelineShape(stages=2, micro_batches=2, chunks=2, microbatch_group=2))
    >>> [" ".join(f"{action.kind[0]}{action.chunk}.{action.micro_batch}" for action in rank) for rank in ranks]
    ['f0.0 f0.1 f1.0 f1.1 b1.0 b1.1 b0.0 b0.1', 'f0.0 f0.1 f1.0 b1.0 f1.1 b1.1 b0.0 b0.1']
    """
    stages, chunks, order = pipeline.stages, pipeline.chunks, forward_order(pipeline)
    forwards = [Action("forward", chunk, index) for chunk, index in order]
    backwards = [Action("backward", chunks - 1 - chunk, index) for chunk, index in order]
    warm_ups = [2 * (stages - rank - 1) + (chunks - 1) * pipeline.microbatch_group for rank in range(stages)]
    return [_rank_actions(forwards, backwards, min(warm_up, len(order))) for warm_up in warm_ups]


def forward_order(pipeline: PipelineShape) -> list[tuple[int, int]]:
    """Chunk and micro-batch of every forward of a rank: the chunks take turns on groups of micro-batches.

    pipeline: v, m and g, counts; the last group is what is left. Returns indices. Source: Megatron-LM,
    pipeline_parallel/schedules.py, get_schedule_table.

    >>> forward_order(PipelineShape(stages=2, micro_batches=3, chunks=2, microbatch_group=2))
    [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]
    """
    micro_batches, group = pipeline.micro_batches, pipeline.microbatch_group
    return [
        (chunk, first + offset)
        for first in range(0, micro_batches, group)
        for chunk in range(pipeline.chunks)
        for offset in range(min(group, micro_batches - first))
    ]


def _rank_actions(forwards: list[Action], backwards: list[Action], warm_up: int) -> list[Action]:
    count = len(forwards) - warm_up
    steady = [action for pair in zip(forwards[warm_up:], backwards[:count], strict=True) for action in pair]
    return forwards[:warm_up] + steady + backwards[count:]


RECORD = ScheduleRecord(
    name="interleaved",
    code=1,
    chunks="several",
    grouped=True,
    in_flight=in_flight,
    peak_micro_batches=2,
    bubble_time=bubble_time,
    actions=actions,
    exchanges=1,
    clock_unequal=(0.89, 1.0),
    framework_names={"torch": "Interleaved1F1B"},
)

"""Pipeline schedules: one file each, chosen by the plan's code."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.cost.schedules import interleaved, one_forward_one_backward
from meshwright.layout.plan import Schedule


def live_chunks(
    schedule: Ints, stage: Ints, stages: Ints, chunks: Ints, micro_batches: Ints, microbatch_group: Ints
) -> Ints:
    """Chunk activations that one rank keeps at most under its schedule.

    schedule: code of `Schedule`; stage: 0 is first; stages, chunks per rank, micro_batches, microbatch_group (those of
    an interleaved schedule's group): counts; scalar or array (n,). Returns a count of chunks.
    Sources: the schedule's own file.
    """
    return np.where(
        np.equal(schedule, Schedule.INTERLEAVED),
        interleaved.live_chunks(stage, stages, chunks, micro_batches, microbatch_group),
        one_forward_one_backward.live_chunks(stage, stages, micro_batches),
    )


def bubble_time(schedule: Ints, slowest: Floats, total: Floats, chunks: Ints) -> Floats:
    """Idle time of the slowest rank under its schedule, seconds.

    schedule: code of `Schedule`; slowest, total: largest and summed time of one micro-batch over the ranks, seconds;
    chunks: per rank, count; scalar or array (n,). Returns seconds. Sources: the schedule's own file.
    """
    return np.where(
        np.equal(schedule, Schedule.INTERLEAVED),
        interleaved.bubble_time(slowest, total, chunks),
        one_forward_one_backward.bubble_time(slowest, total),
    )

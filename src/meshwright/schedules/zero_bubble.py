"""ZB-H1 and ZB-H2, also ZB-1p and ZB-2p: 1F1B whose weight gradients wait until a stage would be idle, with the memory
of 1F1B or twice as much (Qi et al., arXiv:2401.10241)."""

from __future__ import annotations

from functools import partial

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.schedules import interleaved_zero_bubble
from meshwright.schedules.action import Action
from meshwright.schedules.pipeline import PipelineShape, PipelineTimes
from meshwright.schedules.record import ScheduleRecord


def in_flight(stage: Ints, pipeline: PipelineShape, limit: int) -> Ints:
    """Micro-batches that one stage has worked forward and not yet backward, at most: min(m, p - r) with ZB-H1,
    min(m, 2(p - r)) with ZB-H2.

    stage: r, 0 is first; pipeline: p and m; counts, scalar or array (n,); limit: 1 or 2, of the memory of 1F1B. Returns
    a count. Source: arXiv:2401.10241, section 2.

    >>> [int(in_flight(rank, PipelineShape(stages=4, micro_batches=16), limit=2)) for rank in range(4)]
    [8, 6, 4, 2]
    """
    return np.minimum(pipeline.micro_batches, limit * (pipeline.stages - stage))


def waiting(stage: Ints, live: Ints, pipeline: PipelineShape, limit: int) -> Ints:
    """Micro-batches that wait for their weight gradients beside those in flight, at most: r, or 2r with ZB-H2.

    stage: r; live: `in_flight` of it; pipeline: m; counts, scalar or array (n,); limit: 1 or 2. Returns a count.
    Source: arXiv:2401.10241, section 2.
    """
    return np.minimum(limit * stage, pipeline.micro_batches - live)


def bubble_time_1p(pipeline: PipelineTimes) -> Floats:
    """Idle time of the slowest stage with ZB-H1: that of the interleaved form with one chunk.

    pipeline: times of one micro-batch, scalar or array (n,). Returns seconds. A search under a limit in bytes finds
    nothing shorter, as the first stage may start no more than p micro-batches (arXiv:2401.10241, table 5: ZB-1p as
    ZB-H1).
    """
    return interleaved_zero_bubble.bubble_time(pipeline)


def bubble_time_2p(pipeline: PipelineTimes) -> Floats:
    """Idle time of the slowest stage with ZB-H2: the others' F + B_i - 2 W / w, of which fewer micro-batches than 2p
    fill less of W; and no less than the way of the first micro-batch where steps do not overlap.

    pipeline: times of one micro-batch, and w, what a micro-batch keeps for its weight gradients; scalar or array (n,).
    Returns seconds. With equal stages and w = 1 this is (p - 1)(F + B_i - 2W) (arXiv:2401.10241, table 1). The last
    stage has left its weight gradients to the end, and what it keeps for them is at most what the first one keeps for
    its live micro-batches; where that limit is in bytes, 1 / w times as many wait.
    """
    others, most = pipeline.others, np.maximum(pipeline.stages - 1, 1)
    filled = np.minimum((pipeline.micro_batches - 1) / most, 2.0 / pipeline.waiting)
    idle = np.maximum(others.forward + others.input_gradient - filled * others.weight_gradient, 0.0)
    return pipeline.at_least(np.maximum(idle, np.where(pipeline.overlaps_steps, 0.0, others.forward)))


def actions(pipeline: PipelineShape, limit: int) -> list[list[Action]]:
    """For every stage, what it does in order. pipeline: p and m; limit: 1 or 2, of the memory of 1F1B; counts."""
    one_group = pipeline._replace(chunks=1, microbatch_group=pipeline.micro_batches)
    return interleaved_zero_bubble.actions(one_group, delay=limit)


RECORD_1P = ScheduleRecord(
    name="zb-1p",
    code=4,
    chunks=1,
    splits_backward=True,
    in_flight=partial(in_flight, limit=1),
    waiting=partial(waiting, limit=1),
    peak_micro_batches=4,
    bubble_time=bubble_time_1p,
    actions=partial(actions, limit=1),
    exchanges=0,
    clock_unequal=(0.91, 1.0),
)
RECORD_2P = ScheduleRecord(
    name="zb-2p",
    code=5,
    chunks=1,
    splits_backward=True,
    in_flight=partial(in_flight, limit=2),
    waiting=partial(waiting, limit=2),
    peak_micro_batches=4,
    bubble_time=bubble_time_2p,
    actions=partial(actions, limit=2),
    exchanges=0,
    clock_unequal=(0.88, 1.0),
)

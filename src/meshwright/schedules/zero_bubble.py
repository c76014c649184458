"""ZB-H1 and ZB-H2, also ZB-1p and ZB-2p: 1F1B whose weight gradients wait until a stage would be idle, with the memory
of 1F1B or twice as much (Qi et al., arXiv:2401.10241). ZB-H1 is interleaved zero bubble with one chunk; a search for
ZB-1p under a limit in bytes finds nothing shorter, as the first stage may start no more than p micro-batches (table 5).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from meshwright.arrays import Floats
from meshwright.schedules import interleaved_zero_bubble
from meshwright.schedules.interleaved_zero_bubble import actions, in_flight, waiting
from meshwright.schedules.pipeline import PipelineTimes
from meshwright.schedules.record import ScheduleRecord


def bubble_time(pipeline: PipelineTimes) -> Floats:
    """Idle time of the slowest stage with ZB-H2: the others' F + B_i - 2 W / w, of which fewer micro-batches than 2p
    fill less of W; and no less than the way of the first micro-batch where steps do not overlap.

    pipeline: times of one micro-batch, and w, what a micro-batch keeps for its weight gradients; scalar or array (n,).
    Returns seconds. With equal stages and w = 1 this is (p - 1)(F + B_i - 2W) (arXiv:2401.10241, table 1). The last
    stage has left its weight gradients to the end, and what it keeps for them is at most what the first one keeps for
    its micro-batches in flight; where that limit is in bytes, 1 / w times as many wait.

    >>> from meshwright.schedules.pipeline import PassTimes
    >>> one, four = PassTimes(1.0, 1.0, 1.0), PassTimes(4.0, 4.0, 4.0)  # seconds of one of four equal ranks, and of all
    >>> float(bubble_time(PipelineTimes(one, four, 4, 1, micro_batches=16, waiting=1.0, overlaps_steps=True)))
    0.0
    """
    others, most = pipeline.others, np.maximum(pipeline.stages - 1, 1)
    filled = np.minimum((pipeline.micro_batches - 1) / most, 2.0 / pipeline.waiting)
    idle = np.maximum(others.forward + others.input_gradient - filled * others.weight_gradient, 0.0)
    return pipeline.at_least(np.maximum(idle, np.where(pipeline.overlaps_steps, 0.0, others.forward)))


RECORD_1P = ScheduleRecord(
    name="zb-1p",
    code=4,
    chunks=1,
    splits_backward=True,
    in_flight=in_flight,
    waiting=waiting,
    peak_micro_batches=4,
    bubble_time=interleaved_zero_bubble.bubble_time,
    actions=actions,
    clock_unequal=(0.91, 1.0),
)
RECORD_2P = ScheduleRecord(
    name="zb-2p",
    code=5,
    chunks=1,
    splits_backward=True,
    in_flight=partial(in_flight, delay=2),
    waiting=partial(waiting, delay=2),
    peak_micro_batches=4,
    bubble_time=bubble_time,
    actions=partial(actions, delay=2),
    clock_unequal=(0.88, 1.0),
)

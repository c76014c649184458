"""1F1B: each stage alternates one forward and one backward once it has filled (PipeDream-Flush, arXiv:2006.09503)."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.schedules.action import Action
from meshwright.schedules.pipeline import PipelineShape, PipelineTimes
from meshwright.schedules.record import ScheduleRecord


def in_flight(stage: Ints, pipeline: PipelineShape) -> Ints:
    """Micro-batches whose activations one stage keeps at most: min(m, p - r).

    stage: r, 0 is first; pipeline: p and m; counts, scalar or array (n,). Returns a count.
    Source: Narayanan et al., arXiv:2104.04473, section 2.2.

    >>> [int(in_flight(rank, PipelineShape(stages=4, micro_batches=64))) for rank in range(4)]
    [4, 3, 2, 1]
    """
    return np.minimum(pipeline.micro_batches, pipeline.stages - stage)


def bubble_time(pipeline: PipelineTimes) -> Floats:
    """Idle time of the slowest rank while the pipeline fills and drains: (sum of t_r less max t_r) / v; also that of
    GPipe, and of interleaved 1F1B with as many micro-batches as ranks.

    pipeline: times t_r = forward plus backward of one micro-batch through all v chunks of a rank, scalar or array (n,).
    Returns seconds. With equal ranks this is (p - 1)(F + B) / v (Narayanan et al., arXiv:2104.04473, section 2.2).

    >>> from meshwright.schedules.pipeline import PassTimes
    >>> one, four = PassTimes(1.0, 1.0, 1.0), PassTimes(4.0, 4.0, 4.0)  # seconds of one of four equal ranks, and of all
    >>> float(bubble_time(PipelineTimes(one, four, 4, 1, micro_batches=16, waiting=1.0, overlaps_steps=True)))
    9.0
    """
    return pipeline.others.total / pipeline.chunks


def actions(pipeline: PipelineShape) -> list[list[Action]]:
    """For every stage, what it does in order. pipeline: p and m, counts.

    Returns actions by rank. Source: arXiv:2006.09503, PipeDream-Flush.

    >>> ranks = actions(PipelineShape(stages=2, micro_batches=3))
    >>> [" ".join(f"{action.kind[0]}{action.micro_batch}" for action in rank) for rank in ranks]
    ['f0 f1 b0 f2 b1 b2', 'f0 b0 f1 b1 f2 b2']
    """
    return [_stage_actions(stage, pipeline.stages, pipeline.micro_batches) for stage in range(pipeline.stages)]


def _stage_actions(stage: int, stages: int, micro_batches: int) -> list[Action]:
    warm_up = min(stages - stage - 1, micro_batches)
    order = [Action("forward", 0, index) for index in range(warm_up)]
    for index in range(micro_batches - warm_up):
        order += [Action("forward", 0, warm_up + index), Action("backward", 0, index)]
    return order + [Action("backward", 0, index) for index in range(micro_batches - warm_up, micro_batches)]


RECORD = ScheduleRecord(
    name="1f1b",
    code=0,
    chunks=1,
    in_flight=in_flight,
    peak_micro_batches=2,
    bubble_time=bubble_time,
    actions=actions,
    exchanges=2,
    clock_unequal=(0.92, 1.0),
    framework_names={"torch": "1F1B", "nanotron": "1f1b"},
)

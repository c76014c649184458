"""ZB-V: zero bubble over two chunks in the shape of a V, with the memory of 1F1B on every rank (arXiv:2401.10241)."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.schedules.action import Action
from meshwright.schedules.pipeline import PipelineShape, PipelineTimes
from meshwright.schedules.v_shaped import V_SHAPED, numbered


def in_flight(stage: Ints, pipeline: PipelineShape) -> tuple[Ints, Ints]:
    """Micro-batches whose activations either chunk keeps when its rank keeps the most: min(m, 2p - 1 - r) of the first,
    min(m, r + 1) of the second; 2p chunks of half a rank's layers together.

    stage: r, 0 is first; pipeline: p and m; counts, scalar or array (n,). Returns two counts.
    Source: arXiv:2401.10241, section 6; torch 2.13, pipelining/schedules.py, ScheduleZBVZeroBubble, whose own tables
    keep as many.

    >>> [tuple(map(int, in_flight(rank, PipelineShape(stages=4, micro_batches=16)))) for rank in range(4)]
    [(7, 1), (6, 2), (5, 3), (4, 4)]
    """
    most = pipeline.micro_batches
    return np.minimum(most, 2 * pipeline.stages - 1 - stage), np.minimum(most, stage + 1)


def bubble_time(pipeline: PipelineTimes) -> Floats:
    """Idle time of the slowest rank: what the longer of the others' F and B_i takes beyond W / w, and half of what the
    three passes differ; where steps do not overlap also half of the first micro-batch's way to the last rank.

    pipeline: times of one micro-batch through both chunks, and w, what a chunk keeps for its weight gradients; scalar
    or array (n,). Returns seconds. With equal ranks and passes this is nothing, and (p - 1) F / 2 where steps do not
    overlap. Source: the clock of torch's order (ScheduleZBVZeroBubble), which is exact for equal ranks where F, B_i >=
    W.

    >>> from meshwright.schedules.pipeline import PassTimes
    >>> one, four = PassTimes(1.0, 1.0, 1.0), PassTimes(4.0, 4.0, 4.0)  # seconds of one of four equal ranks, and of all
    >>> float(bubble_time(PipelineTimes(one, four, 4, 2, micro_batches=16, waiting=1.0, overlaps_steps=True)))
    0.0
    """
    others = pipeline.others
    longer, shorter = (choose(others.forward, others.input_gradient) for choose in (np.maximum, np.minimum))
    uneven = (np.maximum(longer, others.weight_gradient) - shorter) / 2
    filled = np.minimum((pipeline.micro_batches - 1) / np.maximum(pipeline.stages - 1, 1), 1.0 / pipeline.waiting)
    idle = np.maximum(longer - filled * others.weight_gradient, uneven)
    start = np.where(pipeline.overlaps_steps, 0.0, others.forward / 2 + uneven)
    return pipeline.at_least(np.maximum(idle, start))


def actions(pipeline: PipelineShape) -> list[list[Action]]:
    """For every rank, what it does in order. pipeline: p and m, counts.

    Returns actions by rank. Source: Qi et al., arXiv:2401.10241, section 6.

    >>> first, _ = actions(PipelineShape(stages=2, micro_batches=4))
    >>> " ".join(f"{action.kind[0]}{action.chunk}" for action in first)
    'f0 f0 f0 f1 i1 w1 f1 i1 w1 f0 i0 w0 f1 i1 w1 i0 w0 f1 i1 w1 i0 w0 i0 w0'
    """
    return [_rank_actions(rank, pipeline.stages, pipeline.micro_batches) for rank in range(pipeline.stages)]


def _rank_actions(rank: int, stages: int, micro_batches: int) -> list[Action]:
    enough = max(micro_batches, 2 * stages - 1)
    back, also_back = ["F1", "I1", "W1"], ["I0", "W0"]
    turns = ["F0"] * (2 * (stages - rank) - 1) + ["F1", "F0"] * rank + back * (stages - rank)
    for index in range(enough - stages):
        turns += (["F0"] if index < enough - (2 * stages - 1 - rank) else []) + also_back + back
    turns += ["I0", "I1"] * rank + also_back * (stages - rank)
    return numbered(turns + ["W1"] * enough + ["W0"] * enough, micro_batches)


RECORD = V_SHAPED(
    name="zb-v",
    code=6,
    in_flight=in_flight,
    bubble_time=bubble_time,
    actions=actions,
    clock_unequal=(0.92, 1.0),
    framework_names={"torch": "ZBVZeroBubble"},
)

"""DualPipeV: DualPipe folded at its middle, two chunks in the shape of a V and one copy of the model."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.schedules.action import Action
from meshwright.schedules.pipeline import PipelineShape, PipelineTimes
from meshwright.schedules.v_shaped import V_SHAPED, numbered


def in_flight(stage: Ints, pipeline: PipelineShape) -> tuple[Ints, Ints]:
    """Micro-batches whose activations either chunk keeps: min(m, 2p - r) of the first, min(m, r + 1) of the second;
    2p + 1 chunks of half a rank's layers together.

    stage: r, 0 is first; pipeline: p and m; counts, scalar or array (n,). Returns two counts.
    Source: torch 2.13, pipelining/schedules.py, ScheduleDualPipeV, whose own tables keep as many.

    >>> [tuple(map(int, in_flight(rank, PipelineShape(stages=4, micro_batches=16)))) for rank in range(4)]
    [(8, 1), (7, 2), (6, 3), (5, 4)]
    """
    most = pipeline.micro_batches
    return np.minimum(most, 2 * pipeline.stages - stage), np.minimum(most, stage + 1)


def bubble_time(pipeline: PipelineTimes) -> Floats:
    """Idle time of the slowest rank: (F + B_i + max(F, B_i) - W) / 2 of the others.

    pipeline: times of one micro-batch through both chunks, scalar or array (n,). Returns seconds.
    Source: deepseek-ai/DualPipe@3da1bbe, README.md, with 2p stages on p ranks: of equal ranks with B_i >= F this is
    (p - 1)(F&B + B - 3W) of a chunk's passes, with F&B = F + B.

    >>> from meshwright.schedules.pipeline import PassTimes
    >>> one, four = PassTimes(1.0, 1.0, 1.0), PassTimes(4.0, 4.0, 4.0)  # seconds of one of four equal ranks, and of all
    >>> float(bubble_time(PipelineTimes(one, four, 4, 2, micro_batches=16, waiting=1.0, overlaps_steps=True)))
    3.0
    """
    return pipeline.at_least(folded_idle(pipeline) / 2)


def folded_idle(pipeline: PipelineTimes) -> Floats:
    """F + B_i + max(F, B_i) - W of the others, seconds, and no less than nothing.

    pipeline: times of one micro-batch, scalar or array (n,). Returns seconds. Source: as `bubble_time`.

    >>> from meshwright.schedules.pipeline import PassTimes
    >>> one, four = PassTimes(1.0, 2.0, 1.0), PassTimes(4.0, 8.0, 4.0)  # seconds of one of four equal ranks, and of all
    >>> times = PipelineTimes(one, four, 4, 2, micro_batches=16, waiting=1.0, overlaps_steps=True)
    >>> float(folded_idle(times))  # 3 + 6 + 6 - 3
    12.0
    """
    others = pipeline.others
    longer = np.maximum(others.forward, others.input_gradient)
    return np.maximum(others.forward + others.input_gradient + longer - others.weight_gradient, 0.0)


def actions(pipeline: PipelineShape) -> list[list[Action]]:
    """For every rank, what it does in order. pipeline: p and m >= 2p, counts.

    Returns actions by rank. Source: `rank_actions`.

    >>> len(actions(PipelineShape(stages=2, micro_batches=4)))
    2
    """
    return [rank_actions(rank, pipeline.stages, pipeline.micro_batches) for rank in range(pipeline.stages)]


def rank_actions(rank: int, stages: int, micro_batches: int) -> list[Action]:
    """What one rank does in order.

    A forward and the backward of the other chunk run as one. rank: r; stages: p; micro_batches: m >= 2p; counts.
    Source: deepseek-ai/DualPipe@3da1bbe, dualpipe.py, step (with p half ranks and m chunks of either direction).
    Returns actions.

    >>> " ".join(f"{action.kind[0]}{action.chunk}" for action in rank_actions(1, stages=2, micro_batches=4))
    'f0 f1 f0 f1 f0 b1 f1 b0 f0 b1 f1 b0 b1 b0 i1 i0 w1 w0'
    """
    after = stages - rank - 1
    turns = ["F0"] * (2 * after) + ["F0", "F1"] * (rank + 1) + ["I1", "W", "F1"] * after
    for index in range(micro_batches - 2 * stages + rank + 1):
        apart = index == 0 and after == 0
        turns += ["F0", "B1" if apart else "+B1", "F1", "+B0"]
    turns += ["B1", "F1", "+B0"] * after
    late = (rank + 1) // 2
    for index in range(rank + 1):
        second = "I1" if index > late or (index == late and rank % 2 == 1) else "B1"
        turns += [second, "I0" if index >= late else "B0"]
    return numbered(turns + ["W", "I0"] * after + ["W"] * (rank + 1), micro_batches)


RECORD = V_SHAPED(
    name="dualpipe-v",
    code=10,
    least_micro_batches=2,
    in_flight=in_flight,
    bubble_time=bubble_time,
    actions=actions,
    clock_equal=(0.97, 1.0),
    clock_unequal=(0.87, 1.0),
    framework_names={"torch": "DualPipeV"},
)

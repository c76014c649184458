"""V-Half: two chunks in the shape of a V, with half of the activations of 1F1B (arXiv:2405.15362)."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.schedules.action import Action
from meshwright.schedules.pipeline import PipelineShape, PipelineTimes
from meshwright.schedules.record import ScheduleRecord
from meshwright.schedules.v_shaped import repeated


def in_flight(stage: Ints, pipeline: PipelineShape) -> tuple[Ints, Ints]:
    """Micro-batches whose activations either chunk keeps when its rank keeps the most: p + 2 chunks of half a rank's
    layers together (p + 1 where p is odd), of which about r / 2 + 1 are the second's.

    stage: r, 0 is first; pipeline: p and m; counts, scalar or array (n,). Returns two counts.
    Source: arXiv:2405.15362, table 1: p / 2 of a rank's micro-batches, for p without end; counted in the order below.

    >>> [tuple(map(int, in_flight(rank, PipelineShape(stages=4, micro_batches=16)))) for rank in range(4)]
    [(5, 1), (4, 2), (4, 2), (3, 3)]
    """
    stages = pipeline.stages
    second = (3 * stage + 3 * (stages % 2 == 0) + 7) // 6
    first = stages + 2 - stages % 2 - second
    return np.minimum(pipeline.micro_batches, first), np.minimum(pipeline.micro_batches, second)


def bubble_time(pipeline: PipelineTimes) -> Floats:
    """Idle time of the slowest rank: the others' F + B_i - W / 2, and what input gradients or forwards that are twice
    as long as the other passes add to every micro-batch.

    pipeline: times of one micro-batch through both chunks, scalar or array (n,). Returns seconds. With equal ranks and
    passes this is half of 1F1B's (arXiv:2405.15362, table 1). On a chain of turns a rank's next input gradient waits
    for two of chunk 0 and half a forward, so that a micro-batch takes at least 2 B_i + F / 2, and 2 F + B_i / 2.
    """
    others, slowest = pipeline.others, pipeline.slowest
    forward, gradient = slowest.forward, slowest.input_gradient
    period = np.maximum(2 * gradient + forward / 2, 2 * forward + gradient / 2)
    late = pipeline.micro_batches * np.maximum(period - slowest.total, 0.0)
    idle = others.forward + others.input_gradient - others.weight_gradient / 2
    return pipeline.at_least(np.maximum(idle, 0.0) + late)


def actions(pipeline: PipelineShape) -> list[list[Action]]:
    """For every rank, what it does in order. pipeline: p and m, counts."""
    stages = pipeline.stages
    shift = 3 if stages % 2 == 0 else 0
    slots = [
        (2 * rank, 3 * stages - rank - 2, 3 * stages + shift + 2 * rank - 1, 6 * stages + shift - rank - 2)
        for rank in range(stages)
    ]
    return repeated(slots, pipeline.micro_batches)


RECORD = ScheduleRecord(
    name="v-half",
    code=7,
    chunks=2,
    placement="v-shaped",
    splits_backward=True,
    in_flight=in_flight,
    peak_micro_batches=4,
    bubble_time=bubble_time,
    actions=actions,
    exchanges=0,
    clock_equal=(0.99, 1.09),
    clock_unequal=(0.84, 1.10),
)

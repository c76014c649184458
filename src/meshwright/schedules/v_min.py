"""V-Min: two chunks in the shape of a V, with a third of the activations of 1F1B (arXiv:2405.15362)."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.schedules.action import Action
from meshwright.schedules.pipeline import PipelineShape, PipelineTimes
from meshwright.schedules.record import ScheduleRecord
from meshwright.schedules.v_shaped import repeated


def in_flight(stage: Ints, pipeline: PipelineShape) -> tuple[Ints, Ints]:
    """Micro-batches whose activations either chunk keeps when its rank keeps the most: 2 ceil((p + 2) / 3) chunks of
    half a rank's layers together, of which about r / 3 + 1 are the second's.

    stage: r, 0 is first; pipeline: p and m; counts, scalar or array (n,). Returns two counts.
    Source: arXiv:2405.15362, table 1: p / 3 of a rank's micro-batches, for p without end; counted in the order below.

    >>> [tuple(map(int, in_flight(rank, PipelineShape(stages=6, micro_batches=16)))) for rank in (0, 5)]
    [(5, 1), (3, 3)]
    """
    stages = pipeline.stages
    second = (2 * stage + 2 * (stages % 3 == 0) + 7) // 6
    first = 2 * ((stages + 4) // 3) - second
    return np.minimum(pipeline.micro_batches, first), np.minimum(pipeline.micro_batches, second)


def bubble_time(pipeline: PipelineTimes) -> Floats:
    """Idle time of the slowest rank: the others' F + B_i, and what passes that differ add to every micro-batch.

    pipeline: times of one micro-batch through both chunks, scalar or array (n,). Returns seconds. With equal ranks and
    passes this is two thirds of 1F1B's (arXiv:2405.15362, table 1). With so few chunks kept, each turn waits for the
    longest one, so that a micro-batch takes at least 3 max(F, B_i).
    """
    others, slowest = pipeline.others, pipeline.slowest
    period = 3 * np.maximum(slowest.forward, slowest.input_gradient)
    late = pipeline.micro_batches * np.maximum(period - slowest.total, 0.0)
    return pipeline.at_least(others.forward + others.input_gradient + late)


def actions(pipeline: PipelineShape) -> list[list[Action]]:
    """For every rank, what it does in order. pipeline: p and m, counts."""
    stages = pipeline.stages
    shift = 2 if stages % 3 == 0 else 0
    slots = [
        (rank, 2 * stages - rank - 1, 2 * stages + shift + rank, 4 * stages + shift - rank - 1)
        for rank in range(stages)
    ]
    return repeated(slots, pipeline.micro_batches)


RECORD = ScheduleRecord(
    name="v-min",
    code=8,
    chunks=2,
    placement="v-shaped",
    splits_backward=True,
    in_flight=in_flight,
    peak_micro_batches=4,
    bubble_time=bubble_time,
    actions=actions,
    exchanges=0,
    clock_equal=(0.94, 1.02),
    clock_unequal=(0.75, 1.0),
    spare_chunks=2,
)

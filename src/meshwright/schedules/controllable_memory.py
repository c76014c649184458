"""V-Half and V-Min: two chunks in the shape of a V, with half and a third of the activations of 1F1B (Qi et al.,
arXiv:2405.15362, Pipeline Parallelism with Controllable Memory): one micro-batch's turns on a grid of slots, repeated
every six slots.
"""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.schedules.action import Action
from meshwright.schedules.pipeline import PipelineShape, PipelineTimes
from meshwright.schedules.v_shaped import V_SHAPED

INTERVAL = 6
"""Slots of one micro-batch: forward, input gradient and weight gradient of two chunks."""


TURNS = (("forward", 0), ("forward", 1), ("input_gradient", 1), ("input_gradient", 0))
"""The passes of one micro-batch that have a slot of their own; weight gradients take the first one that is free."""


def in_flight_half(stage: Ints, pipeline: PipelineShape) -> tuple[Ints, Ints]:
    """Micro-batches whose activations either chunk keeps when its rank keeps the most: p + 2 chunks of half a rank's
    layers together (p + 1 where p is odd), of which about r / 2 + 1 are the second's.

    stage: r, 0 is first; pipeline: p and m; counts, scalar or array (n,). Returns two counts.
    Source: arXiv:2405.15362, table 1: p / 2 of a rank's micro-batches, for p without end; counted in the order below.

    >>> [tuple(map(int, in_flight_half(rank, PipelineShape(stages=4, micro_batches=16)))) for rank in range(4)]
    [(5, 1), (4, 2), (4, 2), (3, 3)]
    """
    stages = pipeline.stages
    second = (3 * stage + 3 * (stages % 2 == 0) + 7) // 6
    first = stages + 2 - stages % 2 - second
    return np.minimum(pipeline.micro_batches, first), np.minimum(pipeline.micro_batches, second)


def bubble_time_half(pipeline: PipelineTimes) -> Floats:
    """Idle time of the slowest rank: the others' F + B_i - W / 2, and what input gradients or forwards that are twice
    as long as the other passes add to every micro-batch.

    pipeline: times of one micro-batch through both chunks, scalar or array (n,). Returns seconds. With equal ranks and
    passes this is half of 1F1B's (arXiv:2405.15362, table 1). On a chain of turns a rank's next input gradient waits
    for two of chunk 0 and half a forward, so that a micro-batch takes at least 2 B_i + F / 2, and 2 F + B_i / 2.

    >>> from meshwright.schedules.pipeline import PassTimes
    >>> one, four = PassTimes(1.0, 1.0, 1.0), PassTimes(4.0, 4.0, 4.0)  # seconds of one of four equal ranks, and of all
    >>> float(bubble_time_half(PipelineTimes(one, four, 4, 2, micro_batches=16, waiting=1.0, overlaps_steps=True)))
    4.5
    """
    others, slowest = pipeline.others, pipeline.slowest
    forward, gradient = slowest.forward, slowest.input_gradient
    period = np.maximum(2 * gradient + forward / 2, 2 * forward + gradient / 2)
    late = pipeline.micro_batches * np.maximum(period - slowest.total, 0.0)
    idle = others.forward + others.input_gradient - others.weight_gradient / 2
    return pipeline.at_least(np.maximum(idle, 0.0) + late)


def actions_half(pipeline: PipelineShape) -> list[list[Action]]:
    """For every rank, what it does in order. pipeline: p and m, counts.

    Returns actions by rank. Source: arXiv:2405.15362, V-Half.

    >>> first, _ = actions_half(PipelineShape(stages=2, micro_batches=2))
    >>> " ".join(f"{action.kind[0]}{action.chunk}" for action in first)
    'f0 f1 f0 i1 w1 f1 i0 i1 w0 w1 i0 w0'
    """
    stages = pipeline.stages
    shift = 3 if stages % 2 == 0 else 0
    slots = [
        (2 * rank, 3 * stages - rank - 2, 3 * stages + shift + 2 * rank - 1, 6 * stages + shift - rank - 2)
        for rank in range(stages)
    ]
    return [_repeated(first, pipeline.micro_batches) for first in slots]


def in_flight_min(stage: Ints, pipeline: PipelineShape) -> tuple[Ints, Ints]:
    """Micro-batches whose activations either chunk keeps when its rank keeps the most: 2 ceil((p + 2) / 3) chunks of
    half a rank's layers together, of which about r / 3 + 1 are the second's.

    stage: r, 0 is first; pipeline: p and m; counts, scalar or array (n,). Returns two counts.
    Source: arXiv:2405.15362, table 1: p / 3 of a rank's micro-batches, for p without end; counted in the order below.

    >>> [tuple(map(int, in_flight_min(rank, PipelineShape(stages=6, micro_batches=16)))) for rank in (0, 5)]
    [(5, 1), (3, 3)]
    """
    stages = pipeline.stages
    second = (2 * stage + 2 * (stages % 3 == 0) + 7) // 6
    first = 2 * ((stages + 4) // 3) - second
    return np.minimum(pipeline.micro_batches, first), np.minimum(pipeline.micro_batches, second)


def bubble_time_min(pipeline: PipelineTimes) -> Floats:
    """Idle time of the slowest rank: the others' F + B_i, and what passes that differ add to every micro-batch.

    pipeline: times of one micro-batch through both chunks, scalar or array (n,). Returns seconds. With equal ranks and
    passes this is two thirds of 1F1B's (arXiv:2405.15362, table 1). With so few chunks kept, each turn waits for the
    longest one, so that a micro-batch takes at least 3 max(F, B_i).

    >>> from meshwright.schedules.pipeline import PassTimes
    >>> one, four = PassTimes(1.0, 1.0, 1.0), PassTimes(4.0, 4.0, 4.0)  # seconds of one of four equal ranks, and of all
    >>> float(bubble_time_min(PipelineTimes(one, four, 4, 2, micro_batches=16, waiting=1.0, overlaps_steps=True)))
    6.0
    """
    others, slowest = pipeline.others, pipeline.slowest
    period = 3 * np.maximum(slowest.forward, slowest.input_gradient)
    late = pipeline.micro_batches * np.maximum(period - slowest.total, 0.0)
    return pipeline.at_least(others.forward + others.input_gradient + late)


def actions_min(pipeline: PipelineShape) -> list[list[Action]]:
    """For every rank, what it does in order. pipeline: p and m, counts.

    Returns actions by rank. Source: arXiv:2405.15362, V-Min.

    >>> first, _ = actions_min(PipelineShape(stages=2, micro_batches=2))
    >>> " ".join(f"{action.kind[0]}{action.chunk}" for action in first)
    'f0 f1 i1 w1 f0 i0 w0 f1 i1 w1 i0 w0'
    """
    stages = pipeline.stages
    shift = 2 if stages % 3 == 0 else 0
    slots = [
        (rank, 2 * stages - rank - 1, 2 * stages + shift + rank, 4 * stages + shift - rank - 1)
        for rank in range(stages)
    ]
    return [_repeated(first, pipeline.micro_batches) for first in slots]


def _repeated(first: tuple[int, int, int, int], micro_batches: int) -> list[Action]:
    """What a rank does in order when its turns of one micro-batch repeat every six slots.

    first: the slots of the first micro-batch's `TURNS`, no two of them alike modulo 6.
    Source: arXiv:2405.15362, section 3.
    """
    taken = {}
    for index in range(micro_batches):
        for (kind, chunk), slot in zip(TURNS, first, strict=True):
            taken[slot + INTERVAL * index] = Action(kind, chunk, index)  # type: ignore[arg-type]
    waiting: list[Action] = []
    slot, end = 0, max(taken)
    while slot <= end or waiting:
        if slot not in taken and waiting:
            taken[slot] = waiting.pop(0)
        elif slot in taken and taken[slot].kind == "input_gradient":
            waiting.append(Action("weight_gradient", taken[slot].chunk, taken[slot].micro_batch))
        slot += 1
    return [taken[slot] for slot in sorted(taken)]


V_HALF = V_SHAPED(
    name="v-half",
    code=7,
    in_flight=in_flight_half,
    bubble_time=bubble_time_half,
    actions=actions_half,
    clock_equal=(0.99, 1.09),
    clock_unequal=(0.84, 1.10),
)
V_MIN = V_SHAPED(
    name="v-min",
    code=8,
    in_flight=in_flight_min,
    bubble_time=bubble_time_min,
    actions=actions_min,
    clock_equal=(0.94, 1.02),
    clock_unequal=(0.75, 1.0),
    spare_chunks=2,
)

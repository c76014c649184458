"""V-Min: two chunks in the shape of a V, with a third of the activations of 1F1B (arXiv:2405.15362)."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.cost.schedules.action import Action
from meshwright.cost.schedules.pipeline import Pipeline
from meshwright.cost.schedules.v_shaped import repeated


def live_chunks(stage: Ints, chunk: Ints, stages: Ints, micro_batches: Ints) -> Ints:
    """Micro-batches whose activations one chunk keeps when its rank keeps the most: 2 ceil((p + 2) / 3) chunks of half
    a rank's layers together, of which about r / 3 + 1 are the second's.

    stage: r, 0 is first; chunk: 0 or 1; stages: p; micro_batches: m; counts, scalar or array (n,). Returns a count.
    Source: arXiv:2405.15362, table 1: p / 3 of a rank's micro-batches, for p without end; counted in the order below.

    >>> [[int(live_chunks(rank, chunk, 6, 16)) for chunk in (0, 1)] for rank in (0, 5)]
    [[5, 1], [3, 3]]
    """
    second = (2 * stage + 2 * (stages % 3 == 0) + 7) // 6
    first = 2 * ((stages + 4) // 3) - second
    return np.minimum(micro_batches, np.where(np.equal(chunk, 0), first, second))


def bubble_time(pipeline: Pipeline) -> Floats:
    """Idle time of the slowest rank: the others' F + B_i, and what passes that differ add to every micro-batch.

    pipeline: times of one micro-batch through both chunks, scalar or array (n,). Returns seconds. With equal ranks and
    passes this is two thirds of 1F1B's (arXiv:2405.15362, table 1). With so few chunks kept, each turn waits for the
    longest one, so that a micro-batch takes at least 3 max(F, B_i).
    """
    others, slowest = pipeline.others, pipeline.slowest
    period = 3 * np.maximum(slowest.forward, slowest.input_gradient)
    late = pipeline.micro_batches * np.maximum(period - slowest.total, 0.0)
    return pipeline.at_least(others.forward + others.input_gradient + late)


def actions(stages: int, micro_batches: int) -> list[list[Action]]:
    """For every rank, what it does in order. stages: p; micro_batches: m; counts."""
    shift = 2 if stages % 3 == 0 else 0
    slots = [
        (rank, 2 * stages - rank - 1, 2 * stages + shift + rank, 4 * stages + shift - rank - 1)
        for rank in range(stages)
    ]
    return repeated(slots, micro_batches)

"""V-Half: two chunks in the shape of a V, with half of the activations of 1F1B (arXiv:2405.15362)."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.cost.schedules.action import Action
from meshwright.cost.schedules.pipeline import Pipeline
from meshwright.cost.schedules.v_shaped import repeated


def live_chunks(stage: Ints, chunk: Ints, stages: Ints, micro_batches: Ints) -> Ints:
    """Micro-batches whose activations one chunk keeps when its rank keeps the most: p + 2 chunks of half a rank's
    layers together (p + 1 where p is odd), of which about r / 2 + 1 are the second's.

    stage: r, 0 is first; chunk: 0 or 1; stages: p; micro_batches: m; counts, scalar or array (n,). Returns a count.
    Source: arXiv:2405.15362, table 1: p / 2 of a rank's micro-batches, for p without end; counted in the order below.

    >>> [[int(live_chunks(rank, chunk, 4, 16)) for chunk in (0, 1)] for rank in range(4)]
    [[5, 1], [4, 2], [4, 2], [3, 3]]
    """
    second = (3 * stage + 3 * (stages % 2 == 0) + 7) // 6
    first = stages + 2 - stages % 2 - second
    return np.minimum(micro_batches, np.where(np.equal(chunk, 0), first, second))


def bubble_time(pipeline: Pipeline) -> Floats:
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


def actions(stages: int, micro_batches: int) -> list[list[Action]]:
    """For every rank, what it does in order. stages: p; micro_batches: m; counts."""
    shift = 3 if stages % 2 == 0 else 0
    slots = [
        (2 * rank, 3 * stages - rank - 2, 3 * stages + shift + 2 * rank - 1, 6 * stages + shift - rank - 2)
        for rank in range(stages)
    ]
    return repeated(slots, micro_batches)

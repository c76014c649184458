"""Placement: which blocks of layers the chunks of a pipeline rank hold."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import IntColumn
from meshwright.schedules.records import Schedule


def blocks(schedule: int, stages: int, chunks: int) -> IntColumn:
    """Which block of the model each chunk of each rank holds, shape (chunks held, stages).

    Looped: chunk j of rank r holds block j p + r (Megatron-LM, transformer_block.py). V-shaped: the second chunk goes
    back, block 2p - 1 - r (arXiv:2401.10241, section 6). Both ways: two copies of the p blocks, r and p - 1 - r, one
    for the micro-batches of either direction (arXiv:2412.19437, section 3.2.1).
    schedule: code of `Schedule`; stages: p; chunks: those of the model that a rank holds; counts.

    >>> blocks(Schedule.ZERO_BUBBLE_V, 3, 2).tolist(), blocks(Schedule.DUALPIPE, 2, 1).tolist()
    ([[0, 1, 2], [5, 4, 3]], [[0, 1], [1, 0]])
    """
    rank = np.arange(stages)
    looped: IntColumn = np.arange(chunks)[:, None] * stages + rank
    return {
        "looped": looped,
        "v-shaped": np.stack([rank, chunks * stages - 1 - rank]),
        "both-ways": np.stack([rank, stages - 1 - rank]),
    }[Schedule(schedule).record.placement]


def copies(schedule: int) -> int:
    """How many copies of the model's layers the ranks hold: two where micro-batches go both ways, else one.

    schedule: code of `Schedule`. Returns a count.
    """
    return 2 if Schedule(schedule).record.placement == "both-ways" else 1

"""Placement: which blocks of layers the chunks of a pipeline rank hold, as its schedule lays them out."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Bools, IntColumn, Ints
from meshwright.layout.plan import Schedule
from meshwright.layout.plans import Layout

V_SHAPED = (Schedule.ZERO_BUBBLE_V, Schedule.V_HALF, Schedule.V_MIN, Schedule.DUALPIPE_V)
"""Rank r holds blocks r and 2p - 1 - r, so that the first rank holds both ends of the model."""
INTERLEAVES = (Schedule.INTERLEAVED, Schedule.INTERLEAVED_ZERO_BUBBLE)
"""Each rank takes turns on two or more chunks."""


def one_of(schedule: Ints, schedules: tuple[Schedule, ...]) -> Bools:
    """Whether a schedule is one of some.

    schedule: code of `Schedule`, scalar or array (n,); schedules: the ones asked for.
    """
    found: Bools = np.isin(schedule, [int(each) for each in schedules])
    return found


def ends_apart(plan: Layout) -> Bools:
    """Whether the embedding and the head are on different ranks; scalar or array (n,)."""
    return np.greater(plan.pp, 1) & np.logical_not(one_of(plan.schedule, V_SHAPED))


def splits_backward(schedule: Ints) -> Bools:
    """Whether the gradients of inputs come first, those of weights when there is time.

    schedule: code of `Schedule`, of which those from INTERLEAVED_ZERO_BUBBLE to DUALPIPE_V do; scalar or array (n,).
    """
    return np.greater_equal(schedule, Schedule.INTERLEAVED_ZERO_BUBBLE) & np.less_equal(schedule, Schedule.DUALPIPE_V)


def blocks(schedule: int, stages: int, chunks: int) -> IntColumn:
    """Which block of the model each chunk of each rank holds, shape (chunks held, stages).

    Looped: chunk j of rank r holds block j p + r (Megatron-LM, transformer_block.py). V-shaped: the second chunk goes
    back, block 2p - 1 - r (arXiv:2401.10241, section 6). DualPipe: two copies of the p blocks, r and p - 1 - r, one for
    the micro-batches of either direction (arXiv:2412.19437, section 3.2.1).
    schedule: code of `Schedule`; stages: p; chunks: those of the model that a rank holds; counts.

    >>> blocks(Schedule.ZERO_BUBBLE_V, 3, 2).tolist(), blocks(Schedule.DUALPIPE, 2, 1).tolist()
    ([[0, 1, 2], [5, 4, 3]], [[0, 1], [1, 0]])
    """
    rank = np.arange(stages)
    if schedule == Schedule.DUALPIPE:
        return np.stack([rank, stages - 1 - rank])
    looped: IntColumn = np.arange(chunks)[:, None] * stages + rank
    if schedule in V_SHAPED:
        return np.stack([rank, chunks * stages - 1 - rank])
    return looped


def copies(schedule: int) -> int:
    """How many copies of the model's layers the ranks hold: two with DualPipe, else one."""
    return 2 if schedule == Schedule.DUALPIPE else 1

"""Records: the list of all pipeline schedules, and what is known of many plans' at once."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, unique
from typing import Any, Self

import numpy as np

from meshwright.arrays import BoolColumn, Bools, Floats, IntColumn, Ints
from meshwright.schedules import (
    controllable_memory,
    dualpipe,
    dualpipe_v,
    gpipe,
    interleaved,
    interleaved_zero_bubble,
    one_forward_one_backward,
    zero_bubble,
    zero_bubble_v,
)
from meshwright.schedules.pipeline import PipelineTimes
from meshwright.schedules.record import ScheduleRecord


@unique
class Schedule(IntEnum):
    """The order in which a pipeline stage works on its micro-batches: its code, with all that is known of it."""

    record: ScheduleRecord

    ONE_F_ONE_B = one_forward_one_backward.RECORD
    INTERLEAVED = interleaved.RECORD
    GPIPE = gpipe.RECORD
    INTERLEAVED_ZERO_BUBBLE = interleaved_zero_bubble.RECORD
    ZERO_BUBBLE_1P = zero_bubble.RECORD_1P
    ZERO_BUBBLE_2P = zero_bubble.RECORD_2P
    ZERO_BUBBLE_V = zero_bubble_v.RECORD
    V_HALF = controllable_memory.V_HALF
    V_MIN = controllable_memory.V_MIN
    DUALPIPE = dualpipe.RECORD
    DUALPIPE_V = dualpipe_v.RECORD

    def __new__(cls, record: Any) -> Self:
        """A member whose value is the code of its record."""
        member = int.__new__(cls, record.code)
        member._value_ = record.code
        member.record = record
        return member


SCHEDULE_NAMES = {schedule: schedule.record.name for schedule in Schedule}


def usual_schedule(chunks: int) -> Schedule:
    """The schedule that needs no name beside `vpp`: 1F1B, interleaved where a rank has several chunks.

    chunks: of the model on each rank, a count. Returns a schedule. Source: Megatron-LM, pipeline_parallel/schedules.py,
    get_forward_backward_func.

    >>> [usual_schedule(chunks).record.name for chunks in (1, 2)]
    ['1f1b', 'interleaved']
    """
    return Schedule.INTERLEAVED if chunks > 1 else Schedule.ONE_F_ONE_B


def by_code(fact: Callable[[ScheduleRecord], int]) -> IntColumn:
    """A fact of every record, as a table whose entry i is of the schedule with code i; fact: read from one record.

    Returns shape (schedules,).

    >>> int(by_code(lambda record: len(record.name))[Schedule.GPIPE])
    5
    """
    return np.array([fact(Schedule(code).record) for code in range(len(Schedule))])


def true_by_code(fact: Callable[[ScheduleRecord], bool]) -> BoolColumn:
    """Whether something is true of every record: entry i is of the schedule with code i; fact: read from one record.

    Returns truth, shape (schedules,).

    >>> bool(true_by_code(lambda record: record.splits_backward)[Schedule.ZERO_BUBBLE_V])
    True
    """
    return by_code(fact) > 0


_V_SHAPED = true_by_code(lambda record: record.placement == "v-shaped")
_SPLITS_BACKWARD = true_by_code(lambda record: record.splits_backward)
_GROUPED = true_by_code(lambda record: record.grouped)


def v_shaped(schedule: Ints) -> Bools:
    """Whether the first rank holds both ends of the model; schedule: code of `Schedule`, scalar or array (n,).

    Returns truth. Source: `ScheduleRecord.placement`.

    >>> [bool(v_shaped(each)) for each in (Schedule.INTERLEAVED, Schedule.ZERO_BUBBLE_V)]
    [False, True]
    """
    return _V_SHAPED[schedule]


def splits_backward(schedule: Ints) -> Bools:
    """Whether the gradients of inputs come first, those of weights when there is time.

    schedule: code of `Schedule`, scalar or array (n,). Returns truth. Source: `ScheduleRecord.splits_backward`.

    >>> [bool(splits_backward(each)) for each in (Schedule.GPIPE, Schedule.DUALPIPE)]
    [False, True]
    """
    return _SPLITS_BACKWARD[schedule]


def grouped(schedule: Ints) -> Bools:
    """Whether chunks take turns on groups of micro-batches; schedule: code of `Schedule`, scalar or array (n,).

    Returns truth. Source: `ScheduleRecord`.

    >>> [bool(grouped(each)) for each in (Schedule.GPIPE, Schedule.INTERLEAVED)]
    [False, True]
    """
    return _GROUPED[schedule]


def bubble_time(schedule: Ints, pipeline: PipelineTimes) -> Floats:
    """Idle time of the slowest rank under its schedule, seconds.

    schedule: code of `Schedule`, scalar or array (n,); pipeline: what it depends on. Returns seconds.
    Sources: the schedule's own file.

    >>> from meshwright.schedules.pipeline import PassTimes
    >>> one, four = PassTimes(1.0, 1.0, 1.0), PassTimes(4.0, 4.0, 4.0)  # seconds of one of four equal ranks, and of all
    >>> times = PipelineTimes(one, four, 4, 1, micro_batches=16, waiting=1.0, overlaps_steps=False)
    >>> float(bubble_time(Schedule.ONE_F_ONE_B, times))  # (p - 1)(F + B)
    9.0
    """
    present = [*np.flatnonzero(np.bincount(schedule))] or [0] if isinstance(schedule, np.ndarray) else [schedule]
    idle = Schedule(present[0]).record.bubble_time(pipeline)
    for code in present[1:]:
        idle = np.where(schedule == code, Schedule(code).record.bubble_time(pipeline), idle)
    return idle


def blocks(schedule: int, stages: int, chunks: int) -> IntColumn:
    """Which block of the model each chunk of each rank holds, shape (chunks held, stages).

    Looped: chunk j of rank r holds block j p + r (Megatron-LM, transformer_block.py). V-shaped: the second chunk goes
    back, block 2p - 1 - r (arXiv:2401.10241, section 6). Both ways: two copies of the p blocks, r and p - 1 - r, one
    for the micro-batches of either direction (arXiv:2412.19437, section 3.2.1).
    schedule: code of `Schedule`; stages: p; chunks: those of the model that a rank holds; counts. Returns indices.

    >>> blocks(Schedule.ZERO_BUBBLE_V, 3, 2).tolist(), blocks(Schedule.DUALPIPE, 2, 1).tolist()
    ([[0, 1, 2], [5, 4, 3]], [[0, 1], [1, 0]])
    """
    rank, placement = np.arange(stages), Schedule(schedule).record.placement
    if placement == "looped":
        return np.arange(chunks)[:, None] * stages + rank
    return np.stack([rank, (chunks * stages if placement == "v-shaped" else stages) - 1 - rank])


def copies(schedule: int) -> int:
    """How many copies of the model's layers the ranks hold: two where micro-batches go both ways, else one.

    schedule: code of `Schedule`. Returns a count. Source: arXiv:2412.19437, section 3.2.1.

    >>> copies(Schedule.GPIPE), copies(Schedule.DUALPIPE)
    (1, 2)
    """
    return 2 if Schedule(schedule).record.placement == "both-ways" else 1

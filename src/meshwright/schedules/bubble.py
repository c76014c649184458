"""Bubble: the idle time of many plans' pipelines, each under its own schedule."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.schedules.pipeline import PipelineTimes
from meshwright.schedules.records import Schedule


def bubble_time(schedule: Ints, pipeline: PipelineTimes) -> Floats:
    """Idle time of the slowest rank under its schedule, seconds.

    schedule: code of `Schedule`, scalar or array (n,); pipeline: what it depends on. Returns seconds.
    Sources: the schedule's own file.
    """
    present = [*np.flatnonzero(np.bincount(np.ravel(schedule)))] or [0]
    idle = Schedule(present[0]).record.bubble_time(pipeline)
    for code in present[1:]:
        idle = np.where(np.equal(schedule, code), Schedule(code).record.bubble_time(pipeline), idle)
    return idle

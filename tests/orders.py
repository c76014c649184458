"""Pipelines in which every schedule runs, by its record."""

from __future__ import annotations

import pytest

from meshwright.schedules.action import Action
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import SCHEDULE_NAMES, Schedule

every_schedule = pytest.mark.parametrize("schedule", Schedule, ids=SCHEDULE_NAMES.values())
CHUNKS = {each: 2 if each.record.chunks == "several" else each.record.chunks for each in Schedule}
"""Chunks of a rank in tests."""


def shape_of(schedule: Schedule, stages: int, micro_batches: int) -> PipelineShape:
    """A pipeline whose looped chunks take turns on groups of as many micro-batches as stages."""
    return PipelineShape(stages, micro_batches, CHUNKS[schedule], stages)


def order(schedule: Schedule, stages: int, chunks: int, micro_batches: int) -> list[list[Action]]:
    """For every rank, what it does in order; looped chunks take turns on groups of as many micro-batches as stages."""
    return schedule.record.actions(PipelineShape(stages, micro_batches, chunks, stages))

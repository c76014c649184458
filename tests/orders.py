"""The order of the actions of every schedule, by its code."""

from __future__ import annotations

from meshwright.cost.schedules import (
    dualpipe,
    dualpipe_v,
    gpipe,
    interleaved,
    interleaved_zero_bubble,
    one_forward_one_backward,
    v_half,
    v_min,
    zero_bubble,
    zero_bubble_v,
)
from meshwright.cost.schedules.action import Action
from meshwright.layout.placement import INTERLEAVES, V_SHAPED
from meshwright.layout.plan import Schedule

CHUNKS = dict.fromkeys((*INTERLEAVES, *V_SHAPED), 2)
"""Chunks of a rank in tests, where they are not 1."""


def order(schedule: Schedule, stages: int, chunks: int, micro_batches: int) -> list[list[Action]]:
    """For every rank, what it does in order."""
    plain = {
        Schedule.ONE_F_ONE_B: one_forward_one_backward,
        Schedule.GPIPE: gpipe,
        Schedule.ZERO_BUBBLE_V: zero_bubble_v,
        Schedule.V_HALF: v_half,
        Schedule.V_MIN: v_min,
        Schedule.DUALPIPE: dualpipe,
        Schedule.DUALPIPE_V: dualpipe_v,
    }
    looped = {Schedule.INTERLEAVED: interleaved, Schedule.INTERLEAVED_ZERO_BUBBLE: interleaved_zero_bubble}
    if schedule in looped:
        return looped[schedule].actions(stages, chunks, micro_batches, stages)
    if schedule in plain:
        return plain[schedule].actions(stages, micro_batches)
    return zero_bubble.actions(stages, micro_batches, 1 if schedule == Schedule.ZERO_BUBBLE_1P else 2)

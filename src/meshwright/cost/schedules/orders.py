"""Orders: what every rank does, one action after the other, under each schedule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
from meshwright.layout.plan import Schedule

LOOPED = {Schedule.INTERLEAVED: interleaved.actions, Schedule.INTERLEAVED_ZERO_BUBBLE: interleaved_zero_bubble.actions}
"""(stages, chunks, micro_batches, microbatch_group) -> actions of each rank."""
OTHERS: dict[Schedule, Callable[[int, int], list[list[Action]]]] = {
    Schedule.ONE_F_ONE_B: one_forward_one_backward.actions,
    Schedule.GPIPE: gpipe.actions,
    Schedule.ZERO_BUBBLE_1P: partial(zero_bubble.actions, limit=1),
    Schedule.ZERO_BUBBLE_2P: partial(zero_bubble.actions, limit=2),
    Schedule.ZERO_BUBBLE_V: zero_bubble_v.actions,
    Schedule.V_HALF: v_half.actions,
    Schedule.V_MIN: v_min.actions,
    Schedule.DUALPIPE: dualpipe.actions,
    Schedule.DUALPIPE_V: dualpipe_v.actions,
}
"""(stages, micro_batches) -> actions of each rank."""


def order(
    schedule: Schedule, stages: int, chunks: int, micro_batches: int, microbatch_group: int
) -> list[list[Action]]:
    """For every rank, what it does in order.

    schedule: which one; stages: p; chunks: v a rank; micro_batches: m; microbatch_group: those that a chunk works
    on before the next one does; counts.
    """
    if schedule in LOOPED:
        return LOOPED[schedule](stages, chunks, micro_batches, microbatch_group)
    return OTHERS[schedule](stages, micro_batches)

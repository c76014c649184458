"""The order of the actions of every schedule, by its code."""

from __future__ import annotations

from meshwright.cost.schedules import orders
from meshwright.cost.schedules.action import Action
from meshwright.layout.placement import INTERLEAVES, V_SHAPED
from meshwright.layout.plan import Schedule

CHUNKS = dict.fromkeys((*INTERLEAVES, *V_SHAPED), 2)
"""Chunks of a rank in tests, where they are not 1."""


def order(schedule: Schedule, stages: int, chunks: int, micro_batches: int) -> list[list[Action]]:
    """For every rank, what it does in order; looped chunks take turns on groups of as many micro-batches as stages."""
    return orders.order(schedule, stages, chunks, micro_batches, stages)

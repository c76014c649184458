"""Building blocks of V-shaped schedules: one micro-batch's turns on a grid of slots, repeated every six slots."""

from __future__ import annotations

from meshwright.schedules.action import Action

INTERVAL = 6
"""Slots of one micro-batch: forward, input gradient and weight gradient of two chunks."""


def repeated(slots: list[tuple[int, int, int, int]], micro_batches: int) -> list[list[Action]]:
    """For every rank, what it does in order when its turns of one micro-batch repeat every six slots.

    slots: of every rank, when the first micro-batch's forward comes on chunk 0 and 1, and its input gradient on chunk 1
    and 0; no two of them alike modulo 6. micro_batches: m, count. A weight gradient takes the first slot that is free.
    Source: arXiv:2405.15362, section 3.
    """
    return [_rank_actions(turns, micro_batches) for turns in slots]


def _rank_actions(turns: tuple[int, int, int, int], micro_batches: int) -> list[Action]:
    taken = {}
    for index in range(micro_batches):
        for (kind, chunk), first in zip(_TURNS, turns, strict=True):
            taken[first + INTERVAL * index] = Action(kind, chunk, index)  # type: ignore[arg-type]
    waiting: list[Action] = []
    slot, end = 0, max(taken)
    while slot <= end or waiting:
        if slot not in taken and waiting:
            taken[slot] = waiting.pop(0)
        elif slot in taken and taken[slot].kind == "input_gradient":
            waiting.append(Action("weight_gradient", taken[slot].chunk, taken[slot].micro_batch))
        slot += 1
    return [taken[slot] for slot in sorted(taken)]


_TURNS = (("forward", 0), ("forward", 1), ("input_gradient", 1), ("input_gradient", 0))

"""V-shaped schedules: what they have in common, and orders that are written as turns of a rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial

from meshwright.schedules.action import Action
from meshwright.schedules.record import ScheduleRecord

V_SHAPED = partial(ScheduleRecord, chunks=2, placement="v-shaped", splits_backward=True, peak_micro_batches=4)
"""The record of a schedule of two chunks a rank, the second one on the way back from the last rank to the first."""
KINDS = {"F": "forward", "I": "input_gradient", "B": "backward"}


def numbered(turns: Iterable[str], micro_batches: int) -> list[Action]:
    """The actions of one rank: each kind of turn on micro-batches 0, 1 and so on.

    turns: `F0` forward on chunk 0, `I` input gradient, `B` both gradients, `W` the weight gradient that has waited
    longest, `W1` the same of chunk 1, nothing where none waits; `+` runs as one with the turn before. micro_batches: m,
    a count; turns on later ones are left out. Returns actions.

    >>> [f"{action.kind} {action.chunk}.{action.micro_batch}" for action in numbered(["F0", "F1", "I1", "W", "W"], 1)]
    ['forward 0.0', 'forward 1.0', 'input_gradient 1.0', 'weight_gradient 1.0']
    """
    done: Counter[tuple[bool, int]] = Counter()
    waiting: list[Action] = []
    order: list[Action] = []
    for turn in turns:
        kind, chunk = turn.lstrip("+")[0], turn.lstrip("+")[1:]
        if kind == "W":
            first = next((action for action in waiting if chunk in ("", str(action.chunk))), None)
            if first:
                waiting.remove(first)
                order.append(first)
            continue
        passes = kind == "F", int(chunk)
        index = done[passes]
        done[passes] += 1
        order.append(Action(KINDS[kind], int(chunk), index, joined=turn.startswith("+")))  # type: ignore[arg-type]
        if kind == "I":
            waiting.append(Action("weight_gradient", int(chunk), index))
    return [action for action in order if action.micro_batch < micro_batches]

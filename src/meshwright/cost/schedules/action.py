"""Actions of a pipeline schedule, and a player that runs them on a clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from meshwright.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Action:
    """One piece of work of a pipeline rank."""

    kind: Literal["forward", "backward"]
    chunk: int
    """Which of the rank's chunks, 0 first."""
    micro_batch: int


@dataclass(frozen=True, slots=True)
class Event:
    """One action on the clock."""

    action: Action
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Played:
    """What a clock showed of a schedule."""

    makespan_s: float
    """From the first action's start to the last one's end, seconds."""
    live_chunks: tuple[int, ...]
    """The most chunk activations that each rank kept."""
    events: tuple[tuple[Event, ...], ...]
    """What each rank did, in its order."""


def play(order: Sequence[Sequence[Action]], forward_s: Sequence[float], backward_s: Sequence[float]) -> Played:
    """Run every rank's actions in its order, each as soon as what it needs has ended.

    order: actions of each rank; forward_s, backward_s: seconds of one chunk on each rank. Messages take no time.
    Raises `InvalidInput` when the order deadlocks.
    """
    ranks = len(order)
    chunks = 1 + max(action.chunk for actions in order for action in actions)
    ended: dict[tuple[str, int, int], float] = {}
    clock, position = [0.0] * ranks, [0] * ranks
    events: list[list[Event]] = [[] for _ in order]
    moved = True
    while moved:
        moved = False
        for rank, actions in enumerate(order):
            while position[rank] < len(actions):
                action = actions[position[rank]]
                link = action.chunk * ranks + rank
                needed = _needed(action, link, ranks * chunks)
                if needed is not None and needed not in ended:
                    break
                start = max(clock[rank], ended[needed] if needed else 0.0)
                clock[rank] = start + (forward_s if action.kind == "forward" else backward_s)[rank]
                ended[action.kind, link, action.micro_batch] = clock[rank]
                events[rank].append(Event(action, start, clock[rank]))
                position[rank] += 1
                moved = True
    if any(done < len(actions) for done, actions in zip(position, order, strict=True)):
        raise InvalidInput(f"the order of {ranks} ranks deadlocks at positions {position}")
    return Played(max(clock), tuple(_most_live(actions) for actions in order), tuple(map(tuple, events)))


def _needed(action: Action, link: int, links: int) -> tuple[str, int, int] | None:
    if action.kind == "forward":
        return ("forward", link - 1, action.micro_batch) if link else None
    return ("backward", link + 1, action.micro_batch) if link + 1 < links else ("forward", link, action.micro_batch)


def _most_live(actions: Sequence[Action]) -> int:
    live = most = 0
    for action in actions:
        live += 1 if action.kind == "forward" else -1
        most = max(most, live)
    return most

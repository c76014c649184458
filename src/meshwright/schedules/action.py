"""Actions of a pipeline schedule, and a player that runs them on a clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from meshwright.arrays import IntColumn
from meshwright.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Action:
    """One piece of work of a pipeline rank."""

    kind: Literal["forward", "backward", "input_gradient", "weight_gradient"]
    """`backward` is both gradients at once."""
    chunk: int
    """Which of the rank's chunks, 0 first."""
    micro_batch: int
    joined: bool = False
    """It runs as one with the action before it: neither is over before both are."""


@dataclass(frozen=True)
class ChunkTimes:
    """Seconds of every chunk of every rank, each of shape (chunks, ranks)."""

    forward: Sequence[Sequence[float]]
    input_gradient: Sequence[Sequence[float]]
    weight_gradient: Sequence[Sequence[float]]

    @classmethod
    def alike(cls, chunks: int, *passes: Sequence[float]) -> Self:
        """The chunks of a rank alike; passes: seconds of one of them on each rank: forward, and either gradient."""
        return cls(*([seconds] * chunks for seconds in passes))

    def of(self, action: Action, rank: int) -> float:
        """Seconds of one action."""
        if action.kind == "backward":
            return self.input_gradient[action.chunk][rank] + self.weight_gradient[action.chunk][rank]
        seconds: float = getattr(self, action.kind)[action.chunk][rank]
        return seconds


@dataclass(frozen=True, slots=True)
class Event:
    """One action on the clock."""

    action: Action
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Timeline:
    """A schedule on the clock: when every rank does what."""

    makespan_s: float
    """From the first action's start to the last one's end, seconds."""
    span_s: float
    """The longest that one rank takes from its first action's start to its last one's end, seconds."""
    in_flight: tuple[int, ...]
    """The most chunks that each rank has worked forward and not yet backward."""
    unfinished: tuple[int, ...]
    """The most that wait for one of their gradients, that of the weights included."""
    events: tuple[tuple[Event, ...], ...]
    """What each rank did, in its order."""


def play(order: Sequence[Sequence[Action]], times: ChunkTimes, blocks: IntColumn) -> Timeline:
    """Run every rank's actions in its order, each as soon as what it needs has ended.

    order: actions of each rank; times: seconds of each chunk on each; blocks: which block of the model each chunk of
    each rank holds, shape (chunks, ranks). Messages take no time. Raises `InvalidInput` when the order deadlocks.
    Returns seconds and counts.

    >>> import numpy as np
    >>> from meshwright.schedules.gpipe import actions
    >>> from meshwright.schedules.pipeline import PipelineShape
    >>> order, times = actions(PipelineShape(stages=2, micro_batches=3)), ChunkTimes.alike(1, [1, 1], [1, 1], [1, 1])
    >>> timeline = play(order, times, blocks=np.array([[0, 1]]))
    >>> timeline.makespan_s, timeline.in_flight  # (m + p - 1) 3, all micro-batches
    (12.0, (3, 3))
    """
    ranks, last = len(order), int(blocks.max())
    ended: dict[tuple[str, int, int], float] = {}
    clock, position, began = [0.0] * ranks, [0] * ranks, [-1.0] * ranks
    events: list[list[Event]] = [[] for _ in order]
    progress = True
    while progress:
        progress = False
        for rank, actions in enumerate(order):
            while position[rank] < len(actions):
                together = _together(actions, position[rank])
                needed = [_needed(action, int(blocks[action.chunk, rank]), last) for action in together]
                if any(each is not None and each not in ended for each in needed):
                    break
                start = max([clock[rank], *(ended[each] for each in needed if each)])
                began[rank] = start if began[rank] < 0 else began[rank]
                for action in together:
                    ends = start + times.of(action, rank)
                    events[rank].append(Event(action, start, ends))
                    clock[rank] = start = ends
                for action in together:
                    ended[_ends(action.kind), int(blocks[action.chunk, rank]), action.micro_batch] = clock[rank]
                position[rank] += len(together)
                progress = True
    if any(done < len(actions) for done, actions in zip(position, order, strict=True)):
        raise InvalidInput(f"the order of {ranks} ranks deadlocks at positions {position}")
    span = max(end - start for end, start in zip(clock, began, strict=True))
    in_flight, unfinished = zip(*(_most_at_once(actions) for actions in order), strict=True)
    return Timeline(max(clock), span, in_flight, unfinished, tuple(map(tuple, events)))


def _together(actions: Sequence[Action], first: int) -> list[Action]:
    """The action at a position with those that are joined to it."""
    end = first + 1
    while end < len(actions) and actions[end].joined:
        end += 1
    return [*actions[first:end]]


def _ends(kind: str) -> str:
    return "input_gradient" if kind == "backward" else kind


def _needed(action: Action, block: int, last: int) -> tuple[str, int, int] | None:
    if action.kind == "forward":
        return ("forward", block - 1, action.micro_batch) if block else None
    if action.kind == "weight_gradient":
        return ("input_gradient", block, action.micro_batch)
    return ("input_gradient", block + 1, action.micro_batch) if block < last else ("forward", block, action.micro_batch)


def _most_at_once(actions: Sequence[Action]) -> tuple[int, int]:
    """The most chunks in flight, and the most that are not done with both gradients."""
    in_flight = waiting = most_in_flight = most_unfinished = 0
    for action in actions:
        in_flight += {"forward": 1, "weight_gradient": 0}.get(action.kind, -1)
        waiting += {"input_gradient": 1, "weight_gradient": -1}.get(action.kind, 0)
        most_in_flight, most_unfinished = max(most_in_flight, in_flight), max(most_unfinished, in_flight + waiting)
    return most_in_flight, most_unfinished

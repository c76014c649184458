"""Actions of a pipeline schedule, and a player that runs them on a clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Literal, NamedTuple, Self

from meshwright.arrays import IntColumn
from meshwright.errors import InvalidInput


class Action(NamedTuple):
    """One piece of work of a pipeline rank."""

    kind: Literal["forward", "backward", "input_gradient", "weight_gradient"]
    """`backward` is both gradients at once."""
    chunk: int
    """Which of the rank's chunks, 0 first."""
    micro_batch: int
    joined: bool = False
    """It runs as one with the action before it: neither is over before both are."""


class ChunkTimes(NamedTuple):
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


class Event(NamedTuple):
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
    order: Sequence[Sequence[Action]]
    """The actions of each rank."""
    starts_s: Sequence[Sequence[float]]
    """When each of them starts, seconds."""
    ends_s: Sequence[Sequence[float]]

    @cached_property
    def events(self) -> tuple[tuple[Event, ...], ...]:
        """What each rank did, in its order."""
        rows = zip(self.order, self.starts_s, self.ends_s, strict=True)
        return tuple(tuple(map(Event, actions, starts, ends)) for actions, starts, ends in rows)

    @cached_property
    def in_flight(self) -> tuple[int, ...]:
        """The most chunks that each rank has worked forward and not yet backward."""
        return tuple(_most_at_once(actions)[0] for actions in self.order)

    @cached_property
    def unfinished(self) -> tuple[int, ...]:
        """The most that wait for one of their gradients, that of the weights included."""
        return tuple(_most_at_once(actions)[1] for actions in self.order)


class _Flat(NamedTuple):
    """The actions of one rank as lists of numbers."""

    needs: list[tuple[int, ...]]
    """The places of what each action waits for, those of all that are joined to it included."""
    gives: list[tuple[int, ...]]
    """The places of what each action ends, those of all that it is the last one joined to included."""
    seconds: list[float]


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
    last, count = int(blocks.max()), 1 + max((action.micro_batch for actions in order for action in actions), default=0)
    flat = [_flat(actions, rank, times, (blocks[:, rank].tolist(), last, count)) for rank, actions in enumerate(order)]
    # When each pass of each block and micro-batch has ended; in the last places, what nothing waits for.
    ended = [inf] * (3 * (last + 1) * count) + [0.0] * count
    clock, position = [0.0] * len(order), [0] * len(order)
    starts: list[list[float]] = [[] for _ in order]
    ends: list[list[float]] = [[] for _ in order]
    progress = True
    while progress:
        progress = False
        for rank, (needs, gives, seconds) in enumerate(flat):
            now, first = clock[rank], position[rank]
            for index in range(first, len(seconds)):
                begin = now
                for each in needs[index]:
                    if ended[each] > begin:
                        begin = ended[each]
                if begin == inf:
                    break
                starts[rank].append(begin)
                now = begin + seconds[index]
                ends[rank].append(now)
                for each in gives[index]:
                    ended[each] = now
            clock[rank], position[rank] = now, len(ends[rank])
            progress = progress or first < position[rank]
    if any(done < len(actions) for done, actions in zip(position, order, strict=True)):
        raise InvalidInput(f"the order of {len(order)} ranks deadlocks at positions {position}")
    span = max(end - (begun[0] if begun else -1.0) for end, begun in zip(clock, starts, strict=True))
    return Timeline(max(clock), span, order, starts, ends)


def _flat(actions: Sequence[Action], rank: int, times: ChunkTimes, model: tuple[Sequence[int], int, int]) -> _Flat:
    """The actions of a rank as places in a list of passes, blocks and micro-batches.

    model: the block of each of its chunks, the last block of all ranks, micro-batches.
    """
    blocks, last, count = model
    forward, gradient, nothing = (kind * (last + 1) * count for kind in (0, 1, 3))
    places = {}
    for kind, chunk in {(action.kind, action.chunk) for action in actions}:
        here = blocks[chunk] * count
        if kind == "forward":
            needs, gives = forward + here - count if blocks[chunk] else nothing, forward + here
        elif kind == "weight_gradient":
            needs, gives = gradient + here, 2 * gradient + here
        else:
            needs, gives = gradient + here + count if blocks[chunk] < last else forward + here, gradient + here
        places[kind, chunk] = needs, gives, times.of(Action(kind, chunk, 0), rank)
    flat, first = _Flat(needs=[], gives=[], seconds=[]), 0
    for index, action in enumerate(actions):
        needs, gives, seconds = places[action.kind, action.chunk]
        flat.seconds.append(seconds)
        flat.needs.append((needs + action.micro_batch,))
        flat.gives.append((gives + action.micro_batch,))
        if action.joined:
            flat.needs[first] += flat.needs[index]
            flat.gives[index] += flat.gives[index - 1]
            flat.needs[index] = flat.gives[index - 1] = ()
        else:
            first = index
    return flat


def _most_at_once(actions: Sequence[Action]) -> tuple[int, int]:
    """The most chunks in flight, and the most that are not done with both gradients."""
    in_flight = waiting = most_in_flight = most_unfinished = 0
    for action in actions:
        in_flight += {"forward": 1, "weight_gradient": 0}.get(action.kind, -1)
        waiting += {"input_gradient": 1, "weight_gradient": -1}.get(action.kind, 0)
        most_in_flight, most_unfinished = max(most_in_flight, in_flight), max(most_unfinished, in_flight + waiting)
    return most_in_flight, most_unfinished

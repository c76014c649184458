"""Timeline: what a rank has allocated at each moment of its step, and the moment with the most of it."""

from __future__ import annotations

import operator
from enum import IntEnum
from functools import reduce
from typing import NamedTuple, TypeAlias

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn, Floats, IntColumn
from meshwright.units import GIB


class Moment(IntEnum):
    """Moments of a step at which memory may be highest, as they come."""

    LAST_LAYER_FORWARD = 0
    LOSS_FORWARD = 1
    LOSS_BACKWARD = 2
    HEAD_REDUCE_SCATTER = 3
    LAST_LAYER_BACKWARD = 4
    LAST_LAYER_GRADIENTS = 5
    MIDDLE_LAYER_ALL_GATHER = 6
    MIDDLE_LAYER_BACKWARD = 7
    SECOND_LAYER_BACKWARD = 8
    FIRST_LAYER_ALL_GATHER = 9
    FIRST_LAYER_BACKWARD = 10
    EMBEDDING_GRADIENTS = 11
    WEIGHT_GRADIENTS = 12
    GRADIENT_REDUCTION = 13
    OPTIMIZER_STEP = 14

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


class Peak(NamedTuple):
    """What is allocated when it is the most, beside what stays allocated from step to step; each of shape (r,)."""

    moment: IntColumn
    """Codes of `Moment`."""
    parameters: FloatColumn
    """Bytes; of gathered weights."""
    gradients: FloatColumn
    activations: FloatColumn
    logits: FloatColumn
    temporaries: FloatColumn


class MemoryEvent(NamedTuple):
    """One allocation or release on one rank."""

    moment: Moment
    """The next moment that comes after it."""
    component: str
    """The field of `Peak`."""
    name: str
    size: float
    """Bytes, less than 0 where they are released."""
    allocated: float
    """Bytes afterwards."""

    def __str__(self) -> str:
        return f"{self.moment!s:23} {self.size / GIB:+8.3f} {self.allocated / GIB:8.3f}  {self.component}: {self.name}"


class MemoryTimeline:
    """One step of r ranks, played as allocations and releases; every rank has the same events, some of 0 bytes.

    >>> step = MemoryTimeline(1)
    >>> step.allocate("activations", "saved for backward", 3.0)
    >>> step.allocate("logits", "logits", 2.0)
    >>> step.at(Moment.LOSS_BACKWARD)
    >>> step.free("logits")
    >>> step.allocate("temporaries", "working set", 1.0)
    >>> step.at(Moment.LAST_LAYER_BACKWARD)
    >>> peak = step.peak()
    >>> str(Moment(peak.moment[0])), float(peak.activations[0]), float(peak.logits[0]), float(peak.temporaries[0])
    ('loss backward', 3.0, 2.0, 0.0)
    """

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._allocated: dict[str, _Allocation] = {}
        self._moments: list[_Snapshot] = []

    def allocate(self, component: str, name: str, size: Floats) -> None:
        """From now on so many bytes are allocated under a name: it is new, has grown or has shrunk.

        component: a field of `Peak`; size: bytes, scalar or array (r,).
        """
        self._allocated[name] = _Allocation(component, size)

    def free(self, *names: str) -> None:
        """Release all that is allocated under these names."""
        for name in names:
            del self._allocated[name]

    def at(self, moment: Moment, only: BoolColumn | None = None) -> None:
        """What is allocated now may be the most. only: the ranks that have such a moment, shape (r,)."""
        total = reduce(operator.add, (each.size for each in self._allocated.values()))
        total = total if only is None else np.where(only, total, 0.0)
        self._moments.append(_Snapshot(moment, dict(self._allocated), total))

    def peak(self) -> Peak:
        """The first of the moments with the most."""
        # The index of the first moment with the most bytes, of every rank: highest (r,).
        most, highest = self._moments[0].total, np.zeros(self._ranks, dtype=np.int64)
        for index, snapshot in enumerate(self._moments[1:], start=1):
            highest[snapshot.total > most] = index
            most = np.maximum(most, snapshot.total)
        # Whether a rank peaks at this moment or later, for every moment: (r,) each.
        later = [highest >= index for index in range(len(self._moments))]
        parts: dict[str, Floats] = dict.fromkeys(Peak._fields[1:], 0.0)
        names = {name: each.component for snapshot in self._moments for name, each in snapshot.allocated.items()}
        for name, component in names.items():
            # The size of one name at each rank's peak: take the new one wherever it changes and the peak is not over.
            before = size = _Allocation(component, 0.0)
            for from_here, snapshot in zip(later, self._moments, strict=True):
                now = snapshot.allocated.get(name, _Allocation(component, 0.0))
                if now.size is not before.size:
                    size = _Allocation(component, np.where(from_here, now.size, size.size))
                before = now
            parts[component] = parts[component] + size.size
        codes = np.array([snapshot.moment for snapshot in self._moments])[highest]
        return Peak(codes, **{name: np.broadcast_to(part, self._ranks) for name, part in parts.items()})

    def events(self, rank: int) -> list[MemoryEvent]:
        """What one rank allocates and releases, in order, without what is of 0 bytes."""
        events, before, allocated = [], dict[str, _Allocation](), 0.0
        for snapshot in self._moments:
            if not np.broadcast_to(snapshot.total, self._ranks)[rank]:
                continue
            now = {name: each.of(rank, self._ranks) for name, each in snapshot.allocated.items()}
            names = dict.fromkeys((*before, *now))
            changes = [(name, float(now.get(name, _NOTHING).size - before.get(name, _NOTHING).size)) for name in names]
            for name, size in sorted(changes, key=lambda change: change[1]):
                allocated += size
                component = (now.get(name) or before[name]).component
                if size:
                    event = MemoryEvent(
                        moment=snapshot.moment, component=component, name=name, size=size, allocated=allocated
                    )
                    events.append(event)
            before = now
        return events


class _Allocation(NamedTuple):
    component: str
    size: Floats

    def of(self, rank: int, ranks: int) -> _Allocation:
        return _Allocation(self.component, float(np.broadcast_to(self.size, ranks)[rank]))


_NOTHING = _Allocation("", 0.0)


class _Snapshot(NamedTuple):
    moment: Moment
    allocated: dict[str, _Allocation]
    total: Floats
    """Bytes, shape (r,); 0 where a rank has no such moment."""


StagesTimeline: TypeAlias = tuple[IntColumn, MemoryTimeline]
"""Some rows of a table of stages, and their step."""


def highest(timelines: list[StagesTimeline], rows: int) -> Peak:
    """The peaks of a table of stages.

    timelines: each with its rows of the table; rows: of the whole table, a count. Returns bytes, shape (rows,).
    Source: by definition.
    """
    if len(timelines) == 1:
        return timelines[0][1].peak()
    peak = Peak(np.zeros(rows, dtype=np.int64), *np.zeros((len(Peak._fields) - 1, rows)))
    for index, timeline in timelines:
        for whole, part in zip(peak, timeline.peak(), strict=True):
            whole[index] = part
    return peak

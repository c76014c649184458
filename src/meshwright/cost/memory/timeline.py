"""Timeline: what a rank has allocated at each moment of its step, and the moment with the most of it."""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property, reduce
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn, Floats, IntColumn, filled, some, total
from meshwright.distinct import spread
from meshwright.units import GIB


class Moment(IntEnum):
    """Moments of a step at which memory may be highest, as they come."""

    LOADING = 0
    LAST_LAYER_FORWARD = 1
    LOSS_FORWARD = 2
    LOSS_BACKWARD = 3
    HEAD_REDUCE_SCATTER = 4
    LAST_LAYER_BACKWARD = 5
    LAST_LAYER_GRADIENTS = 6
    MIDDLE_LAYER_ALL_GATHER = 7
    MIDDLE_LAYER_BACKWARD = 8
    SECOND_LAYER_BACKWARD = 9
    FIRST_LAYER_ALL_GATHER = 10
    FIRST_LAYER_BACKWARD = 11
    EMBEDDING_GRADIENTS = 12
    WEIGHT_GRADIENTS = 13
    GRADIENT_REDUCTION = 14
    OPTIMIZER_STEP = 15

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

    def __init__(self, ranks: int, beside_logits: Floats = 0.0) -> None:
        """beside_logits: bytes that are free and of no use while logits are allocated, scalar or array (r,)."""
        self._ranks = ranks
        self._beside_logits = beside_logits if some(beside_logits) else None
        self._allocated: dict[str, _Allocation] = {}
        self._sums: list[tuple[Floats, Floats]] = []
        self._moments: list[_Snapshot] = []

    def allocate(self, component: str, name: str, size: Floats) -> None:
        """From now on so many bytes are allocated under a name: it is new, has grown or has shrunk.

        component: a field of `Peak`; size: bytes, scalar or array (r,).
        """
        self._allocated[name] = component, size

    def free(self, *names: str) -> None:
        """Release all that is allocated under these names."""
        for name in names:
            del self._allocated[name]

    def free_all(self) -> None:
        """Release all that is allocated."""
        self._allocated.clear()

    def at(self, moment: Moment, only: BoolColumn | None = None) -> None:
        """What is allocated now may be the most. only: the ranks that have such a moment, shape (r,)."""
        allocated, unused = self._sum(), self._unused()
        if only is not None:
            allocated, unused = np.where(only, allocated, 0.0), unused * only if some(unused) else 0.0
        held = allocated + unused if some(unused) else allocated
        snapshot = _Snapshot(moment=moment, allocated=dict(self._allocated), total=allocated, held=held)
        self._moments.append(snapshot)

    def _sum(self) -> Floats:
        """All that is allocated, in the order of the names; up to the first that has changed it is known."""
        known = 0
        for (before, _), (_, size) in zip(self._sums, self._allocated.values(), strict=False):
            if before is not size:
                break
            known += 1
        del self._sums[known:]
        for _, size in islice(self._allocated.values(), known, None):
            self._sums.append((size, self._sums[-1][1] + size if self._sums else size))
        return self._sums[-1][1]

    def _unused(self) -> Floats:
        """Free bytes of no use now."""
        if self._beside_logits is None:
            return 0.0
        logits = [size for component, size in self._allocated.values() if component == "logits"]
        return np.where(total(logits) > 0, self._beside_logits, 0.0) if logits else 0.0

    def highest(self, ranks: IntColumn | None = None) -> IntColumn:
        """The first of the moments with the most allocated, by its place, 0 first; once all have been played."""
        first = filled(self._moments[0].total, self._ranks)
        most = first if ranks is None else first.take(ranks)
        place = np.zeros(len(most), dtype=np.int8)
        for index, snapshot in enumerate(self._moments[1:], start=1):
            total = _chosen(snapshot.total, ranks)
            np.maximum(place, np.int8(index) * (total > most), out=place)
            most = np.maximum(most, total)
        return place

    @cached_property
    def most_held(self) -> FloatColumn:
        """The most that is allocated or of no use at one moment; bytes, shape (r,)."""
        most = reduce(np.maximum, (snapshot.held for snapshot in self._moments))
        return filled(most, self._ranks)

    @cached_property
    def most_allocated(self) -> FloatColumn:
        """The most that is allocated at one moment, of those played so far; bytes, shape (r,)."""
        most = reduce(np.maximum, (snapshot.total for snapshot in self._moments))
        return filled(most, self._ranks)

    def peak(self, ranks: IntColumn | None = None) -> Peak:
        """What is allocated then, of all ranks or those chosen by index, shape (k,)."""
        place = self.highest(ranks)
        codes = np.array([snapshot.moment for snapshot in self._moments])[place]
        peak = Peak(codes, *np.zeros((len(Peak._fields) - 1, len(place))))
        for each in np.flatnonzero(np.bincount(place)).tolist():
            rows = np.flatnonzero(place == each)
            own = rows if ranks is None else ranks.take(rows)
            for component, size in self._moments[each].allocated.values():
                getattr(peak, component)[rows] += spread(size, own)
        return peak

    def events(self, rank: int) -> list[MemoryEvent]:
        """What one rank allocates and releases, in order, without what is of 0 bytes."""
        events, before, allocated = [], dict[str, tuple[str, float]](), 0.0
        for snapshot in self._moments:
            if not np.broadcast_to(snapshot.total, self._ranks)[rank]:
                continue
            now = {
                name: (component, float(np.broadcast_to(size, self._ranks)[rank]))
                for name, (component, size) in snapshot.allocated.items()
            }
            names = dict.fromkeys((*before, *now))
            changes = [(name, now.get(name, _NOTHING)[1] - before.get(name, _NOTHING)[1]) for name in names]
            for name, size in sorted(changes, key=lambda change: change[1]):
                allocated += size
                component, _ = now.get(name) or before[name]
                if size:
                    event = MemoryEvent(
                        moment=snapshot.moment, component=component, name=name, size=size, allocated=allocated
                    )
                    events.append(event)
            before = now
        return events


_Allocation: TypeAlias = tuple[str, Floats]
"""A component and its bytes."""
NAMED_LOGITS = "logits that the loop names"
_NOTHING = ("", 0.0)


def _chosen(size: Floats, ranks: IntColumn | None) -> Floats:
    return size if ranks is None else spread(size, ranks)


class _Snapshot(NamedTuple):
    moment: Moment
    allocated: dict[str, _Allocation]
    total: Floats
    """Bytes, shape (r,); 0 where a rank has no such moment."""
    held: Floats
    """The same with free bytes of no use."""


StagesTimeline: TypeAlias = tuple[IntColumn, MemoryTimeline]
"""Some rows of a table of stages, and their step."""


def most_held(timelines: list[StagesTimeline], rows: int) -> FloatColumn:
    """The most that each stage of a table has allocated in its step, or cannot use beside that.

    timelines: each with its rows of the table; rows: of the whole table, a count. Returns bytes, shape (rows,).
    Source: by definition.
    """
    if len(timelines) == 1:
        return timelines[0][1].most_held
    most: FloatColumn = np.zeros(rows)
    for index, timeline in timelines:
        most[index] = timeline.most_held
    return most


def peaks(timelines: list[StagesTimeline], chosen: IntColumn | None = None) -> Peak:
    """The peaks of the chosen stages of a table, or of all.

    timelines: each with its rows of the table, in order; chosen: rows of the table, shape (k,). Returns bytes, shape
    (k,). Source: by definition.
    """
    if len(timelines) == 1:
        return timelines[0][1].peak(chosen)
    chosen = np.arange(sum(len(index) for index, _ in timelines)) if chosen is None else chosen
    peak = Peak(np.zeros(len(chosen), dtype=np.int64), *np.zeros((len(Peak._fields) - 1, len(chosen))))
    for index, timeline in timelines:
        own = np.flatnonzero(np.isin(chosen, index))
        for whole, part in zip(peak, timeline.peak(np.searchsorted(index, chosen[own])), strict=True):
            whole[own] = part
    return peak

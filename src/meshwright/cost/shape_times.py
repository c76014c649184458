"""Shape times: what one micro-batch of each shape takes, priced once however many tables of plans have it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from meshwright.arrays import IntColumn, Numbers
from meshwright.cost.unit import UnitTimes, shape_fields, unit_times
from meshwright.distinct import combined, first_rows, gathered
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs


@dataclass
class ShapeTimes:
    """The times of all shapes of a question that were asked for so far.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> times = ShapeTimes(LLAMA)
    >>> for tp in (2, 4, 2):
    ...     _ = times.of(Plans.of([Plan(tp=tp)]), some_not_recomputed=False)
    >>> len(times)
    2
    """

    inputs: Inputs
    _fields: dict[bool, list[IntColumn]] = field(default_factory=dict)
    """Of every shape, with or without layers that are not recomputed; each of shape (known,)."""
    _times: dict[bool, UnitTimes] = field(default_factory=dict)
    """Of the same shapes."""

    def __len__(self) -> int:
        return sum(len(fields[0]) for fields in self._fields.values())

    def of(self, shapes: Plans, *, some_not_recomputed: bool) -> UnitTimes:
        """The times of some shapes, in their order; shapes: of `micro_batch_shapes`, columns (k,), all different."""
        asked = [getattr(shapes, name) for name in shape_fields(self.inputs)]
        known = self._fields.get(some_not_recomputed, [column[:0] for column in asked])
        count, together = len(known[0]), [np.concatenate(pair) for pair in zip(known, asked, strict=True)]
        # The row of each that is known, by its like among both; -1: of none.
        first, like = first_rows(*together)
        row = np.full(len(first), -1)
        row[like[:count]] = np.arange(count)
        rows = row.take(like[count:])
        missing = np.flatnonzero(rows < 0)
        if len(missing):
            self._add(shapes.some(missing), count, some_not_recomputed)
            rows[missing] = np.arange(count, count + len(missing))
            kept = np.concatenate([np.arange(count), count + missing])
            self._fields[some_not_recomputed] = [column.take(kept) for column in together]
        if not count:
            return self._times[some_not_recomputed]
        return gathered(self._times[some_not_recomputed], rows)

    def _add(self, shapes: Plans, count: int, some_not_recomputed: bool) -> None:
        """Price shapes that are new; count: of those that are known."""
        priced = unit_times(shapes, self.inputs, some_not_recomputed=some_not_recomputed)
        known, rows = self._times.get(some_not_recomputed), (count, len(shapes))
        self._times[some_not_recomputed] = (
            priced if known is None else combined(lambda *parts: _joined(parts, rows), known, priced)
        )


def _joined(parts: tuple[Numbers, ...], rows: tuple[int, ...]) -> Numbers:
    """One column of all rows; a number stays one where all parts are that number."""
    if not any(map(np.ndim, parts)) and len(set(parts)) == 1:
        return parts[0]
    return np.concatenate([np.broadcast_to(part, count) for part, count in zip(parts, rows, strict=True)])

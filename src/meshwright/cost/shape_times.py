"""Shape times: what one micro-batch of each shape takes, priced once however many tables of plans have it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from meshwright.arrays import Numbers
from meshwright.cost.unit import UnitTimes, shape_fields, unit_times
from meshwright.distinct import combined, gathered
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs


@dataclass
class ShapeTimes:
    """The times of all shapes of a question that were asked for so far.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.examples import LLAMA
    >>> times = ShapeTimes(LLAMA)
    >>> for tp in (2, 4, 2):
    ...     _ = times.of(Plans.of([Plan(tp=tp)]), some_not_recomputed=False)
    >>> len(times)
    2
    """

    inputs: Inputs
    _places: dict[bool, dict[bytes, int]] = field(default_factory=dict)
    """Of every shape, as the bytes of its fields, the row of its times, with or without layers that are not recomputed.
    """
    _times: dict[bool, UnitTimes] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self._places.values()))

    def of(self, shapes: Plans, *, some_not_recomputed: bool) -> UnitTimes:
        """The times of some shapes, in their order; shapes: of `micro_batch_shapes`, columns (k,)."""
        fields = np.stack([getattr(shapes, name) for name in shape_fields(self.inputs)], axis=1)
        keys = fields.view(np.dtype((np.void, fields.itemsize * fields.shape[1])))[:, 0].tolist()
        places = self._places.setdefault(some_not_recomputed, {})
        rows = np.array([places.get(key, -1) for key in keys], dtype=np.int64)
        missing = np.flatnonzero(rows < 0)
        if len(missing):
            self._add(shapes.some(missing), some_not_recomputed)
            rows[missing] = np.arange(len(places), len(places) + len(missing))
            places |= {keys[row]: place for place, row in enumerate(missing, start=len(places))}
        if len(missing) == len(places):
            return self._times[some_not_recomputed]
        return gathered(self._times[some_not_recomputed], rows)

    def _add(self, shapes: Plans, some_not_recomputed: bool) -> None:
        """Price shapes that are new."""
        priced = unit_times(shapes, self.inputs, some_not_recomputed=some_not_recomputed)
        known, rows = self._times.get(some_not_recomputed), (len(self._places[some_not_recomputed]), len(shapes))
        self._times[some_not_recomputed] = (
            priced if known is None else combined(lambda *parts: _joined(parts, rows), known, priced)
        )


def _joined(parts: tuple[Numbers, ...], rows: tuple[int, ...]) -> Numbers:
    """One column of all rows; a number stays one where all parts are that number."""
    if not any(map(np.ndim, parts)) and len(set(parts)) == 1:
        return parts[0]
    return np.concatenate([np.broadcast_to(part, count) for part, count in zip(parts, rows, strict=True)])

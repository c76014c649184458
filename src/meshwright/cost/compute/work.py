"""Work: seconds of compute, by the kind of kernel."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import BoolColumn, Floats, Numbers, where
from meshwright.distinct import combined


class Work(NamedTuple):
    """Seconds of compute; each scalar or array (n,)."""

    gemm: Floats
    attention: Floats
    elementwise: Floats

    @property
    def total(self) -> Floats:
        """All kinds together, seconds."""
        return self.gemm + self.attention + self.elementwise

    def scaled(self, factor: Numbers) -> Work:
        """Every kind times a factor."""
        return Work(self.gemm * factor, self.attention * factor, self.elementwise * factor)

    def where(self, condition: bool | BoolColumn) -> Work:
        """Nothing where the condition does not hold."""
        return combined(lambda part: where(condition, part, 0.0), self)

    def plus(self, other: Work) -> Work:
        """The sum, kind by kind."""
        return Work(self.gemm + other.gemm, self.attention + other.attention, self.elementwise + other.elementwise)


NO_WORK = Work(0.0, 0.0, 0.0)

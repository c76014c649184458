"""Work: seconds of compute, by the kind of kernel."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from meshwright.arrays import BoolColumn, Floats, Numbers


class Work(NamedTuple):
    """Seconds of compute; each scalar or array (n,)."""

    gemm: Floats
    attention: Floats
    elementwise: Floats

    @property
    def total(self) -> Floats:
        """All kinds together, seconds."""
        return self.gemm + self.attention + self.elementwise

    def scaled(self, factor: Numbers) -> Self:
        """Every kind times a factor."""
        return type(self)(*(part * factor for part in self))

    def where(self, condition: bool | BoolColumn) -> Self:
        """Nothing where the condition does not hold."""
        return type(self)(*(np.where(condition, part, 0.0) for part in self))

    def plus(self, other: Work) -> Self:
        """The sum, kind by kind."""
        return type(self)(*(mine + yours for mine, yours in zip(self, other, strict=True)))


NO_WORK = Work(0.0, 0.0, 0.0)

"""Parts of a layer: what the kernels of each take in one pass."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from meshwright.arrays import Floats, Numbers
from meshwright.cost.compute.work import NO_WORK, Work

Each = TypeVar("Each")


class Kernels(NamedTuple):
    """What some kernels take; each scalar or array (n,)."""

    gemm: Floats = 0.0
    """Seconds of matrix products."""
    attention: Floats = 0.0
    """Seconds of the attention core."""
    moved_bytes: Floats = 0.0
    """Read and written by element-wise kernels."""
    fixed_s: Floats = 0.0
    """Seconds of small kernels, whatever they move."""

    def scaled(self, factor: Numbers) -> Kernels:
        """All of them `factor` times."""
        return Kernels(*(part * factor for part in self))


class TimedKernels(NamedTuple):
    """What some kernels take; each scalar or array (n,)."""

    work: Work
    """Seconds."""
    moved_bytes: Floats
    """Read and written by element-wise kernels."""


class ExpertParts(NamedTuple, Generic[Each]):
    """The parts of a mixture of experts, without shared ones."""

    router: Each
    """Its product, its scores, and the small kernels that choose experts and sort tokens."""
    permute: Each
    """What sorts the rows by expert."""
    experts: Each
    """Their products with what quantises them, and the activation."""
    unpermute: Each
    """What weighs and sums the rows that come out."""


class LayerParts(NamedTuple, Generic[Each]):
    """All parts of a layer that compute."""

    attention: Each
    """With norms and residual sums."""
    feed_forward: Each
    """The dense block, or the shared experts."""
    routed: ExpertParts[Each]

    @property
    def each(self) -> tuple[Each, ...]:
        """One after the other."""
        return self.attention, self.feed_forward, *self.routed


NONE = Kernels()
NO_TIME = TimedKernels(NO_WORK, 0.0)
NO_EXPERT_KERNELS = ExpertParts(router=NONE, permute=NONE, experts=NONE, unpermute=NONE)
NO_KERNELS = LayerParts(attention=NONE, feed_forward=NONE, routed=NO_EXPERT_KERNELS)

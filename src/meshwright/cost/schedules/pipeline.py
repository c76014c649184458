"""Pipeline: what the idle time of a schedule depends on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Bools, Floats, Ints
from meshwright.cost.tree import combined


class Passes(NamedTuple):
    """Seconds of one micro-batch on one rank, or on several together; each scalar or array (n,)."""

    forward: Floats
    input_gradient: Floats
    """With what is computed again before it, and communication that nothing hides."""
    weight_gradient: Floats

    @property
    def total(self) -> Floats:
        """All passes together, seconds."""
        return self.forward + self.input_gradient + self.weight_gradient


class Pipeline(NamedTuple):
    """What the idle time of a schedule depends on; each scalar or array (n,)."""

    slowest: Passes
    """Of the rank with the most work."""
    whole: Passes
    """Of all ranks together."""
    stages: Ints
    """p."""
    chunks: Ints
    """v of a rank."""
    micro_batches: Ints
    """m."""
    waiting: Floats
    """What a chunk keeps for its weight gradients over what it keeps after forward: a share. The order is searched
    under a limit in bytes, so that as much more may wait; 1 where it is fixed by counts."""
    overlaps_steps: Bools
    """A rank begins its next step when its own work is done, without waiting for the others."""

    @property
    def others(self) -> Passes:
        """Of all ranks but the slowest, seconds."""
        return combined(lambda whole, slowest: whole - slowest, self.whole, self.slowest)

    def at_least(self, idle: Floats) -> Floats:
        """Idle seconds, and no less than one micro-batch takes to go through all ranks and back beyond the work that
        the slowest rank has beside it: what is left when micro-batches are few.
        """
        way = self.whole.forward + self.whole.input_gradient + self.slowest.weight_gradient
        return np.maximum(idle, way - self.micro_batches * self.slowest.total)

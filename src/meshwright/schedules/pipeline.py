"""Pipeline: the counts and the seconds on which chunks in flight, orders and idle time depend."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Bools, Floats, Ints


class PipelineShape(NamedTuple):
    """The counts of one pipeline."""

    stages: int
    """p."""
    micro_batches: int
    """m."""
    chunks: int = 1
    """v, of the model's on each rank."""
    microbatch_group: int = 1
    """g, those that a chunk works on before the next one does, of schedules with groups."""


class PassTimes(NamedTuple):
    """Seconds of one micro-batch on one rank, or on several together; each scalar or array (n,)."""

    forward: Floats
    """F."""
    input_gradient: Floats
    """B_i, with what is computed again before it, and communication that nothing hides."""
    weight_gradient: Floats
    """W."""

    @property
    def total(self) -> Floats:
        """All passes together, t, seconds."""
        return self.forward + self.input_gradient + self.weight_gradient


class PipelineTimes(NamedTuple):
    """What the idle time of a schedule depends on; each scalar or array (n,)."""

    slowest: PassTimes
    """Of the rank with the most work, through all its chunks."""
    whole: PassTimes
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
    def others(self) -> PassTimes:
        """Of all ranks but the slowest, seconds."""
        return PassTimes(*(whole - slowest for whole, slowest in zip(self.whole, self.slowest, strict=True)))

    def at_least(self, idle: Floats) -> Floats:
        """Idle seconds, and no less than one micro-batch takes to go through all ranks and back beyond the work that
        the slowest rank has beside it: what is left when micro-batches are few.
        """
        first_micro_batch = self.whole.forward + self.whole.input_gradient + self.slowest.weight_gradient
        return np.maximum(idle, first_micro_batch - self.micro_batches * self.slowest.total)

"""Components: the bytes on one rank of a stage at its peak, by what they are for."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Floats, Ints


class Components(NamedTuple):
    """Bytes on one rank of each stage; every field scalar or of shape (r,)."""

    parameters: Floats
    gradients: Floats
    optimizer_states: Floats
    activations: Floats
    """Saved for backward, of all micro-batches in flight."""
    logits: Floats
    """Logits and cross-entropy working set, where they make the peak."""
    temporaries: Floats
    """Working set of one layer's backward, where it makes the peak, and message buffers; or what the optimizer needs
    beyond activations and logits, which are gone when it works."""
    workspaces: Floats
    fragmentation: Floats
    context: Floats
    communicators: Floats

    @property
    def allocated(self) -> Floats:
        """Live tensors at the peak, bytes."""
        return self.states + self.activations + self.logits + self.temporaries + self.workspaces

    @property
    def reserved(self) -> Floats:
        """What the allocator holds, bytes."""
        return self.allocated + self.fragmentation

    @property
    def device(self) -> Floats:
        """What the driver shows, bytes."""
        return self.reserved + self.context + self.communicators

    @property
    def states(self) -> Floats:
        """Parameters, gradients and optimizer states, bytes."""
        return self.parameters + self.gradients + self.optimizer_states

    def rows(self, index: Ints) -> Components:
        """The chosen rows of every component."""
        return Components(*(part[index] for part in self))

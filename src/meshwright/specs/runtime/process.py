"""Sections [host] and [memory]: what a process needs beside its kernels and its tensors."""

from __future__ import annotations

from meshwright.specs.base import Spec
from meshwright.specs.quantities import NonNegative


class Host(Spec):
    """Seconds that the host takes."""

    host_s_per_layer: NonNegative
    """Seconds that the host needs to issue one layer's forward; backward takes as long."""
    host_s_per_exchange: NonNegative
    """Seconds beyond the wire that every stage-to-stage exchange takes where the runtime waits for it."""
    host_s_per_step: NonNegative
    """Seconds per step outside of the pipeline: data, logging, learning-rate schedule."""


class DeviceMemory(Spec):
    """What the device holds beside live tensors, and how much of it a verdict reserves."""

    context_bytes: NonNegative
    """CUDA context and loaded kernels of one process."""
    workspace_bytes: NonNegative
    """Library workspaces inside the allocator."""
    communicator_bytes: NonNegative
    """Of one communicator of an axis."""
    pair_communicator_bytes: NonNegative
    """Of one stage-to-stage communicator."""
    communicator_uncertainty: NonNegative
    """How far communicators may exceed that, as a share; a safe verdict allows for it."""
    fragmentation: NonNegative
    """Reserved over allocated memory, less one: expected."""
    fragmentation_likely: NonNegative
    """The same when a run is lucky: beyond it nothing fits."""
    fragmentation_safe: NonNegative
    """The same on the worst rank: below it everything fits."""

"""Time of kernels that only move memory: norms, activations, rotary positions, residual sums, casts."""

from __future__ import annotations

from meshwright.arrays import Floats, Numbers
from meshwright.specs.cluster import Accelerator


def elementwise_time(moved: Numbers, accelerator: Accelerator) -> Floats:
    """Seconds to read and write `moved` bytes: t = bytes / (efficiency * memory bandwidth).

    moved: bytes read plus written, scalar or array (n,). Returns seconds.
    Source: roofline (Williams et al., 2009); the efficiency stands in the accelerator's kernel table.
    """
    return moved / (accelerator.kernels.elementwise_efficiency * accelerator.memory_bandwidth)

"""Accelerator faults: accelerators that the version of a runtime has no kernels for."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.errors import Fault
from meshwright.specs.cluster import Accelerator
from meshwright.specs.runtime import Runtime


def accelerator_faults(accelerator: Accelerator, runtime: Runtime) -> Iterator[Fault]:
    """Whether the accelerator, of NVIDIA, is newer than the runtime; none where its compute capability is not known."""
    newest, has = runtime.plans.newest_compute_capability, accelerator.compute_capability
    if newest is not None and has is not None and accelerator.vendor == "NVIDIA" and int(has) > newest:
        what = f"has compute capability {has:g}, and {runtime.id} ({runtime.version}) has kernels up to {newest}.x"
        instead = f"use {runtime.framework}" if runtime.framework != runtime.id else "use another runtime"
        yield Fault("cluster.accelerator", f"{accelerator.id} {what}; {instead}")

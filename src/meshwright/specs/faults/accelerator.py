"""Accelerator faults: accelerators that the version of a runtime has no kernels for."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.errors import Fault
from meshwright.specs import catalog
from meshwright.specs.cluster import Accelerator
from meshwright.specs.runtime import Runtime, read_runtime


def accelerator_faults(accelerator: Accelerator, runtime: Runtime) -> Iterator[Fault]:
    """Whether the accelerator, of NVIDIA, is newer than the runtime; none where its compute capability is not known."""
    if _has_kernels(runtime, accelerator):
        return
    newest, has = runtime.plans.newest_compute_capability, accelerator.compute_capability
    what = f"has compute capability {has:g}, and {runtime.id} ({runtime.version}) has kernels up to {newest}.x"
    yield Fault("cluster.accelerator", f"{accelerator.id} {what}; use {_instead(runtime, accelerator)}")


def _has_kernels(runtime: Runtime, accelerator: Accelerator) -> bool:
    newest, has = runtime.plans.newest_compute_capability, accelerator.compute_capability
    return newest is None or has is None or accelerator.vendor != "NVIDIA" or int(has) <= newest


def _instead(runtime: Runtime, accelerator: Accelerator) -> str:
    """The framework as of now, where that has kernels for the accelerator."""
    framework = runtime.framework
    known = framework != runtime.id and framework in catalog.names("runtimes")
    if known and _has_kernels(read_runtime(framework), accelerator):
        return framework
    return "another runtime (meshwright plan --runtime all names those that run)"

"""Expert faults: what a job asks of experts, or of multi-token prediction, that its model or runtime lacks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from meshwright.errors import Fault, any_of
from meshwright.specs import catalog
from meshwright.specs.job import Job
from meshwright.specs.model import Model
from meshwright.specs.runtime import Runtime, read_runtime

FUSED_PRECISION = "mxfp8"
"""The recipe whose fused products of experts are priced."""


def expert_faults(model: Model, job: Job, runtime: Runtime) -> Iterator[Fault]:
    """Every fault."""
    yield from _experts(model, job, runtime)
    yield from _fused_products(model, job, runtime)
    if job.mtp_layers and not runtime.plans.multi_token_prediction:
        what = f"is {job.mtp_layers}, but layers of multi-token prediction are not modelled for {runtime.id}"
        yield Fault("job.mtp_layers", f"{what}; leave it out")


def _experts(model: Model, job: Job, runtime: Runtime) -> Iterator[Fault]:
    if model.is_moe and not runtime.plans.experts:
        others = any_of(_runtimes_with_experts())
        yield Fault("model", f"{model.name} has experts, and {runtime.id} has no such models; use {others}")
    even = {"expert_imbalance": 1.0, "expert_spread": 0.0, "expert_capacity": None}
    for name, nothing in even.items() if not model.is_moe else ():
        value = getattr(job, name)
        if value in (None, nothing):
            continue
        yield Fault(f"job.{name}", f"is {value:g}, but {model.name} has no experts; leave it out")
    if model.is_moe and job.expert_capacity is not None and not runtime.plans.drops_tokens:
        what = f"is {job.expert_capacity:g}, but {runtime.id} drops no tokens"
        yield Fault("job.expert_capacity", f"{what}; give an expert imbalance instead, or leave it out")


@cache
def _runtimes_with_experts() -> tuple[str, ...]:
    return tuple(name for name in catalog.names("runtimes") if read_runtime(name).plans.experts)


def _fused_products(model: Model, job: Job, runtime: Runtime) -> Iterator[Fault]:
    """Source: Transformer Engine's fused grouped products, which recipes of Megatron-Bridge switch on for mxfp8."""
    if not model.is_moe or runtime.kernels.expert_products != "fused":
        return
    what = ""
    if job.precision != FUSED_PRECISION:
        what = f"is priced for {FUSED_PRECISION} alone, not {job.precision}"
    elif any(not block.gated or block.activation != "silu" for block in model.mixtures):
        what = f"has kernels for SwiGLU alone, which the experts of {model.name} do not have"
    if what:
        yield Fault("runtime.kernels.expert_products", f"fused {what}; use each, or --with fused_experts=off")

"""Offloading faults: activations on the host that a runtime cannot keep there, or not together."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.errors import Fault
from meshwright.specs.job import Job
from meshwright.specs.model import Model
from meshwright.specs.offload_modules import OF_EXPERTS
from meshwright.specs.runtime import Runtime

LAYERS, MODULES = "runtime.activations.offloaded_layers", "runtime.activations.offloaded_modules"


def offloading_faults(model: Model, job: Job, runtime: Runtime) -> Iterator[Fault]:
    """Every fault. Source: Megatron-core, transformer_config.py __post_init__ (@d98e8a64ddf3 L2127-2193)."""
    yield from _all_offloaded(model, runtime)
    named = runtime.activations.offloaded_modules
    if not named:
        return
    known = runtime.plans.offload_modules
    if unknown := [name for name in named if name not in known]:
        has = f"it has {', '.join(known)}" if known else "it has none"
        yield Fault(MODULES, f"names {', '.join(unknown)}, which {runtime.id} does not offload; {has}")
    if runtime.activations.offloaded_layers:
        yield Fault(MODULES, "does not go with whole layers on the host; use --with offloaded_layers=0")
    if job.lora_rank:
        yield Fault(MODULES, "is not priced beside adapters; use --with offloaded_modules=[]")
    if "attn_proj" in named and "core_attn" not in named:
        what = "has attn_proj without core_attn, whose backward pass reads the same tensor; add core_attn"
        yield Fault(MODULES, what)
    yield from _of_experts(model, runtime)


def _all_offloaded(model: Model, runtime: Runtime) -> Iterator[Fault]:
    """Source: Megatron-core, transformer_config.py: cpu_offloading_num_layers is less than num_layers."""
    offloaded, layers = runtime.activations.offloaded_layers, model.num_layers
    if runtime.family == "megatron" and 0 < layers <= offloaded:
        what = f"is {offloaded}, but one of the {layers} layers of {model.name} must stay; use {layers - 1} or less"
        yield Fault(LAYERS, what)


def _of_experts(model: Model, runtime: Runtime) -> Iterator[Fault]:
    """Of modules inside of a mixture, what does not go together, or with how its experts run.

    One module that runs the experts of a rank with a kernel each offers no others, and paged stashing
    (`moe_paged_stash`) keeps their activations itself.
    """
    named = [name for name in runtime.activations.offloaded_modules if name in OF_EXPERTS]
    if not (named and model.is_moe):
        return
    parts = [name for name in named if name != "fused_group_mlp"]
    fused = runtime.kernels.expert_products == "fused"
    if parts != named and parts:
        yield Fault(MODULES, f"has fused_group_mlp with {', '.join(parts)}, which are parts of it; keep one")
    elif parts != named and not fused:
        yield Fault(MODULES, "has fused_group_mlp, which needs --with fused_experts=on; or use expert_fc1, moe_act")
    elif parts and fused:
        what = f"has {', '.join(parts)}, but fused experts are offloaded whole; use fused_group_mlp"
        yield Fault(MODULES, f"{what}, or --with fused_experts=off")
    if runtime.host.graphs == "iteration" and runtime.activations.stashed_expert_rows:
        what = f"has {', '.join(named)}, whose rows are stashed already where one CUDA graph is the whole step"
        yield Fault(MODULES, f"{what}; leave them out")

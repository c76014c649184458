"""Data parallelism: fully sharded, by the units that the runtime wraps, or whole replicas under autocast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from meshwright.layout.plan import Plan
from meshwright.pytorch.processes.records import Request
from meshwright.pytorch.trainer.experts import MixtureOfExperts
from meshwright.pytorch.trainer.mesh import Meshes
from meshwright.pytorch.trainer.model import Decoder
from meshwright.specs.precision import FP32_BYTES
from meshwright.specs.runtime import Runtime

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
ALL_IN_ONE = 2**20
"""MiB of a bucket that takes every gradient, as in the first step of every run."""


def number_format(request: Request) -> torch.dtype:
    """Of weights, activations and messages."""
    return torch.float32 if request.full_precision else HALF[request.inputs.recipe.half]


def store(chunks: Iterable[nn.Module], request: Request) -> None:
    """Give weights the format in which the runtime stores them; buffers keep theirs."""
    trained_in_fp32 = request.inputs.runtime.storage.weight_bytes == FP32_BYTES
    for weight in chain.from_iterable(chunk.parameters() for chunk in chunks):
        if not (weight.requires_grad and trained_in_fp32):
            weight.data = weight.data.to(number_format(request))


def shard(decoder: Decoder, request: Request, meshes: Meshes) -> None:
    """Wrap every layer, the ends where the runtime has them apart, and the rest as the root."""
    plan, runtime = request.plan, request.inputs.runtime
    resharded = plan.zero == 3
    names = ("dp_replicate", "fsdp") if plan.dp_replicate > 1 else ("fsdp",)
    half, gradients = number_format(request), torch.float32 if request.inputs.gradient_bytes == 4 else None
    policy = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=gradients or half, cast_forward_inputs=False)
    settings = {"mesh": meshes.sharding(names), "mp_policy": policy}
    for index, layer in enumerate(decoder.layers):
        last = plan.pp == 1 and index == len(decoder.layers) - 1
        stays_gathered = runtime.sharding.keeps_last_layer_gathered and last
        placed = _experts_apart(layer, plan, meshes, names)
        fully_shard(layer, reshard_after_forward=resharded and not stays_gathered, **settings, **placed)
    for unit, stays_gathered in _ends(decoder, plan, runtime) if runtime.sharding.ends_apart else ():
        fully_shard(unit, reshard_after_forward=resharded and not stays_gathered, **settings)
    fully_shard(decoder, reshard_after_forward=resharded and not _keeps_ends_gathered(plan, runtime), **settings)
    if runtime.sharding.divides_gradients:
        for module in decoder.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)


def _ends(decoder: Decoder, plan: Plan, runtime: Runtime) -> Iterator[tuple[nn.Module | list[nn.Module], bool]]:
    """Units of the two ends, and whether each stays gathered from forward to backward."""
    embedding, norm, head = decoder.embedding, decoder.norm, decoder.head
    if embedding is not None and not decoder.tied:
        yield embedding, False
    if norm is not None and head is not None:
        tied = [embedding] if embedding is not None and decoder.tied else []
        yield [*tied, norm, head], _keeps_ends_gathered(plan, runtime)


def _keeps_ends_gathered(plan: Plan, runtime: Runtime) -> bool:
    sharding = runtime.sharding
    return sharding.keeps_ends_gathered if plan.pp == 1 else sharding.keeps_pipelined_ends_gathered


def _experts_apart(layer: nn.Module, plan: Plan, meshes: Meshes, names: tuple[str, ...]) -> dict[str, object]:
    """Where the routed experts of a layer are sharded: over the ranks that hold the same ones."""
    block = layer.feed_forward
    if not isinstance(block, MixtureOfExperts):
        return {}
    routed = {*block.experts.parameters()}
    ranks = meshes.sharding((names[-1].replace("fsdp", "efsdp"),), experts=True).size() if plan.ep > 1 else 0
    holders = ranks * plan.ep if plan.ep > 1 else meshes.sharding(("fsdp",)).size()
    dimension = Shard(1 if holders > block.shape.count else 0)
    if plan.ep == 1:
        return {"shard_placement_fn": lambda weight: dimension if weight in routed else None}
    from torch.distributed.fsdp._fully_shard._fsdp_common import ShardPlacementResult
    from torch.distributed.fsdp._fully_shard._fsdp_init import _get_mesh_info

    apart = _get_mesh_info(meshes.sharding(tuple(name.replace("fsdp", "efsdp") for name in names), experts=True), None)
    usual = _get_mesh_info(meshes.sharding(names), None)

    def place(weight: nn.Parameter) -> ShardPlacementResult:
        if weight in routed:
            return ShardPlacementResult(placement=dimension, mesh_info=apart)
        return ShardPlacementResult(placement=Shard(0), mesh_info=usual)

    return {"shard_placement_fn": place}


def replicate(decoder: Decoder, request: Request, meshes: Meshes) -> nn.Module:
    """The decoder as one of its replicas, where the runtime has such."""
    buckets = request.inputs.runtime.storage.gradient_buckets
    if request.plan.zero > 1 or buckets == "none":
        return decoder
    group = meshes.sharding(("fsdp",)).get_group()
    model = DistributedDataParallel(
        decoder,
        process_group=group,
        init_sync=False,
        broadcast_buffers=False,
        bucket_cap_mb=ALL_IN_ONE,
        gradient_as_bucket_view=buckets == "views",
    )
    model.register_comm_hook(group, lambda group, bucket: _summed(group, bucket))
    return model


def _summed(group: dist.ProcessGroup, bucket: dist.GradBucket) -> Future[Tensor]:
    """The bucket summed at once: a fake world gives no future that holds it."""
    dist.all_reduce(bucket.buffer(), group=group)
    done: Future[Tensor] = Future()
    done.set_result(bucket.buffer())
    return done


def summing(model: nn.Module, *, last: bool, whole: bool) -> AbstractContextManager[None]:
    """Around a micro-batch: replicas sum gradients in the last one alone; those that share weights too, where whole
    ones are added up.
    """
    for module in model.modules() if whole else ():
        if isinstance(module, FSDPModule):
            module.set_requires_gradient_sync(last, recurse=False)
    alone = isinstance(model, DistributedDataParallel) and not last
    context: AbstractContextManager[None] = model.no_sync() if alone else nullcontext()
    return context


def mixed_precision(request: Request) -> AbstractContextManager[object]:
    """Around the forward of a runtime that has it: matrix products in 2 bytes."""
    casts = request.inputs.runtime.storage.autocast or request.inputs.freezes_weights
    if not casts or request.full_precision:
        return nullcontext()
    return torch.autocast("cpu", dtype=HALF[request.inputs.recipe.half])

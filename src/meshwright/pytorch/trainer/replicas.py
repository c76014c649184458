"""Replicas: data parallelism that sums whole gradients, with automatic mixed precision."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from meshwright.pytorch.processes.request import Request
from meshwright.pytorch.trainer.mesh import Meshes
from meshwright.pytorch.trainer.model import Decoder
from meshwright.pytorch.trainer.sharded import HALF

ALL_IN_ONE = 2**20
"""MiB of a bucket that takes every gradient, as in the first step of every run."""


def replicate(decoder: Decoder, request: Request, meshes: Meshes) -> nn.Module:
    """The decoder as one of its replicas, where the runtime has such."""
    if request.plan.zero > 1 or request.plan.dp == 1:
        return decoder
    group = meshes.sharding(("fsdp",)).get_group()
    model = DistributedDataParallel(
        decoder, process_group=group, init_sync=False, broadcast_buffers=False, bucket_cap_mb=ALL_IN_ONE
    )
    model.register_comm_hook(group, lambda group, bucket: _summed(group, bucket))
    return model


def _summed(group: dist.ProcessGroup, bucket: dist.GradBucket) -> Future[Tensor]:
    """The bucket summed at once: a fake world gives no future that holds it."""
    dist.all_reduce(bucket.buffer(), group=group)
    done: Future[Tensor] = Future()
    done.set_result(bucket.buffer())
    return done


def summing(model: nn.Module, *, last: bool) -> AbstractContextManager[None]:
    """Around a micro-batch: gradients are summed in the last one alone."""
    alone = isinstance(model, DistributedDataParallel) and not last
    context: AbstractContextManager[None] = model.no_sync() if alone else nullcontext()
    return context


def mixed_precision(request: Request) -> AbstractContextManager[object]:
    """Around the forward of a runtime that has it: matrix products in 2 bytes."""
    if not request.inputs.runtime.storage.autocast or request.full_precision:
        return nullcontext()
    return torch.autocast("cpu", dtype=HALF[request.inputs.recipe.half])

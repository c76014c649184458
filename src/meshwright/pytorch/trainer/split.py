"""Split: context, tensor, sequence and expert parallelism of a decoder, by torch.distributed.

Context parallelism is ring attention around the same attention operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.experimental._attention import set_rotate_method
from torch.distributed.tensor.experimental._context_parallel import _attention
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from meshwright.layout.plan import Plan
from meshwright.pytorch.trainer.experts import MixtureOfExperts
from meshwright.pytorch.trainer.kernels import attend, attend_backward
from meshwright.pytorch.trainer.mesh import Meshes
from meshwright.pytorch.trainer.model import Decoder
from meshwright.specs.choices import ContextExchange
from meshwright.specs.runtime import Runtime

SEQUENCE = 2
"""The dimension of queries, keys and values that a ring splits."""
INTO = tuple(f"attention.projections.{name}" for name in ("query", "key", "value", "joined"))
COLUMNS = (*INTO, "feed_forward.gate", "feed_forward.up")
ROWS = ("attention.output", "feed_forward.down")


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, query: Tensor, key: Tensor, value: Tensor, group: ProcessGroup) -> Tensor:
        out, sums = _attention._templated_ring_attention(
            group, SEQUENCE, attend, query=query, key=key, value=value, is_causal=True
        )
        context.group = group
        context.save_for_backward(query, key, value, out, sums)
        return out

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, out, sums = context.saved_tensors
        gradients = _attention._templated_ring_attention_backward(
            context.group,
            SEQUENCE,
            attend_backward,
            grad_out=gradient,
            grad_out_name="grad_out",
            query=query,
            key=key,
            value=value,
            out=out,
            logsumexp=sums,
            is_causal=True,
        )
        return *gradients[:3], None


class RingCore(nn.Module):
    """An attention core whose keys and values go round, or are gathered."""

    def __init__(self, group: ProcessGroup) -> None:
        super().__init__()
        self.group = group

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """(batch, heads, tokens, width) each, of the rank's part of the sequence."""
        return ring_attention(query, key.contiguous(), value.contiguous(), self.group)


def ring_attention(query: Tensor, key: Tensor, value: Tensor, group: ProcessGroup) -> Tensor:
    """Attention over a sequence that the ranks of a group share, (batch, heads, tokens, width) each."""
    return _Ring.apply(query, key, value, group)


def split_sequence(decoder: Decoder, plan: Plan, meshes: Meshes) -> None:
    """Put ring attention in place of every layer's core."""
    set_rotate_method("alltoall" if plan.context_exchange == ContextExchange.RING else "allgather")
    for layer in decoder.layers:
        layer.attention.core = RingCore(meshes.sequence.get_group("cp"))  # type: ignore[union-attr]


def split_tensors(decoder: Decoder, mesh: DeviceMesh, runtime: Runtime, *, sequence: bool) -> None:
    """Split a decoder's weights over the tensor-parallel ranks, and its residual stream where `sequence` says so."""
    residual = Shard(1) if sequence else Replicate()
    read = Replicate() if runtime.entropy.sequence_pieces > 1 else residual
    ends: dict[str, ParallelStyle] = {
        "head": ColwiseParallel(input_layouts=read, output_layouts=Shard(-1), use_local_output=False),
    }
    if decoder.embedding is not None:
        distribute_module(decoder.embedding, mesh, _placing(Shard(0)))
        decoder.embedding.placements = (residual,)
    if sequence:
        ends["norm"] = SequenceParallel()
    _parallelize(decoder, mesh, ends)
    if not runtime.sharding.parts_tied_embedding:
        decoder.tie()
    once = runtime.communication.sums_shared_input_once
    for layer in decoder.layers:
        _parallelize(layer, mesh, _styles(layer, sequence=sequence, once=once))


def _styles(layer: nn.Module, *, sequence: bool, once: bool) -> dict[str, ParallelStyle]:
    """once: without a split sequence the gradient of what several products read is summed once."""
    styles: dict[str, ParallelStyle] = {name: ColwiseParallel() for name in COLUMNS}
    head_norm = SequenceParallel(sequence_dim=2, use_local_output=True)
    styles |= {"attention.query_norm": head_norm, "attention.key_norm": head_norm}
    if not sequence:
        shared: dict[str, ParallelStyle] = {name: RowwiseParallel() for name in ROWS}
        if once:
            whole = PrepareModuleInput(input_layouts=(Replicate(),), desired_input_layouts=(Replicate(),))
            shared |= {"attention": whole, "feed_forward": whole}
        return styles | shared
    gathers = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    styles |= {name: RowwiseParallel(output_layouts=Shard(1)) for name in ROWS}
    styles |= {name: SequenceParallel() for name in ("attention_norm", "feed_forward_norm")}
    styles["attention"] = gathers
    return styles if isinstance(layer.feed_forward, MixtureOfExperts) else styles | {"feed_forward": gathers}


def _parallelize(module: nn.Module, mesh: DeviceMesh, styles: dict[str, ParallelStyle]) -> None:
    present = {name for name, _ in module.named_modules()}
    parallelize_module(module, mesh, {name: style for name, style in styles.items() if name in present})


def split_experts(block: MixtureOfExperts, plan: Plan, meshes: Meshes) -> None:
    """Give every rank of ep its experts; the router is whole on every rank, replicated over tp."""
    if plan.tp > 1:
        distribute_module(block.router, meshes.dense["tp"], _placing(Replicate()))
        block.router.sees_a_part = plan.sp
    if plan.ep > 1:
        mesh = meshes.experts["ep"]  # type: ignore[index]
        distribute_module(block.experts, mesh, _placing(Shard(0)))
        block.exchange_over(mesh.get_group())
    elif plan.tp > 1:
        distribute_module(block.experts, meshes.dense["tp"], _placing(Replicate()))


def _placing(placement: Placement) -> Callable[[str, nn.Module, DeviceMesh], None]:
    """What places every weight of a module so over a mesh."""

    def place(_: str, module: nn.Module, mesh: DeviceMesh) -> None:
        for name, weight in [*module.named_parameters(recurse=False)]:
            module.register_parameter(name, nn.Parameter(distribute_tensor(weight, mesh, [placement])))

    return place

"""Context parallelism: ring attention of torch.distributed, around the same attention operator."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.tensor.experimental._attention import set_rotate_method
from torch.distributed.tensor.experimental._context_parallel import _attention

from meshwright.layout.plan import ContextExchange, Plan
from meshwright.pytorch.trainer.kernels import attend, attend_backward
from meshwright.pytorch.trainer.mesh import Meshes
from meshwright.pytorch.trainer.model import Decoder

HEADS, SEQUENCE = 1, 2


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
        return _Ring.apply(query, key.contiguous(), value.contiguous(), self.group)


def split_sequence(decoder: Decoder, plan: Plan, meshes: Meshes) -> None:
    """Put ring attention in place of every layer's core."""
    set_rotate_method("alltoall" if plan.context_exchange == ContextExchange.RING else "allgather")
    for layer in decoder.layers:
        layer.attention.core = RingCore(meshes.sequence.get_group("cp"))  # type: ignore[union-attr]

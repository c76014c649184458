"""Kernels: stand-ins for what CUDA has fused and a CPU build decomposes, with the same outputs and saved tensors.

Each is one operator, so that a fake tensor allocates what the CUDA kernel would and nothing beside it; its body
computes the real thing, for processes that train.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial

EPSILON = 1e-5


@torch.library.custom_op("meshwright::rms_norm", mutates_args=())
def _norm(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    rstd = x.float().square().mean(-1, keepdim=True).add(EPSILON).rsqrt()
    return (x.float() * rstd * weight.float()).to(x.dtype), rstd


@_norm.register_fake
def _(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    return torch.empty_like(x), x.new_empty((*x.shape[:-1], 1), dtype=torch.float32)


@torch.library.custom_op("meshwright::rms_norm_backward", mutates_args=())
def _norm_backward(gradient: Tensor, x: Tensor, weight: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
    scaled, normed = gradient.float() * weight.float(), x.float() * rstd
    inner = (scaled * normed).mean(-1, keepdim=True)
    of_weight = (gradient.float() * normed).reshape(-1, x.shape[-1]).sum(0)
    return (rstd * (scaled - normed * inner)).to(x.dtype), of_weight.to(weight.dtype)


@_norm_backward.register_fake
def _(gradient: Tensor, x: Tensor, weight: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    return torch.empty_like(x), torch.empty_like(weight)


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor) -> Tensor:
        y, rstd = _norm(x, weight)
        context.save_for_backward(x, weight, rstd)
        return y

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        return _norm_backward(gradient.contiguous(), *context.saved_tensors)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """RMS norm over the last dimension, keeping x, weight and one fp32 number a row for backward.

    x: plain, or a DTensor that is sharded along another dimension; weight: then replicated, its gradient partial.
    """
    if not isinstance(x, DTensor):
        return _RmsNorm.apply(x, weight)
    pieces = Partial() if any(placement.is_shard() for placement in x.placements) else None
    placed = weight.to_local(grad_placements=[pieces or placement for placement in weight.placements])
    return DTensor.from_local(_RmsNorm.apply(x.to_local(), placed), x.device_mesh, x.placements, run_check=False)


@torch.library.custom_op("meshwright::layer_norm", mutates_args=())
def _layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    whole = x.float()
    mean, rstd = whole.mean(-1, keepdim=True), whole.var(-1, unbiased=False, keepdim=True).add(EPSILON).rsqrt()
    normed = (whole - mean) * rstd * weight.float() + bias.float()
    return normed.to(x.dtype), torch.cat([mean, rstd], dim=-1)


@_layer_norm.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    return torch.empty_like(x), x.new_empty((*x.shape[:-1], 2), dtype=torch.float32)


@torch.library.custom_op("meshwright::layer_norm_backward", mutates_args=())
def _layer_norm_backward(
    gradient: Tensor, x: Tensor, weight: Tensor, statistics: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    mean, rstd = statistics[..., :1], statistics[..., 1:]
    scaled, normed = gradient.float() * weight.float(), (x.float() - mean) * rstd
    inner = normed * (scaled * normed).mean(-1, keepdim=True) + scaled.mean(-1, keepdim=True)
    of_weight, of_bias = (
        part.reshape(-1, x.shape[-1]).sum(0).to(weight.dtype) for part in (gradient.float() * normed, gradient.float())
    )
    return (rstd * (scaled - inner)).to(x.dtype), of_weight, of_bias


@_layer_norm_backward.register_fake
def _(
    gradient: Tensor,  # noqa: ARG001
    x: Tensor,
    weight: Tensor,
    statistics: Tensor,  # noqa: ARG001
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        y, statistics = _layer_norm(x, weight, bias)
        context.save_for_backward(x, weight, statistics)
        return y

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return _layer_norm_backward(gradient.contiguous(), *context.saved_tensors)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Layer norm over the last dimension, keeping x, weight and two fp32 numbers a row for backward."""
    return _LayerNorm.apply(x, weight, bias)


@torch.library.custom_op("meshwright::flash_attention", mutates_args=())
def attend(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp, in the form that ring attention of torch.distributed calls."""
    scores = _scores(query, key, is_causal)
    logsumexp = scores.logsumexp(-1)
    out = (scores - logsumexp.unsqueeze(-1)).exp() @ _repeated(value, query).float()
    return _token_major(out.to(query.dtype)), logsumexp


@attend.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    out = query.new_empty((*query.shape[:-1], value.shape[-1]))
    return _token_major(out), query.new_empty(query.shape[:-1], dtype=torch.float32)


@torch.library.custom_op("meshwright::flash_attention_backward", mutates_args=())
def attend_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor, is_causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value, in the form that ring attention of torch.distributed calls."""
    weights, gradient = (_scores(query, key, is_causal) - logsumexp.unsqueeze(-1)).exp(), grad_out.float()
    of_value = weights.transpose(-1, -2) @ gradient
    of_weights = gradient @ _repeated(value, query).float().transpose(-1, -2)
    of_scores = weights * (of_weights - (gradient * out.float()).sum(-1, keepdim=True)) / math.sqrt(query.shape[-1])
    of_query = of_scores @ _repeated(key, query).float()
    of_key = of_scores.transpose(-1, -2) @ query.float()
    return tuple(map(_token_major, (of_query.to(query.dtype), _summed(of_key, key), _summed(of_value, value))))


@attend_backward.register_fake
def _(
    grad_out: Tensor,  # noqa: ARG001
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,  # noqa: ARG001
    logsumexp: Tensor,  # noqa: ARG001
    is_causal: bool,  # noqa: ARG001
) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(_token_major(part.new_empty(part.shape)) for part in (query, key, value))


def _token_major(x: Tensor) -> Tensor:
    """(batch, heads, tokens, width), laid out by tokens before heads, as flash attention lays out what it writes."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _scores(query: Tensor, key: Tensor, causal: bool) -> Tensor:
    scores = query.float() @ _repeated(key, query).float().transpose(-1, -2) / math.sqrt(query.shape[-1])
    if not causal:
        return scores
    visible = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
    return scores.masked_fill(~visible, -torch.inf)


def _repeated(part: Tensor, query: Tensor) -> Tensor:
    """Key or value heads, each as often as query heads share it."""
    return part.repeat_interleave(query.shape[1] // part.shape[1], dim=1)


def _summed(gradient: Tensor, part: Tensor) -> Tensor:
    """The inverse of `_repeated` for gradients."""
    batch, heads, length, width = part.shape
    return gradient.reshape(batch, heads, -1, length, width).sum(2).to(part.dtype)


class _Flash(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        out, logsumexp = attend(query, key, value, True)
        context.save_for_backward(query, key, value, out, logsumexp)
        return out

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return attend_backward(gradient, *context.saved_tensors, True)


def flash_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention that keeps its operands, its output and 4 bytes a row and head for backward.

    query, key, value: (batch, heads, tokens, width), of key and value as many heads as divide those of the query.
    """
    return _Flash.apply(query, key, value)


ATTEND = torch.ops.meshwright.flash_attention.default

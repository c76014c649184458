"""Compute time of one transformer layer on one rank, for one micro-batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.cost.compute.attention import eager_attention_time, fused_attention_time
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.gemm import gemm_time
from meshwright.cost.compute.work import NO_WORK, Work
from meshwright.cost.shard import Shard, dense_feed_forward, layer_shard
from meshwright.layout.plan import Recompute
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


class Gemm(NamedTuple):
    """Seconds of the three products of one linear layer."""

    forward: Floats
    input_gradient: Floats
    weight_gradient: Floats


class LayerTime(NamedTuple):
    """Compute seconds of one layer for one micro-batch."""

    forward: Work
    backward: Work
    recompute: Work
    """What the backward pass computes again, before it."""
    column_input_gradient: tuple[Floats, Floats]
    """Input-gradient products of the attention's and the feed-forward's first linear layer: windows for overlap."""
    column_weight_gradient: tuple[Floats, Floats]
    """Weight-gradient products of the same two."""


def layer_time(plan: Layout, inputs: Inputs, kind: LayerKind) -> LayerTime:
    """Forward, backward and recomputed compute of one layer of a kind.

    The four linear layers (forward, input gradient, weight gradient each), the attention core, and the traffic of
    norms, rotary positions, activation and residual sums. Full recomputation runs the forward pass again, selective
    the attention core (Korthikanti et al., arXiv:2205.05198, section 5).
    plan: scalar or array (n,). Returns seconds.
    """
    shard = layer_shard(plan, inputs, kind)
    hidden, block = inputs.model.hidden_size, dense_feed_forward(kind)
    first_width = (2 if block.gated else 1) * shard.ffn
    qkv = linear_time(shard.tokens, shard.qkv, hidden, inputs)
    output = linear_time(shard.tokens, hidden, shard.core, inputs)
    up = linear_time(shard.tokens, first_width, hidden, inputs)
    down = linear_time(shard.tokens, hidden, shard.ffn, inputs)
    attention = _attention_time(plan, inputs, kind, shard)
    forward_bytes, backward_bytes = _elementwise_bytes(inputs, kind, shard)
    accelerator = inputs.cluster.accelerator
    linears = (qkv, output, up, down)
    forward = Work(sum(each.forward for each in linears), attention[0], elementwise_time(forward_bytes, accelerator))
    gradients = sum(each.input_gradient + each.weight_gradient for each in linears)
    backward = Work(gradients, attention[1], elementwise_time(backward_bytes, accelerator))
    full, selective = plan.recompute == Recompute.FULL, plan.recompute == Recompute.SELECTIVE
    again = forward.where(full).plus(NO_WORK._replace(attention=np.where(selective, attention[0], 0.0)))
    derate = inputs.cluster.site_derate
    return LayerTime(
        forward.scaled(derate),
        backward.scaled(derate),
        again.scaled(derate),
        (qkv.input_gradient * derate, up.input_gradient * derate),
        (qkv.weight_gradient * derate, up.weight_gradient * derate),
    )


def linear_time(tokens: Ints, outputs: Ints, features: Ints, inputs: Inputs) -> Gemm:
    """The three products of a linear layer of `features` to `outputs` on `tokens` rows.

    Weight gradients accumulate in fp32, slower by the runtime's factor.
    tokens, outputs, features: elements, scalar or array (n,). Returns seconds.
    """
    accelerator, peak = inputs.cluster.accelerator, inputs.peak_flops
    return Gemm(
        gemm_time(tokens, outputs, features, accelerator, peak),
        gemm_time(tokens, features, outputs, accelerator, peak),
        gemm_time(outputs, features, tokens, accelerator, peak) * inputs.runtime.weight_gradient_slowdown,
    )


def _attention_time(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> tuple[Floats, Floats]:
    attention, accelerator = kind.attention, inputs.cluster.accelerator
    sequence, batch = inputs.job.sequence_length, plan.micro_batch
    if inputs.runtime.attention_kernel == "eager":
        widths = attention.head_dim, attention.value_head_dim
        return eager_attention_time(batch, shard.heads, *widths, sequence, accelerator, inputs.peak_flops)
    width = attention.head_dim + attention.value_head_dim
    forward = fused_attention_time(
        batch, shard.heads, width, sequence, attention.window, accelerator, inputs.peak_flops
    )
    return forward, forward * accelerator.kernels.attention.backward_ratio


def _elementwise_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> tuple[Floats, Floats]:
    """Bytes that fused element-wise kernels read and write, forward and backward.

    Per 2-byte element: a norm 4 and 6, a residual sum with its bias 6 and 6, rotary positions 4 and 4, a query-key
    norm 4 and 6, a gated activation 6 and 10 per FFN element, a plain one 4 and 6.
    """
    residual = shard.residual_tokens * inputs.model.hidden_size
    rotated = shard.tokens * (shard.query + shard.key) * (0 if inputs.model.learned_positions else 1)
    normed = shard.tokens * (shard.query + shard.key) * (0 if kind.attention.qk_norm == "none" else 1)
    inner = shard.tokens * shard.ffn
    sums = 1 if kind.parallel_residual else 2
    gated = dense_feed_forward(kind).gated
    forward = (4 * kind.norms + 6 * sums) * residual + 4 * rotated + 4 * normed + (6 if gated else 4) * inner
    backward = (6 * kind.norms + 6 * sums) * residual + 4 * rotated + 6 * normed + (10 if gated else 6) * inner
    return forward, backward

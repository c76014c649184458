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
from meshwright.layout.groups import context_split
from meshwright.layout.plan import ContextExchange, Recompute
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.traffic import Passes


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
    copied, merged = _context_bytes(plan, inputs, shard)
    forward_bytes, backward_bytes = forward_bytes + copied, backward_bytes + merged
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
        whole = eager_attention_time(batch, shard.heads, *widths, sequence, accelerator, inputs.peak_flops)
        return whole[0] / plan.cp, whole[1] / plan.cp
    width = attention.head_dim + attention.value_head_dim
    split = context_split(plan, inputs)
    kernels = np.where(np.equal(plan.context_exchange, ContextExchange.ALL_GATHER), 1, split.ring)
    heads, shape = shard.heads / split.heads, (width, sequence, attention.window)
    forward = fused_attention_time(batch, heads, *shape, accelerator, inputs.peak_flops, split.ring, kernels)
    if inputs.runtime.attention_kernel != "newest":
        forward = forward * accelerator.kernels.attention.older[inputs.runtime.attention_kernel]
    return forward, forward * accelerator.kernels.attention.backward_ratio


def _elementwise_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> tuple[Floats, Floats]:
    """Bytes that the runtime's element-wise kernels read and write, forward and backward."""
    traffic, gated = inputs.runtime.traffic, dense_feed_forward(kind).gated
    residual = 1.0 * shard.residual_tokens * inputs.model.hidden_size
    turned = 1.0 * shard.tokens * (shard.query + shard.key)
    pieces = [
        (_norm_traffic(inputs), kind.norms * residual),
        (traffic.residual, (1 if kind.parallel_residual else 2) * residual),
        (traffic.rotary, (0 if inputs.model.learned_positions else 1) * turned),
        (traffic.rms_norm, (0 if kind.attention.qk_norm == "none" else 1) * turned),
        (traffic.gated_activation if gated else traffic.plain_activation, 1.0 * shard.tokens * shard.ffn),
    ]
    forward = sum(passes.forward * elements for passes, elements in pieces)
    backward = sum(passes.backward * elements for passes, elements in pieces)
    return forward, backward + _gradient_bytes(inputs, kind, shard)


def _context_bytes(plan: Layout, inputs: Inputs, shard: Shard) -> tuple[Floats, Floats]:
    """Bytes that context parallelism moves on the device, forward and backward.

    A ring adds every piece's output to what it has in fp32, 5 bytes an element because half of the rows take part (in
    backward the gradients of queries, keys and values); an all-to-all copies its buffers before and after.
    """
    split, tokens = context_split(plan, inputs), 1.0 * shard.tokens
    rings = np.where(np.equal(plan.context_exchange, ContextExchange.ALL_GATHER), 0, split.ring - 1)
    keys = shard.key + shard.value
    swapped = np.where(np.greater(split.heads, 1), 8 * tokens * (shard.query + shard.core + keys), 0.0)
    merged = 5 * tokens * rings
    return swapped + merged * shard.core, swapped + merged * (shard.query + keys)


def _gradient_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Bytes moved around the products in backward: bias gradients, gradients of fused or separate projections."""
    traffic, block, hidden = inputs.runtime.traffic, dense_feed_forward(kind), inputs.model.hidden_size
    width = (2 if block.gated else 1) * shard.ffn
    biased = kind.attention.qkv_bias * shard.qkv + kind.attention.output_bias * hidden + block.bias * (width + hidden)
    if inputs.runtime.fused_projections:
        joined = traffic.split_gradient * (shard.qkv + (width if block.gated else 0))
    else:
        joined = traffic.summed_gradient * hidden * (3 if block.gated else 2)
    return 1.0 * shard.tokens * (traffic.bias_gradient * biased + joined)


def _norm_traffic(inputs: Inputs) -> Passes:
    traffic = inputs.runtime.traffic
    return traffic.rms_norm if inputs.model.norm == "rms" else traffic.layer_norm

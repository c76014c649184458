"""Compute time of one transformer layer on one rank, for one micro-batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats
from meshwright.cost.compute.attention import (
    backward_over_forward,
    computed_head,
    eager_attention_time,
    fused_attention_time,
    measured_widths,
    padding_bytes,
)
from meshwright.cost.compute.elementwise import elementwise_time, moved_bytes, repeated_bytes, residual_sum_bytes
from meshwright.cost.compute.experts import ExpertTime, expert_time
from meshwright.cost.compute.linear import NO_GEMM, Gemm, linear_time, projections
from meshwright.cost.compute.slowdown import older_attention_slowdown, slowdown, sustained_attention_slowdown
from meshwright.cost.compute.work import Work
from meshwright.cost.repeated import Repeated, repeated_parts
from meshwright.cost.shapes import on_shapes
from meshwright.cost.shard import Shard, dense_block, layer_shard
from meshwright.distinct import combined
from meshwright.layout.groups import context_split
from meshwright.layout.plan import ContextExchange, Recompute
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind

LINEAR_SHAPE = ("tp", "sp", "cp", "micro_batch")
"""The fields of a plan on which the sizes of its linear layers depend."""


class LayerTime(NamedTuple):
    """Compute seconds of one layer for one micro-batch."""

    forward: Work
    backward: Work
    recompute: Work
    """What the backward pass computes again, before it."""
    weight_gradient: Floats
    """Of the backward pass, the products that make gradients of weights."""
    columns: tuple[Gemm, Gemm]
    """Column-parallel products into the attention core and the feed-forward block: windows for overlap."""


def layer_time(plan: Layout, inputs: Inputs, kind: LayerKind) -> LayerTime:
    """Forward, backward and recomputed compute of one layer of a kind.

    Its linear layers (forward, input gradient, weight gradient each), the attention core, the experts, and the traffic
    of everything element-wise. Full recomputation runs the forward pass again, in some runtimes only as far as backward
    reads it (`_until_last_product`); selective that of the plan's modules (Korthikanti et al., arXiv:2205.05198,
    section 5; `repeated_parts`).
    plan: scalar or array (n,). Returns seconds.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.examples import LLAMA
    >>> layer = layer_time(Plan(tp=8, sp=True), LLAMA, LLAMA.model.layer_kinds[0])
    >>> [round(float(work.total) * 1e3, 2) for work in (layer.forward, layer.backward, layer.recompute)]
    [0.97, 2.03, 0.0]
    """
    shard, accelerator = layer_shard(plan, inputs, kind), inputs.cluster.accelerator
    linears, experts = projections(inputs, kind, shard), expert_time(plan, inputs, kind)
    into, block, others = on_shapes(lambda shapes: _linear_times(shapes, inputs, kind), plan, *LINEAR_SHAPE)
    products = _total((into, *block, *others, *experts.products))
    attention = _attention_time(plan, inputs, kind, shard)
    traffic = moved_bytes(plan, inputs, kind, shard, linears)
    passes = elementwise_time(traffic.forward + experts.forward_bytes, accelerator) + experts.fixed_forward
    forward = Work(products.forward, attention[0], passes)
    passes = elementwise_time(traffic.backward + experts.backward_bytes, accelerator) + experts.fixed_backward
    backward = Work(products.backward, attention[1], passes)
    repeated = repeated_parts(plan, kind)
    bytes_again = repeated_bytes(repeated, inputs, kind, shard, linears) + _expert_bytes(repeated, experts)
    gemm = _repeated_products(repeated, into, block, experts)
    passes = elementwise_time(bytes_again, accelerator) + repeated.experts * experts.fixed_forward
    selective = Work(gemm, repeated.core * attention[0], passes)
    whole = forward
    if inputs.runtime.activations.checkpoint_stops_early and not kind.is_moe:
        residual_sum = elementwise_time(residual_sum_bytes(inputs, shard), accelerator)
        whole = _until_last_product(forward, block[-1], residual_sum)
    if inputs.runtime.activations.selective_recompute == "every_second_product":
        chosen = plan.recompute == Recompute.SELECTIVE
        selective = _every_second_product(inputs, kind, shard, (into, block, others), forward, experts).where(chosen)
    again = whole.where(plan.recompute == Recompute.FULL).plus(selective)
    time = LayerTime(
        forward=forward,
        backward=backward,
        recompute=again,
        weight_gradient=products.weight_gradient,
        columns=(into, block[0] if block else NO_GEMM),
    )
    return combined(lambda seconds: seconds * slowdown(inputs), time)


def _linear_times(plan: Layout, inputs: Inputs, kind: LayerKind) -> tuple[Gemm, tuple[Gemm, ...], tuple[Gemm, ...]]:
    """Of the products into the attention core together, of the dense block, and of the others."""
    linears = projections(inputs, kind, layer_shard(plan, inputs, kind))
    into, block, others = (
        tuple(linear_time(*each, inputs) for each in group)
        for group in (linears.attention, linears.feed_forward, (linears.output, *linears.down))
    )
    return _total(into), block, others


def _until_last_product(forward: Work, last: Gemm, residual_sum: Floats) -> Work:
    """The forward pass of a dense layer without its last product and the sum behind it.

    A checkpoint that stops early ends when backward has the last input that it reads, which is that product's.
    residual_sum: seconds of one sum. Returns seconds. Source: torch 2.1, utils/checkpoint.py
    (`_StopRecomputationError`).
    """
    return forward._replace(gemm=forward.gemm - last.forward, elementwise=forward.elementwise - residual_sum)


def _every_second_product(
    inputs: Inputs,
    kind: LayerKind,
    shard: Shard,
    linears: tuple[Gemm, tuple[Gemm, ...], tuple[Gemm, ...]],
    forward: Work,
    experts: ExpertTime,
) -> Work:
    """What selective recomputation by products computes again: of the products in order (q, k, v, which may be one,
    output, gate, up, down) every second one, routed experts, and everything element-wise but the last sum; of latent
    attention half of the products.

    shard: sizes on the rank; linears: products into attention, of the dense block and others; forward: of the layer.
    Returns seconds. Source: torchtitan 0.3.0, distributed/activation_checkpoint.py L254-268; products of a compiled
    block counted with PyTorch 2.13 (two of five, or three of seven).
    """
    into, block, others = linears
    parts = [shard.query, shard.key, shard.value]
    apart: list[Floats] = [into.forward * part / sum(parts) for part in parts]
    apart = [into.forward] if inputs.fuses_qkv(kind.attention) else apart
    products: list[Floats] = [*apart, others[0].forward]
    if kind.attention.latent is not None:
        products = [0.0, 0.5 * (into.forward + sum(each.forward for each in others))]
    dense = dense_block(kind)
    if dense:
        first = [block[0].forward / 2] * 2 if dense.gated else [block[0].forward]
        products += [*first, block[1].forward]
    again = sum(products[1::2]) + sum(each.forward for each in experts.products)
    residual_sum = elementwise_time(residual_sum_bytes(inputs, shard), inputs.cluster.accelerator)
    return forward._replace(gemm=again, attention=0.0 * again, elementwise=forward.elementwise - residual_sum)


def _repeated_products(repeated: Repeated, into: Gemm, block: tuple[Gemm, ...], experts: ExpertTime) -> Floats:
    """Seconds of the forward products that selective recomputation repeats."""
    dense, routed = (sum(each.forward for each in group) for group in (block, experts.products))
    return repeated.expansion * into.forward + repeated.block * dense + repeated.experts * routed


def _expert_bytes(repeated: Repeated, experts: ExpertTime) -> Floats:
    """Bytes around the experts that selective recomputation moves again."""
    return repeated.experts * experts.forward_bytes + repeated.activation * experts.activation_bytes


def _total(products: tuple[Gemm, ...]) -> Gemm:
    return combined(lambda *seconds: sum(seconds), *products)


def _attention_time(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> tuple[Floats, Floats]:
    attention, accelerator, peak = kind.attention, inputs.cluster.accelerator, inputs.half_peak_flops
    sequence, batch = inputs.job.sequence_length, plan.micro_batch
    if inputs.runtime.kernels.attention_kernel == "eager":
        widths = attention.head_dim, attention.value_head_dim
        scores = inputs.runtime.elementwise_bytes.attention_scores
        whole = eager_attention_time(batch, shard.heads, *widths, sequence, accelerator, peak, scores)
        return whole[0] / plan.cp, whole[1] / plan.cp
    constants, factor = accelerator.kernels.attention, older_attention_slowdown(inputs)
    softmax, older, multiple = constants.softmax_width, 1.0, constants.head_multiple
    generation = inputs.runtime.kernels.attention_kernel
    if generation != "newest":
        older, softmax = constants.older[generation], constants.older_softmax_width
        multiple = constants.older_head_multiple
    factor = factor * older * sustained_attention_slowdown(inputs, older)
    widths = computed_head(attention.head_dim, multiple), computed_head(attention.value_head_dim, multiple)
    split = context_split(plan, inputs)
    kernels = np.where(np.equal(plan.context_exchange, ContextExchange.ALL_GATHER), 1, split.ring)
    heads, (width, _) = shard.heads / split.heads, measured_widths(sum(widths), softmax)
    shape = width, sequence, attention.window
    forward = factor * fused_attention_time(batch, heads, *shape, accelerator, peak, split.ring, kernels)
    ratios = constants.backward_ratio, constants.wide_backward
    padded = padding_bytes(attention.head_dim, attention.value_head_dim, shard, accelerator)
    padding = elementwise_time(padded, accelerator)
    return forward + padding, forward * backward_over_forward(*widths, softmax, *ratios) + padding

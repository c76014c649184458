"""Compute time of one transformer layer on one rank, for one micro-batch."""

from __future__ import annotations

import operator
from typing import NamedTuple

from meshwright.arrays import Floats, some, where
from meshwright.cost.compute.adapters import adapter_traffic, beside_frozen
from meshwright.cost.compute.attention_core import attention_time
from meshwright.cost.compute.elementwise import elementwise_time, moved_bytes, repeated_bytes, residual_sum_bytes
from meshwright.cost.compute.experts import ExpertTime, expert_time
from meshwright.cost.compute.filling import filled_bytes
from meshwright.cost.compute.linear import (
    NO_GEMM,
    Gemm,
    Products,
    projection_times,
    projections,
    runtime_products,
)
from meshwright.cost.compute.parts import NO_KERNELS, NO_TIME, NONE, ExpertParts, Kernels, LayerParts, TimedKernels
from meshwright.cost.compute.quantising import quantised_weights
from meshwright.cost.compute.slowdown import slowdown
from meshwright.cost.compute.work import NO_WORK, Work
from meshwright.cost.kept_products import kept_products
from meshwright.cost.repeated import Repeated, repeated_parts
from meshwright.cost.shapes import on_shapes
from meshwright.cost.shard import Shard, layer_shard
from meshwright.distinct import combined
from meshwright.layout.plans import Layout
from meshwright.specs.choices import Recompute
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
    forward_parts: LayerParts[TimedKernels]
    """What adds up to `forward`; the others likewise."""
    backward_parts: LayerParts[TimedKernels]
    recompute_parts: LayerParts[TimedKernels]


def layer_time(plan: Layout, inputs: Inputs, kind: LayerKind) -> LayerTime:
    """Forward, backward and recomputed compute of one layer of a kind.

    Its linear layers (forward, input gradient, weight gradient each), the attention core, the experts, and the traffic
    of everything element-wise. Full recomputation runs the forward pass again, in some runtimes only as far as backward
    reads it (`_until_last_product`); selective that of the plan's modules (Korthikanti et al., arXiv:2205.05198,
    section 5; `repeated_parts`).
    plan: scalar or array (n,). Returns seconds.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> layer = layer_time(Plan(tp=8, sp=True), LLAMA, LLAMA.model.layer_kinds[0])
    >>> [round(float(work.total) * 1e3, 2) for work in (layer.forward, layer.backward, layer.recompute)]
    [1.0, 2.09, 0.0]
    """
    shard = layer_shard(plan, inputs, kind)
    linears, experts = projections(inputs, kind, shard), expert_time(plan, inputs, kind)
    into, block, others = on_shapes(lambda shapes: _linear_times(shapes, inputs, kind), plan, *LINEAR_SHAPE)
    around, inside, core = _total((*into, *others)), _total(block), attention_time(plan, inputs, kind, shard)
    traffic = moved_bytes(plan, inputs, kind, shard, linears)
    if inputs.freezes_weights:
        around, inside = beside_frozen(plan, (around, inside), inputs, kind, shard.tokens)
        traffic = traffic.plus(adapter_traffic(plan, inputs, kind, shard))
    if inputs.runtime.kernels.deterministic == "filled":
        traffic = traffic.plus(filled_bytes(inputs, kind, shard, linears))
    forward = LayerParts(
        attention=Kernels(around.forward, core[0], traffic.attention.forward),
        feed_forward=Kernels(inside.forward, moved_bytes=traffic.feed_forward.forward),
        routed=experts.forward,
    )
    backward = LayerParts(
        attention=Kernels(around.backward, core[1], traffic.attention.backward),
        feed_forward=Kernels(inside.backward, moved_bytes=traffic.feed_forward.backward),
        routed=experts.backward,
    )
    slower = slowdown(inputs)
    forward_time, backward_time, recompute_time = (
        _timed(parts, inputs, slower)
        for parts in (forward, backward, _recomputed(plan, inputs, kind, (into, block, others), forward, experts))
    )
    columns = _total(into), _total(block[:-1])
    if inputs.freezes_weights:
        columns = columns[0].frozen, columns[1].frozen
    weights = around.weight_gradient + inside.weight_gradient + experts.weight_gradient
    return LayerTime(
        forward=_total_work(forward_time),
        backward=_total_work(backward_time),
        recompute=_total_work(recompute_time),
        forward_parts=forward_time,
        backward_parts=backward_time,
        recompute_parts=recompute_time,
        weight_gradient=slower * weights,
        columns=combined(lambda seconds: slower * seconds, columns),
    )


def _timed(parts: LayerParts[Kernels], inputs: Inputs, slower: float) -> LayerParts[TimedKernels]:
    """The parts in seconds of a training step. slower: how much longer kernels take there, a share."""
    return LayerParts(
        _timed_kernels(parts.attention, inputs, slower),
        _timed_kernels(parts.feed_forward, inputs, slower),
        ExpertParts(*(_timed_kernels(part, inputs, slower) for part in parts.routed)),
    )


def _timed_kernels(kernels: Kernels, inputs: Inputs, slower: float) -> TimedKernels:
    if kernels is NONE:
        return NO_TIME
    passes = elementwise_time(kernels.moved_bytes, inputs.cluster.accelerator) + kernels.fixed_s
    return TimedKernels(Work(slower * kernels.gemm, slower * kernels.attention, slower * passes), kernels.moved_bytes)


def _recomputed(
    plan: Layout, inputs: Inputs, kind: LayerKind, products: Products, forward: LayerParts[Kernels], experts: ExpertTime
) -> LayerParts[Kernels]:
    """What backward computes again of a layer. products, forward, experts: of the layer."""
    if not some(plan.recompute):
        return NO_KERNELS
    shard, whole = layer_shard(plan, inputs, kind), forward
    routed = _without_unread(forward.routed, inputs)
    if kind.is_moe:
        whole = forward._replace(routed=routed)
    elif inputs.runtime.activations.checkpoints_modules:
        whole = _until_last_products(
            forward, products, residual_sum_bytes(inputs, shard), _last_weights(inputs, kind, shard)
        )
    elif inputs.runtime.activations.checkpoint_stops_early:
        weight, _ = _last_weights(inputs, kind, shard)
        whole = _until_last_product(forward, products[1][-1], residual_sum_bytes(inputs, shard), weight)
    full, selective = 1.0 * (plan.recompute == Recompute.FULL), plan.recompute == Recompute.SELECTIVE
    whole = combined(lambda part: full * part, whole)
    if not some(selective):
        return whole
    if inputs.runtime.activations.recomputes_by_product:
        again = _every_second_product(inputs, kind, shard, products, forward._replace(routed=routed))
        again = combined(lambda part: where(selective, part, 0.0), again)
    else:
        again = _repeated(repeated_parts(plan, kind), inputs, kind, shard, products, forward, experts)
    return combined(operator.add, whole, again)


def _without_unread(routed: ExpertParts[Kernels], inputs: Inputs) -> ExpertParts[Kernels]:
    """The parts of a layer of experts that are computed again, as the runtime's `recomputes_combine` has it."""
    whole = inputs.runtime.activations.recomputes_combine == "all"
    return routed if whole else routed._replace(unpermute=Kernels())


def _repeated(
    repeated: Repeated,
    inputs: Inputs,
    kind: LayerKind,
    shard: Shard,
    products: Products,
    forward: LayerParts[Kernels],
    experts: ExpertTime,
) -> LayerParts[Kernels]:
    """What selective recomputation computes again by the modules that the plan names."""
    into, block, _ = products
    moved = repeated_bytes(repeated, inputs, kind, shard, projections(inputs, kind, shard))
    mixture = ExpertParts(*(part.scaled(repeated.experts) for part in forward.routed))
    activation = mixture.experts.moved_bytes + repeated.activation * experts.activation_bytes
    return LayerParts(
        attention=Kernels(
            repeated.expansion * _total(into).forward, repeated.core * forward.attention.attention, moved.attention
        ),
        feed_forward=Kernels(
            repeated.block * sum((each.forward for each in block), 0.0), moved_bytes=moved.feed_forward
        ),
        routed=mixture._replace(experts=mixture.experts._replace(moved_bytes=activation)),
    )


def _linear_times(plan: Layout, inputs: Inputs, kind: LayerKind) -> Products:
    return projection_times(runtime_products(inputs, kind, layer_shard(plan, inputs, kind)), inputs)


def _last_weights(inputs: Inputs, kind: LayerKind, shard: Shard) -> tuple[Floats, Floats]:
    """Bytes that the forward pass moves to quantise the weights of a block's and of attention's last product."""
    linears = runtime_products(inputs, kind, shard)
    down, output = linears.feed_forward[-1:], (linears.output,)
    return quantised_weights(inputs, down).forward, quantised_weights(inputs, output).forward


def _until_last_product(
    forward: LayerParts[Kernels], last: Gemm, residual_sum: Floats, weight: Floats
) -> LayerParts[Kernels]:
    """The forward pass of a dense layer without its last product and the sum behind it.

    A checkpoint that stops early ends when backward has the last input that it reads, which is that product's.
    residual_sum: bytes of one sum; weight: bytes of quantising that product's. Returns seconds and bytes. Source: torch
    2.1, utils/checkpoint.py (`_StopRecomputationError`).
    """
    attention, block = forward.attention, forward.feed_forward
    return forward._replace(
        attention=attention._replace(moved_bytes=attention.moved_bytes - residual_sum),
        feed_forward=block._replace(gemm=block.gemm - last.forward, moved_bytes=block.moved_bytes - weight),
    )


def _until_last_products(
    forward: LayerParts[Kernels], products: Products, residual_sum: Floats, weights: tuple[Floats, Floats]
) -> LayerParts[Kernels]:
    """The forward pass of a dense layer without both sums and the products before them: checkpoints of attention and of
    the block each end when backward has the input of their last product.

    products: of the layer; residual_sum: bytes of one sum; weights: as of `_last_weights`. Returns seconds and bytes.
    Source: as of `_until_last_product`; NVIDIA-NeMo/Automodel@459cbccbb, MFSDP-llama3-70b-new/analysis_report.md: 26
    products of a layer and micro-batch, of which 7 are forward and 14 backward.
    """
    _, block, others = products
    down, output = weights
    stopped = _until_last_product(forward, block[-1], 2 * residual_sum, down)
    attention = stopped.attention
    return stopped._replace(
        attention=attention._replace(
            gemm=attention.gemm - others[0].forward, moved_bytes=attention.moved_bytes - output
        )
    )


def _every_second_product(
    inputs: Inputs, kind: LayerKind, shard: Shard, products: Products, forward: LayerParts[Kernels]
) -> LayerParts[Kernels]:
    """What selective recomputation by products computes again: of the products in order (q, k, v, output, gate, up,
    down, as they are fused) those that `kept_products` does not name, routed experts, and everything element-wise but
    the last sum and the weights of products that are kept; of latent attention half of the products; the attention core
    where the runtime does not keep what its kernel puts out.

    shard: sizes on the rank; products, forward: of the layer. Returns seconds and bytes. Source: torchtitan 0.3.0,
    distributed/activation_checkpoint.py L254-268; products of a compiled block counted with PyTorch 2.13 (two of five,
    or three of seven).
    """
    into, block, others = products
    again = not inputs.runtime.activations.keeps_attention_output
    linears = runtime_products(inputs, kind, shard)
    around: list[Floats] = [each.forward for each in (*into, others[0])]
    weights = [quantised_weights(inputs, (each,)).forward for each in (*linears.attention, linears.output)]
    if kind.attention.latent is not None:
        around = 2 * [0.5 * sum(each.forward for each in (*into, *others))]
        weights = 2 * [0.5 * (sum(weights) + quantised_weights(inputs, linears.down).forward)]
    seconds = [*around, *(each.forward for each in block)]
    weights += [quantised_weights(inputs, (each,)).forward for each in linears.feed_forward]
    kept, ends = kept_products(inputs, kind, len(around) - 1, len(block)), len(around)
    repeated = [0.0 if keeps else each for each, keeps in zip(seconds, kept, strict=True)]
    left = [each if keeps else 0.0 for each, keeps in zip(weights, kept, strict=True)]
    moved = forward.attention.moved_bytes - residual_sum_bytes(inputs, shard) - sum(left[:ends])
    inside = forward.feed_forward.moved_bytes - sum(left[ends:])
    return LayerParts(
        attention=Kernels(sum(repeated[:ends]), again * forward.attention.attention, moved),
        feed_forward=forward.feed_forward._replace(gemm=sum(repeated[ends:], 0.0), moved_bytes=inside),
        routed=forward.routed,
    )


def _total_work(parts: LayerParts[TimedKernels]) -> Work:
    return combined(lambda *seconds: sum(seconds), NO_WORK, *(part.work for part in parts.each if part is not NO_TIME))


def _total(products: tuple[Gemm, ...]) -> Gemm:
    return combined(lambda *seconds: sum(seconds), NO_GEMM, *products)

"""Compute time of a mixture of experts on one rank, for one micro-batch."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Bools, Floats, Ints, larger
from meshwright.cost.compute.accumulation import summed_bytes
from meshwright.cost.compute.alignment import ALIGNED
from meshwright.cost.compute.filling import filled_gradient_bytes, filled_row_bytes
from meshwright.cost.compute.grouped import grouped_time
from meshwright.cost.compute.linear import Gemm, Linear, linear_time, products_time
from meshwright.cost.compute.parts import NO_EXPERT_KERNELS, ExpertParts, Kernels
from meshwright.cost.compute.traffic import LayerTraffic
from meshwright.cost.routing import busiest_expert_rows, routed_experts, routed_rows
from meshwright.cost.shapes import on_shapes
from meshwright.cost.shard import routed_tokens
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Experts, LayerKind
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES
from meshwright.specs.quantised_weights import quantising_weights, transposed_bytes

MASKING_BYTES = 8
"""Moved per element by a mask that is not in place, and by its gradient: a copy, and a pass that fills. Source: torch
2.13, aten/src/ATen/native/cuda/Indexing.cu, masked_fill."""
LOOPED_BYTES = 8
"""Moved per element of all tokens for each expert that gathers its rows by itself, by the gradient of what it gathers:
zeros of the size of all tokens, and what is added to those of the experts before. Source: PyTorch 2.13, backward of
`hidden_states[None, rows]`: new_zeros, index_put_ and add, counted on a CPU."""
PADDING_BYTES = 8
"""Moved per element of the routed rows by two copies, in front of the products of experts and behind them: each
reads and writes 2 bytes. Source: the runtime's `pads_quantised_rows`."""
EXPERT_SHAPE = ("tp", "sp", "cp", "ep", "etp", "micro_batch")
"""The fields of a plan on which the sizes of its experts' layers depend."""


class ExpertShard(NamedTuple):
    """Sizes of one layer of experts on one rank, for one micro-batch."""

    tokens: Floats
    """That enter the layer."""
    rows: Floats
    """That its experts compute, on the busiest rank."""
    busiest_rows: Floats
    """Of them, those of the expert that most tokens choose."""
    experts: Ints
    """Held by the rank."""
    ffn: Ints
    """FFN size of one of them on the rank."""
    width: Ints
    """Outputs of its first product, gate and up together."""


class ExpertTime(NamedTuple):
    """What the parts of one layer of experts take in each pass."""

    forward: ExpertParts[Kernels]
    backward: ExpertParts[Kernels]
    weight_gradient: Floats
    """Of backward, seconds of the products that make gradients of weights."""
    activation_bytes: Floats
    """Of the forward bytes, the activation's and what quantises its product."""


NO_EXPERTS = ExpertTime(NO_EXPERT_KERNELS, NO_EXPERT_KERNELS, weight_gradient=0.0, activation_bytes=0.0)


def expert_shard(plan: Layout, inputs: Inputs, kind: LayerKind) -> ExpertShard:
    """Sizes of one layer of experts on the busiest rank: E / ep of them, each of f / etp, and their routed rows.

    plan: scalar or array (n,). Returns elements and counts. Source: `routed_rows`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> kind = MIXTRAL.model.layer_kinds[0]
    >>> [round(float(size)) for size in expert_shard(Plan(dp=8, ep=8), MIXTRAL, kind)]
    [4096, 10850, 10850, 1, 14336, 28672]
    """
    block, tokens = routed_experts(kind), routed_tokens(plan, inputs)
    ffn = block.ffn_size // plan.etp
    rows = routed_rows(plan, inputs, kind, tokens).hottest
    return ExpertShard(
        tokens=tokens,
        rows=rows,
        busiest_rows=busiest_expert_rows(plan, inputs, kind, tokens),
        experts=larger(block.count // plan.ep, 1),
        ffn=ffn,
        width=(2 if block.gated else 1) * ffn,
    )


def expert_time(plan: Layout, inputs: Inputs, kind: LayerKind) -> ExpertTime:
    """Router, grouped products and the passes around them, of one layer and micro-batch; nothing for a dense layer.

    The router runs in half precision or fp32, as the runtime says; it moves the runtime's bytes for each of T E scores
    each way. Permuting, weighing and summing R routed rows moves the runtime's bytes an element, and more with several
    experts a rank behind an all-to-all, half of that on each side; writing the tokens 2; some runtimes mask the rows,
    their inputs in place. A loop over experts writes the gradient of all tokens for each. Under autocast weights are
    cast as those of other products. The activation moves the runtime's bytes per element of R f, quantising the
    recipe's.
    plan: scalar or array (n,). Returns seconds and bytes. Source: Megatron-LM, core/transformer/moe: router.py,
    token_dispatcher.py, experts.py (TEGroupedMLP).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> kind = MIXTRAL.model.layer_kinds[0]
    >>> both, one = (expert_time(Plan(dp=8, ep=ep), MIXTRAL, kind) for ep in (4, 8))
    >>> bool(both.forward.permute.moved_bytes > one.forward.permute.moved_bytes)  # two experts a rank: rows are sorted
    True
    """
    if not kind.is_moe:
        return NO_EXPERTS
    block, shard, hidden = routed_experts(kind), expert_shard(plan, inputs, kind), inputs.model.hidden_size
    kernels, quantised = inputs.runtime.kernels, inputs.quantise_bytes
    router, first, second = on_shapes(lambda shapes: _products(shapes, inputs, kind), plan, *EXPERT_SHAPE)
    learned = not inputs.freezes_weights
    scores = inputs.runtime.elementwise_bytes.router_scores * shard.tokens * block.count
    count = 1.0 * shard.experts * hidden * (shard.width + shard.ffn)
    cast, passes = inputs.weight_cast_bytes, quantising_weights(inputs)
    inner = _between_products(inputs, block, shard)
    launch = inputs.cluster.accelerator.kernels.gemm.launch_s * inputs.recipe.quantises
    apart = 1.0 * launch * shard.experts * (kernels.expert_products == "each")
    quantising = kernels.expert_quantising_kernels
    written, permuted = _permuting(plan, inputs, shard)
    around = 1.0 * hidden * quantised + MASKING_BYTES * kernels.masks_routed_rows * (shard.width + hidden)
    around = around + filled_row_bytes(inputs, 2 * hidden + shard.width + shard.ffn)
    around = around + PADDING_BYTES * hidden * _pads_rows(plan, inputs)
    forward = count * (passes.forward + cast) + shard.rows * (inner.activation + inner.biases.forward + around)
    weights = passes.backward + cast + transposed_bytes(inputs)
    backward = weights * count + shard.rows * (inner.backward + inner.biases.backward + around)
    backward = backward + summed_bytes(plan, inputs, count) + learned * filled_gradient_bytes(inputs) * count
    return ExpertTime(
        forward=ExpertParts(
            router=Kernels(router.forward, moved_bytes=scores, fixed_s=kernels.routing_s.forward),
            permute=Kernels(moved_bytes=permuted[0].forward),
            experts=Kernels(first.forward + second.forward, moved_bytes=forward, fixed_s=apart * quantising.forward),
            unpermute=Kernels(moved_bytes=permuted[1].forward + written),
        ),
        backward=ExpertParts(
            router=Kernels(router.backward, moved_bytes=scores, fixed_s=kernels.routing_s.backward),
            permute=Kernels(moved_bytes=permuted[0].backward + written),
            experts=Kernels(
                first.backward + second.backward,
                moved_bytes=backward,
                fixed_s=apart * quantising.backward + learned * _bias_gradients_s(inputs, block, shard),
            ),
            unpermute=Kernels(moved_bytes=permuted[1].backward),
        ),
        weight_gradient=router.weight_gradient + first.weight_gradient + second.weight_gradient,
        activation_bytes=shard.rows * inner.activation,
    )


def dispatches_fused(plan: Layout, inputs: Inputs) -> Bools:
    """Whether a fused dispatcher sends tokens: it does to other ranks alone, and Megatron-core refuses it where a rank
    has all experts whole.

    plan: scalar or array (n,). Source: megatron/core/transformer/moe/token_dispatcher.py, MoEFlexTokenDispatcher.
    """
    return (plan.ep * plan.etp > 1) & (inputs.dispatcher == "fused")


def _pads_rows(plan: Layout, inputs: Inputs) -> Floats:
    """1 where rows of each expert are copied to a multiple that quantised products take, else 0."""
    kernels, hybrid = inputs.runtime.kernels, inputs.runtime.communication.fused_kernels == "hybrid_ep"
    uneven = inputs.expert_capacity is None and kernels.expert_products == "each" and inputs.recipe.quantises
    return (kernels.pads_quantised_rows and uneven) * (1.0 - hybrid * dispatches_fused(plan, inputs))


def _permuting(plan: Layout, inputs: Inputs, shard: ExpertShard) -> tuple[Floats, tuple[LayerTraffic, LayerTraffic]]:
    """Bytes to write the tokens, and to permute and to unpermute the routed rows in each pass."""
    kernels, hidden = inputs.runtime.kernels, inputs.model.hidden_size
    received_some = (plan.ep > 1) | kernels.sorts_own_rows
    fused, gathers = dispatches_fused(plan, inputs), inputs.dispatcher == "all_gather"
    sorted_again = (shard.experts > 1) & received_some & (not gathers) & (fused == 0)
    received, rows = kernels.received_rows, 1.0 * hidden * shard.rows
    indexed = kernels.indexed_rows * (1.0 - fused) * (1.0 + sorted_again)
    masked = MASKING_BYTES * kernels.masks_routed_rows * rows
    permute, unpermute = (
        LayerTraffic(
            rows * (each.forward + 0.5 * sorted_again * received.forward),
            rows * (each.backward + 0.5 * sorted_again * received.backward),
        )
        for each in (kernels.permuted_rows, kernels.unpermuted_rows)
    )
    weighed, apart = kernels.weighed_rows, 1.0 - fused
    unpermute = LayerTraffic(
        unpermute.forward + apart * weighed.forward * rows, unpermute.backward + apart * weighed.backward * rows
    )
    looped = (kernels.expert_products == "looped") * LOOPED_BYTES * shard.experts * hidden * shard.tokens
    permute = LayerTraffic(permute.forward + 0.5 * masked, permute.backward + masked + indexed * rows + looped)
    return 1.0 * HALF_BYTES * hidden * shard.tokens, (permute, unpermute)


def _bias_gradients_s(inputs: Inputs, block: Experts, shard: ExpertShard) -> Floats:
    """Seconds to sum both biases' gradients where each row has a copy. Of biases taken by index the rows of one expert
    are added one after the other, those of different experts and columns side by side; those of repeated biases are
    added atomically, which takes as long for every row.
    """
    kernels = inputs.runtime.elementwise_bytes
    seconds = kernels.indexed_bias_gradient_s * shard.busiest_rows + kernels.added_bias_gradient_s * shard.rows
    return 2 * block.bias * seconds


class _BetweenProducts(NamedTuple):
    """Bytes moved for each routed row between both products of an expert."""

    activation: Floats
    """Forward, with what quantises its product."""
    backward: Floats
    """With what quantises the gradients of both products."""
    biases: LayerTraffic


def _between_products(inputs: Inputs, block: Experts, shard: ExpertShard) -> _BetweenProducts:
    """Bytes of the activation, of quantising and of biases. Fused products write operands by rows and by columns, and
    backward read what the activation was computed from; they add biases and clamp on their own, and one kernel reads
    the gradient of what they put out for that of the last bias (Transformer Engine d0067d0da6cb, ops/fused/
    grouped_mlp.py).
    """
    traffic, quantised, hidden = inputs.runtime.elementwise_bytes, inputs.quantise_bytes, inputs.model.hidden_size
    passes, weighed = traffic.activation(block), traffic.weighed_activation
    inner, outer = block.bias * shard.width, block.bias * hidden
    first, second = traffic.expert_bias, traffic.expert_output_bias
    forward = first.forward * inner + second.forward * outer
    backward = first.backward * inner + second.backward * outer
    if inputs.runtime.kernels.expert_products == "fused":
        return _BetweenProducts(
            activation=2 * inputs.recipe.operand_bytes * shard.ffn,
            backward=1.0 * HALF_BYTES * shard.width,
            biases=LayerTraffic(0.0, 1.0 * HALF_BYTES * outer),
        )
    return _BetweenProducts(
        activation=shard.ffn * (passes.forward + weighed.forward + quantised),
        backward=shard.ffn * (passes.backward + weighed.backward) + quantised * shard.width,
        biases=LayerTraffic(forward, backward),
    )


def _products(plan: Layout, inputs: Inputs, kind: LayerKind) -> tuple[Gemm, Gemm, Gemm]:
    """Of the router, and of the experts' first and second layers."""
    count, shard, hidden = routed_experts(kind).count, expert_shard(plan, inputs, kind), inputs.model.hidden_size
    router = _router_time(shard.tokens, count, hidden, inputs)
    first = grouped_time(shard.rows, shard.width, hidden, shard.experts, inputs)
    second = grouped_time(shard.rows, hidden, shard.ffn, shard.experts, inputs)
    return (router.frozen, first.frozen, second.frozen) if inputs.freezes_weights else (router, first, second)


def _router_time(rows: Floats, outputs: int, features: int, inputs: Inputs) -> Gemm:
    """In half precision, or in fp32 at the peak without tensor cores; half where the accelerator names no such peak."""
    peak = inputs.cluster.accelerator.peak_flops.get("fp32")
    if inputs.runtime.kernels.router_format == "half" or peak is None:
        return linear_time(rows, outputs, features, inputs, half=True)
    return products_time(Linear(rows, outputs, features), ALIGNED, inputs.cluster.accelerator, peak, FP32_BYTES)

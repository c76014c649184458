"""Element-wise kernels of one transformer layer, for one micro-batch: the bytes that they move, and their time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from meshwright.arrays import Floats, Numbers, some, where
from meshwright.cost.compute.accumulation import gradient_sum_bytes, summed_bytes
from meshwright.cost.compute.linear import Linear, Projections, runtime_products
from meshwright.cost.compute.quantising import before_gather, quantised, quantising, rescaled
from meshwright.cost.compute.traffic import NOTHING, LayerTraffic
from meshwright.cost.repeated import Repeated
from meshwright.cost.shard import Shard, compressed_width, dense_block
from meshwright.layout.groups import context_split
from meshwright.layout.plans import Layout
from meshwright.specs.choices import ContextExchange
from meshwright.specs.cluster import Accelerator
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.runtime.device import PassBytes


def elementwise_time(size: Numbers, accelerator: Accelerator) -> Floats:
    """Seconds to read and write some bytes: t = bytes / (efficiency * memory bandwidth).

    size: bytes read plus written, scalar or array (n,). Returns seconds.
    Source: roofline (Williams et al., 2009); the efficiency stands in the accelerator's kernel table.

    >>> from meshwright.specs.reading.examples import H100
    >>> round(elementwise_time(1e9, H100) * 1e3, 3), H100.memory_bandwidth
    (0.373, 3350000000000.0)
    """
    return size / (accelerator.kernels.elementwise_efficiency * accelerator.memory_bandwidth)


class BlockTraffic(NamedTuple):
    """Bytes read and written by the two blocks that every token passes through."""

    attention: LayerTraffic
    """With norms and residual sums."""
    feed_forward: LayerTraffic
    """The dense block, or the shared experts."""

    def plus(self, other: BlockTraffic) -> BlockTraffic:
        """Both together."""
        return BlockTraffic(*(_sum(blocks) for blocks in zip(self, other, strict=True)))


def moved_bytes(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard, linears: Projections) -> BlockTraffic:
    """Bytes of norms, residual sums, rotary positions, the dense activation, quantising, and what moves around
    products and context parallelism.

    plan: scalar or array (n,); shard: sizes on the rank; linears: its linear layers. Returns bytes. Source: the
    runtime's `elementwise_kernels`, the recipe's `quantise_bytes`.

    >>> from meshwright.cost.compute.linear import projections
    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> shard = layer_shard(Plan(), LLAMA, kind)
    >>> traffic = moved_bytes(Plan(), LLAMA, kind, shard, projections(LLAMA, kind, shard))
    >>> bool(traffic.attention.backward > traffic.attention.forward > traffic.feed_forward.forward > 0)
    True
    """
    first, second = (*linears.down, *linears.attention, linears.output), linears.feed_forward
    entered = () if linears.down or inputs.adapted(kind, "attention") else linears.attention
    into_block = () if inputs.adapted(kind, "block") else second[:1]
    apart = runtime_products(inputs, kind, shard) if inputs.recipe.rescales_gradients else linears
    attention = (
        _around_attention(inputs, kind, shard),
        _context(plan, inputs, shard),
        quantised(inputs, shard, first, entered, (linears.output,)),
        rescaled(inputs, (*apart.down, *apart.attention, apart.output)),
        _cast(inputs, first),
        _summed(plan, inputs, first),
    )
    feed_forward = (
        _around_block(inputs, kind, shard),
        quantised(inputs, shard, second, into_block, second[1:]),
        rescaled(inputs, apart.feed_forward),
        _cast(inputs, second),
        _summed(plan, inputs, second),
    )
    return BlockTraffic(_sum(attention), _sum(feed_forward))


def _sum(parts: Iterable[LayerTraffic]) -> LayerTraffic:
    return LayerTraffic(*(sum(each) for each in zip(*parts, strict=True)))


class RepeatedBytes(NamedTuple):
    """Bytes that are read and written once more; each scalar or array (n,)."""

    attention: Floats
    """With norms."""
    feed_forward: Floats
    """The dense block, or the shared experts."""


def repeated_bytes(
    repeated: Repeated, inputs: Inputs, kind: LayerKind, shard: Shard, linears: Projections
) -> RepeatedBytes:
    """Bytes that the element-wise kernels of what selective recomputation repeats move once more, without experts.

    Norms that are kernels of their own or in a repeated block; of latent attention the norms of the compressed widths
    and the rotary positions; the dense or shared activation; and quantising the inputs of repeated products.
    repeated: counts, scalar or array (n,); shard: sizes on the rank; linears: its linear layers. Returns bytes. Source:
    the bytes of `moved_bytes`.

    >>> from meshwright.cost.compute.linear import projections
    >>> from meshwright.cost.repeated import repeated_parts
    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> shard, repeated = layer_shard(Plan(), LLAMA, kind), repeated_parts(Plan(), kind)
    >>> [float(size) for size in repeated_bytes(repeated, LLAMA, kind, shard, projections(LLAMA, kind, shard))]
    [0.0, 0.0]
    """
    traffic, norm, block = inputs.runtime.elementwise_bytes, norm_passes(inputs).forward, dense_block(kind)
    fused = 0 if kind.is_moe or kind.parallel_residual else repeated.block
    norms = repeated.attention_norm + repeated.block_norm + fused
    total = norm * norms * shard.residual_tokens * inputs.model.hidden_size
    rotated = traffic.rotary.forward * shard.tokens * (shard.query + shard.key)
    expanded = norm * compressed_width(kind) * shard.residual_tokens + rotated
    total = total + repeated.expansion * (expanded + quantising(inputs, linears.attention))
    if not block:
        return RepeatedBytes(total, 0.0 * total)
    activation = traffic.activation(block).forward * shard.tokens * shard.ffn
    quantised = (
        quantising(inputs, linears.feed_forward) + before_gather(inputs, shard, linears.feed_forward[:1]).forward
    )
    return RepeatedBytes(total, repeated.block * (activation + quantised))


def residual_sum_bytes(inputs: Inputs, shard: Shard) -> Floats:
    """Bytes that one residual sum of the forward pass moves.

    shard: sizes on the rank. Returns bytes. Source: `elementwise_kernels` of the runtime.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA  # 8192 tokens of 4096 elements
    >>> shard = layer_shard(Plan(tp=8, sp=True), LLAMA, LLAMA.model.layer_kinds[0])
    >>> float(residual_sum_bytes(LLAMA, shard)) / (8192 / 8 * 4096)  # two read and one written, of 2 bytes
    6.0
    """
    return inputs.runtime.elementwise_bytes.residual.forward * shard.residual_tokens * inputs.model.hidden_size


def norm_passes(inputs: Inputs) -> PassBytes:
    """The runtime's bytes per element of the model's norms.

    Returns bytes. Source: `elementwise_kernels` of the runtime.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> norm_passes(LLAMA) == LLAMA.runtime.elementwise_bytes.rms_norm
    True
    """
    traffic = inputs.runtime.elementwise_bytes
    return traffic.rms_norm if inputs.model.norm == "rms" else traffic.layer_norm


def _around_attention(inputs: Inputs, kind: LayerKind, shard: Shard) -> LayerTraffic:
    """Norms, residual sums and rotary positions; backward also bias gradients, and the gradients of fused or separate
    projections.
    """
    traffic, hidden, tokens = inputs.runtime.elementwise_bytes, inputs.model.hidden_size, 1.0 * shard.tokens
    residual = 1.0 * shard.residual_tokens * hidden
    rotated = tokens * (shard.query + shard.key)
    rotary = traffic.scaled_rotary if kind.attention.scaled_rotary else traffic.rotary
    if kind.attention.latent and traffic.latent_rotary:
        rotary = traffic.latent_rotary
    pieces = [
        (norm_passes(inputs), kind.norms * residual + compressed_width(kind) * shard.residual_tokens),
        (traffic.residual, (1 if kind.parallel_residual else 2) * residual),
        (rotary, (0 if inputs.model.learned_positions else 1) * rotated),
        (traffic.rms_norm, (0 if kind.attention.qk_norm == "none" else 1) * rotated),
    ]
    biased = kind.attention.qkv_bias * shard.qkv + kind.attention.output_bias * hidden
    fused = inputs.fuses_qkv(kind.attention)
    joined = traffic.split_gradient * shard.qkv if fused else 2 * traffic.summed_gradient * hidden
    gradients = tokens * (traffic.bias_gradient * biased + joined)
    return LayerTraffic(
        sum(passes.forward * elements for passes, elements in pieces),
        sum(passes.backward * elements for passes, elements in pieces) + gradients,
    )


def _around_block(inputs: Inputs, kind: LayerKind, shard: Shard) -> LayerTraffic:
    """The activation of the dense block or the shared experts; backward also its gradients as those of attention."""
    traffic, block, hidden = inputs.runtime.elementwise_bytes, dense_block(kind), inputs.model.hidden_size
    if not block:
        return NOTHING
    passes, width = traffic.activation(block), (2 if block.gated else 1) * shard.ffn
    gradients = block.bias * traffic.bias_gradient * (width + hidden)
    if block.gated:
        fused = inputs.runtime.kernels.fused_gate
        gradients = gradients + (traffic.split_gradient * width if fused else traffic.summed_gradient * hidden)
    tokens = 1.0 * shard.tokens
    return LayerTraffic(tokens * passes.forward * shard.ffn, tokens * (passes.backward * shard.ffn + gradients))


def _context(plan: Layout, inputs: Inputs, shard: Shard) -> LayerTraffic:
    """What context parallelism moves on the device.

    A ring adds every piece's output to what it has in fp32, 5 bytes an element because half of the rows take part (in
    backward the gradients of queries, keys and values); an all-to-all copies its buffers before and after. PyTorch
    works piece by piece whatever it exchanges: its last rank merges all rows, by one operator after the other unless
    these are compiled (assumed: one kernel then reads a piece and the sum, and writes it). Source: torch 2.13,
    distributed/tensor/experimental/_context_parallel/_attention.py (_SDPAMerger, _partial_update,
    _templated_ring_attention_backward), bytes counted.
    """
    if not some(plan.cp > 1):
        return NOTHING
    split, tokens, keys = context_split(plan, inputs), 1.0 * shard.tokens, shard.attended
    if inputs.runtime.communication.merges_context_pieces:
        pieces = 1.0 * split.ring - 1
        if inputs.runtime.kernels.elementwise == "fused":
            return LayerTraffic(10 * tokens * pieces * shard.core, 10 * tokens * pieces * (shard.query + keys))
        forward = (12 + 38 * pieces) * shard.core + (4 + 4 * pieces) * keys
        backward = (20 + 10 * pieces) * shard.query + (32 + 25 * pieces) * keys
        shared = split.ring > 1
        return LayerTraffic(tokens * forward * shared, tokens * backward * shared)
    rings = where(plan.context_exchange == ContextExchange.ALL_GATHER, 0, split.ring - 1)
    swapped = where(split.heads > 1, 8 * tokens * (shard.query + shard.core + keys), 0.0)
    merged = 5 * tokens * rings
    return LayerTraffic(swapped + merged * shard.core, swapped + merged * (shard.query + keys))


def _summed(plan: Layout, inputs: Inputs, linears: tuple[Linear, ...]) -> LayerTraffic:
    """Backward, the gradients of the weights of some linear layers are added to the sum."""
    if not gradient_sum_bytes(inputs):
        return NOTHING
    weights = sum(1.0 * linear.outputs * linear.features for linear in linears)
    return LayerTraffic(0.0, summed_bytes(plan, inputs, weights))


def _cast(inputs: Inputs, linears: tuple[Linear, ...]) -> LayerTraffic:
    """Autocast casts every weight of a product in forward, and its gradient back in backward: 4 bytes and 2 each."""
    if not inputs.weight_cast_bytes:
        return NOTHING
    weights = sum(1.0 * linear.outputs * linear.features for linear in linears)
    cast_bytes = inputs.weight_cast_bytes * weights
    return LayerTraffic(cast_bytes, cast_bytes)

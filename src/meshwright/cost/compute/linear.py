"""The linear layers of one transformer layer on one rank, and the time of their three products."""

from __future__ import annotations

from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, Ints, Numbers, column, parted
from meshwright.cost.compute.alignment import UnalignedSlowdown, unaligned_slowdown
from meshwright.cost.compute.gemm import gemm_time
from meshwright.cost.compute.slowdown import sustained_slowdown
from meshwright.cost.shard import Shard, dense_block
from meshwright.specs.cluster import Accelerator
from meshwright.specs.inputs import Inputs
from meshwright.specs.kernels import NumberFormat
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import HALF_BYTES


class Linear(NamedTuple):
    """A linear layer of `features` to `outputs` on `rows` rows; elements, scalar or array (n,)."""

    rows: Numbers
    outputs: Numbers
    features: Numbers


class Gemm(NamedTuple):
    """Seconds of the three products of one linear layer."""

    forward: Floats
    input_gradient: Floats
    weight_gradient: Floats

    @property
    def backward(self) -> Floats:
        """Both gradients, seconds."""
        return self.input_gradient + self.weight_gradient

    @property
    def frozen(self) -> Gemm:
        """The same of a weight that is not trained."""
        return self._replace(weight_gradient=0.0 * self.weight_gradient)


NO_GEMM = Gemm(0.0, 0.0, 0.0)


def linear_time(rows: Numbers, outputs: Numbers, features: Numbers, inputs: Inputs, *, half: bool = False) -> Gemm:
    """The three products of a linear layer of `features` to `outputs` on `rows` rows.

    Y = X W: m x n x k of `rows` x `outputs` x `features`; dX = dY W^T: `rows` x `features` x `outputs`; dW = X^T dY:
    `outputs` x `features` x `rows`. In the number format of the job's recipe, or in its half precision. Weight
    gradients that the product itself accumulates take longer by the runtime's factor. Unaligned sizes take longer
    (`unaligned_slowdown`).
    rows, outputs, features: elements, scalar or array (n,). Returns seconds. Source: `gemm_time`; Megatron-LM,
    tensor_parallel/layers.py (gradient_accumulation_fusion).

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> [round(float(seconds) * 1e3, 2) for seconds in linear_time(8192, 14336, 4096, LLAMA)]
    [1.43, 1.4, 1.48]
    """
    accelerator, recipe = inputs.cluster.accelerator, inputs.recipe
    quantised = recipe.quantises and not half
    peak = inputs.peak_flops if quantised else inputs.half_peak_flops
    element = recipe.operand_bytes if quantised else HALF_BYTES
    number_format: NumberFormat = recipe.number_format if quantised else "half"
    slowdown = recipe.product_slowdown if quantised else 1.0
    sustained = sustained_slowdown(inputs, number_format)
    unaligned = unaligned_slowdown(outputs, features, accelerator, number_format)

    time = products_time(
        Linear(rows, outputs, features), unaligned, accelerator, peak, element, number_format, sustained=sustained
    )
    kernels = inputs.runtime.kernels
    fused = kernels.weight_gradient_slowdown if kernels.gradient_accumulation == "fused" else 1.0
    gradient = time.weight_gradient * slowdown * fused
    return Gemm(time.forward * slowdown, time.input_gradient * slowdown, gradient)


def products_time(
    linear: Linear,
    unaligned: UnalignedSlowdown,
    accelerator: Accelerator,
    peak_flops: float,
    element_bytes: float,
    number_format: NumberFormat = "half",
    groups: Ints = 1,
    sustained: float | None = None,
) -> Gemm:
    """The three products of a linear layer, asked of `gemm_time` at once.

    linear: elements, scalar or array (n,); unaligned: of each product, shares; accelerator, peak_flops, element_bytes,
    number_format, groups, sustained: as of `gemm_time`. Returns seconds. Source: `linear_time`.

    >>> from meshwright.specs.reading.examples import H100
    >>> from meshwright.cost.compute.alignment import ALIGNED
    >>> time = products_time(Linear(8192, 14336, 4096), ALIGNED, H100, H100.peak_flops["bf16"], element_bytes=2)
    >>> bool(time.forward == gemm_time(8192, 14336, 4096, H100, H100.peak_flops["bf16"]))
    True
    """
    (rows, outputs, features), shape = linear, np.broadcast(*linear).shape
    # Of the three products: shape (3, ...).
    m, n, k, slower = np.empty((4, 3, *shape))
    m[0], m[1], m[2] = rows, rows, outputs
    n[0], n[1], n[2] = outputs, features, features
    k[0], k[1], k[2] = features, outputs, rows
    slower[0], slower[1], slower[2] = unaligned
    kernels = accelerator, peak_flops, element_bytes, number_format, groups
    return Gemm(*parted(column(gemm_time(m, n, k, *kernels, sustained=sustained, unaligned=slower))))


class Projections(NamedTuple):
    """The linear layers that every token passes through."""

    down: tuple[Linear, ...]
    """Of latent attention, from the hidden size to the compressed widths; whole on every rank."""
    attention: tuple[Linear, ...]
    """Into the attention core, column-parallel."""
    output: Linear
    """Out of it, row-parallel."""
    feed_forward: tuple[Linear, ...]
    """Of the dense or shared block: up (with the gate), and down; none where there is no such block."""


Products = tuple[tuple[Gemm, ...], tuple[Gemm, ...], tuple[Gemm, ...]]
"""Into the attention core, of the dense or shared block, and the others; each as the runtime runs them."""


def projection_times(linears: Projections, inputs: Inputs) -> Products:
    """The three products of every linear layer that every token of a layer passes through, asked at once.

    linears: elements, scalar or array (n,). Returns seconds. Source: `linear_time`.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> up, down, output = Linear(8192, 28672, 4096), Linear(8192, 4096, 14336), Linear(8192, 4096, 4096)
    >>> _, block, _ = projection_times(Projections((), (), output, (up, down)), LLAMA)
    >>> bool(block[1].forward == linear_time(8192, 4096, 14336, LLAMA).forward)
    True
    """
    groups = linears.attention, linears.feed_forward, (linears.output, *linears.down)
    every = [*chain.from_iterable(groups)]
    # Of rows, outputs and features, and of every layer: shape (3, layers, ...).
    sizes = np.empty((3, len(every), *np.broadcast(*chain.from_iterable(every)).shape))
    for place, linear in enumerate(every):
        for size, own in zip(sizes, linear, strict=True):
            size[place] = own
    rows, outputs, features = sizes
    times = np.asarray(linear_time(rows, outputs, features, inputs))
    each = iter([Gemm(*parted(times[:, place])) for place in range(len(every))])
    into, block, others = (tuple(islice(each, len(group))) for group in groups)
    return into, block, others


def projections(inputs: Inputs, kind: LayerKind, shard: Shard) -> Projections:
    """The linear layers of one layer of a kind.

    Ordinary attention projects queries, keys and values in one product. Latent attention compresses to r_q and
    r_kv + d_rope elements a token (where queries are compressed) and expands to a d_qk and a (d_nope + d_v).
    shard: sizes on the rank. Returns elements. Source: DeepSeek-V2, arXiv:2405.04434, section 2.1; Megatron-LM,
    core/transformer/multi_latent_attention.py (down projections are not divided by t, their rows are by sp).

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> shard = layer_shard(Plan(tp=8), LLAMA, kind)
    >>> [(float(each.outputs), float(each.features)) for each in projections(LLAMA, kind, shard).feed_forward]
    [(3584.0, 4096.0), (4096.0, 1792.0)]
    """
    hidden, block = inputs.model.hidden_size, dense_block(kind)
    output = Linear(shard.tokens, hidden, shard.core)
    down, attention = _into_attention(hidden, kind, shard)
    if block is None:
        return Projections(down=down, attention=attention, output=output, feed_forward=())
    width = (2 if block.gated else 1) * shard.ffn
    return Projections(
        down=down,
        attention=attention,
        output=output,
        feed_forward=(Linear(shard.tokens, width, hidden), Linear(shard.tokens, hidden, shard.ffn)),
    )


def runtime_products(inputs: Inputs, kind: LayerKind, shard: Shard) -> Projections:
    """The linear layers of one layer of a kind as the runtime computes them: queries, keys and values apart, and gate
    and up, unless it fuses them.

    shard: sizes on the rank. Returns elements. Source: `fused_projections` and `fused_gate` of the runtime.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA  # under Megatron-core, which fuses both
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> shard = layer_shard(Plan(tp=8), LLAMA, kind)
    >>> runtime_products(LLAMA, kind, shard) == projections(LLAMA, kind, shard)
    True
    """
    joined, block = projections(inputs, kind, shard), dense_block(kind)
    into, inside = joined.attention, joined.feed_forward
    if kind.attention.latent is None and not inputs.fuses_qkv(kind.attention):
        into = tuple(into[0]._replace(outputs=width) for width in (shard.query, shard.key, shard.value))
    if block and block.gated and not inputs.runtime.kernels.fused_gate:
        half = inside[0]._replace(outputs=1.0 * shard.ffn)
        inside = (half, half, *inside[1:])
    return joined._replace(attention=into, feed_forward=inside)


def _into_attention(hidden: int, kind: LayerKind, shard: Shard) -> tuple[tuple[Linear, ...], tuple[Linear, ...]]:
    latent, rows = kind.attention.latent, shard.tokens
    if latent is None:
        return (), (Linear(rows, shard.qkv, hidden),)
    compressed = latent.kv_rank + latent.rope_head_dim
    expanded = shard.key - shard.heads * latent.rope_head_dim + shard.value
    down: tuple[Linear, ...] = (Linear(shard.residual_tokens, compressed, hidden),)
    keys = Linear(rows, expanded, latent.kv_rank)
    if latent.query_rank is None:
        return down, (Linear(rows, shard.query, hidden), keys)
    down = (Linear(shard.residual_tokens, latent.query_rank, hidden), *down)
    return down, (Linear(rows, shard.query, latent.query_rank), keys)

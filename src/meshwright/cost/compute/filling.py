"""Filling what kernels allocate, as PyTorch does in deterministic mode, for one layer and micro-batch."""

from __future__ import annotations

from meshwright.arrays import Floats, Numbers
from meshwright.cost.compute.elementwise import BlockTraffic
from meshwright.cost.compute.linear import Linear, Projections
from meshwright.cost.compute.traffic import LayerTraffic
from meshwright.cost.shard import Shard, dense_block
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import HALF_BYTES


def filled_bytes(inputs: Inputs, kind: LayerKind, shard: Shard, linears: Projections) -> BlockTraffic:
    """Bytes written before kernels write them: 2 for each element of what norms, products, the attention core and the
    activation put out, and of its gradient; and of gradients of weights, unless products add them to a sum.

    shard: sizes on the rank; linears: its linear layers. Returns bytes. Source: torch.utils.deterministic.
    fill_uninitialized_memory, which fills what torch.empty allocates; Transformer Engine allocates outputs so.

    >>> from meshwright.cost.compute.linear import projections
    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> shard = layer_shard(Plan(), LLAMA, kind)
    >>> block = filled_bytes(LLAMA, kind, shard, projections(LLAMA, kind, shard)).feed_forward
    >>> float(block.forward) / shard.tokens == 2 * (2 * 14336 + 14336 + 4096)
    True
    """
    around, block = (*linears.down, *linears.attention, linears.output), dense_block(kind)
    norms = HALF_BYTES * kind.norms * shard.residual_tokens * inputs.model.hidden_size
    heads = 1.0 * HALF_BYTES * shard.tokens
    inner = heads * shard.ffn * (block is not None)
    gate = 2 if block and block.gated else 1
    return BlockTraffic(
        _of_products(inputs, around, norms + heads * shard.core, norms + heads * (shard.query + shard.attended)),
        _of_products(inputs, linears.feed_forward, inner, gate * inner),
    )


def filled_row_bytes(inputs: Inputs, width: Numbers) -> Numbers:
    """The same of what a pass puts out of one routed row; 0 where nothing is filled. width: elements, scalar or array
    (n,). Returns bytes. Source: as `filled_bytes`.

    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> ways = ("on", "filled")
    >>> [filled_row_bytes(MIXTRAL.replace(runtime=MIXTRAL.runtime.replace(deterministic=how)), 4096) for how in ways]
    [0, 8192]
    """
    return (inputs.runtime.kernels.deterministic == "filled") * HALF_BYTES * width


def filled_gradient_bytes(inputs: Inputs) -> int:
    """Bytes of a weight's gradient that is filled before a product writes it; none where the product adds it to a sum.

    Source: as `filled_bytes`.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> ways = ("fused", "unfused")
    >>> changed = [LLAMA.runtime.replace(deterministic="filled", gradient_accumulation=way) for way in ways]
    >>> [filled_gradient_bytes(LLAMA.replace(runtime=each)) for each in changed]
    [0, 2]
    """
    kernels = inputs.runtime.kernels
    return HALF_BYTES * (kernels.deterministic == "filled" and kernels.gradient_accumulation != "fused")


def _of_products(inputs: Inputs, linears: tuple[Linear, ...], forward: Floats, backward: Floats) -> LayerTraffic:
    """Of products, and of what stands beside them in each pass."""
    gradient = filled_gradient_bytes(inputs)
    for rows, outputs, features in linears:
        forward = forward + 1.0 * HALF_BYTES * rows * outputs
        backward = backward + 1.0 * HALF_BYTES * rows * features + gradient * outputs * features
    return LayerTraffic(forward, backward)

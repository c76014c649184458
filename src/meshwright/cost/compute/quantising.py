"""Quantising: bytes that are moved to bring what products take into 8 bits or fewer."""

from __future__ import annotations

from meshwright.arrays import Floats, where
from meshwright.cost.compute.linear import Linear
from meshwright.cost.compute.traffic import NOTHING, LayerTraffic
from meshwright.cost.shard import Shard
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import HALF_BYTES
from meshwright.specs.quantised_weights import quantising_weights, transposed_bytes


def rescaled(inputs: Inputs, layers: tuple[Linear, ...]) -> LayerTraffic:
    """Backward the gradients of inputs and weights are read and written once more, where the recipe rescales them.

    layers: of the rank. Returns bytes, scalar or array (n,). Source: the recipe's `rescales_gradients`.
    """
    if not inputs.recipe.rescales_gradients:
        return NOTHING
    elements = sum(1.0 * (linear.rows + linear.outputs) * linear.features for linear in layers)
    return LayerTraffic(0.0, 2 * HALF_BYTES * elements)


def quantised(
    inputs: Inputs, shard: Shard, every: tuple[Linear, ...], entered: tuple[Linear, ...], left: tuple[Linear, ...]
) -> LayerTraffic:
    """Inputs of all products forward, gradients of their outputs backward; weights once a step, or by rows forward and
    by columns backward in every micro-batch; 8-bit ones of which no transposed copy stays are transposed backward.

    shard: sizes on the rank; every: its products; entered: those whose inputs are gathered; left: whose gradients are.
    Returns bytes, scalar or array (n,). Source: the recipe's `quantise_bytes`.
    """
    each = inputs.quantise_bytes
    if not (each or inputs.gathers_quantised):
        return NOTHING
    weights, elements = quantised_weights(inputs, every), sum(1.0 * each.outputs * each.features for each in every)
    transposed = transposed_bytes(inputs) * elements
    written = each * sum(1.0 * linear.rows * linear.outputs for linear in every)
    forward = quantising(inputs, every) + before_gather(inputs, shard, entered).forward
    backward = written + before_gather(inputs, shard, left).backward
    return LayerTraffic(forward + weights.forward, backward + weights.backward + transposed)


def quantised_weights(inputs: Inputs, layers: tuple[Linear, ...]) -> LayerTraffic:
    """What quantising the weights of some linear layers moves in every micro-batch.

    layers: of the rank. Returns bytes, scalar or array (n,). Source: `quantising_weights`.
    """
    each, elements = quantising_weights(inputs), sum(1.0 * layer.outputs * layer.features for layer in layers)
    return LayerTraffic(each.forward * elements, each.backward * elements)


def quantising(inputs: Inputs, layers: tuple[Linear, ...]) -> Floats:
    """Bytes that quantising the inputs of some linear layers moves.

    layers: of the rank. Returns bytes, scalar or array (n,). Source: the recipe's `quantise_bytes`.
    """
    return inputs.quantise_bytes * sum(1.0 * linear.rows * linear.features for linear in layers)


def before_gather(inputs: Inputs, shard: Shard, layers: tuple[Linear, ...]) -> LayerTraffic:
    """What the inputs and the gradients of some linear layers take more, or less, where sequence-parallel ranks
    quantise their share before they gather it: a transposed copy is made of what was gathered.

    shard: sizes on the rank; layers: those gathered for. Returns bytes, scalar or array (n,). Source: the runtime's
    `quantised_gathers`.
    """
    accelerator, recipe = inputs.cluster.accelerator, inputs.recipe
    if not inputs.gathers_quantised:
        return NOTHING
    share = shard.residual_tokens / shard.tokens
    transposed = recipe.columns == "transposed" and recipe.copies(accelerator) > 1
    ahead = inputs.quantise_bytes - transposed * recipe.operand_bytes
    change = where(share < 1, share * ahead + 2 * transposed * recipe.operand_bytes - inputs.quantise_bytes, 0.0)
    return LayerTraffic(
        change * sum(1.0 * linear.rows * linear.features for linear in layers),
        change * sum(1.0 * linear.rows * linear.outputs for linear in layers),
    )

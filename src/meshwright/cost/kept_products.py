"""Kept products: which matrix products of a layer selective recomputation by products does not compute again."""

from __future__ import annotations

from itertools import count

from meshwright.cost.shard import dense_block
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


def kept_products(inputs: Inputs, kind: LayerKind, into: int, inside: int) -> list[bool]:
    """Whether each product of one layer is kept: those into attention, its output, and those of the block, in order.

    Of products without a bias the first, third and so on are; one that adds a bias is an operator of its own, which
    `keeps_biased_products` tells of. None is in a layer of experts whose parts are compiled one by one. into, inside:
    how many products there are. Source: PyTorch 2.13, torch.nn.Linear (aten.mm, with a bias aten.addmm); torchtitan's
    distributed/activation_checkpoint.py.

    >>> from meshwright.specs.reading.examples import LLAMA  # without biases
    >>> kept_products(LLAMA, LLAMA.model.layer_kinds[0], into=1, inside=3)
    [True, False, True, False, True]
    """
    if kind.is_moe and inputs.runtime.activations.hides_products_beside_experts:
        return [False] * (into + 1 + inside)
    attention, block, turns = kind.attention, dense_block(kind), count()
    biased = [attention.qkv_bias] * into + [attention.output_bias] + [block is not None and block.bias] * inside
    keeps = inputs.runtime.activations.keeps_biased_products
    return [keeps if each else next(turns) % 2 == 0 for each in biased]

"""Alignment: what products cost whose rows do not start at multiples of the bytes that fast kernels load at once."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Floats, Numbers, larger, some, where
from meshwright.specs.cluster import Accelerator
from meshwright.specs.kernels import NumberFormat, ProductCosts

ELEMENT_BYTES: dict[NumberFormat, float] = {"half": 2, "fp8": 1, "fp4": 0.5}
"""Of one element of an operand, without its share of the scales, which lie apart."""


class UnalignedSlowdown(NamedTuple):
    """Time of the three products of a linear layer over that of aligned ones; shares, scalar or array (n,)."""

    forward: Floats
    input_gradient: Floats
    weight_gradient: Floats


ALIGNED = UnalignedSlowdown(1.0, 1.0, 1.0)
"""Of sizes of which no kernel is slower."""


def unaligned_slowdown(
    outputs: Numbers, features: Numbers, accelerator: Accelerator, number_format: NumberFormat = "half"
) -> UnalignedSlowdown:
    """How much longer products of a linear layer compute than aligned ones that no power limit slows down.

    In Y = X W^T and both gradients all matrices have rows of `outputs` or `features` elements. Where a row is no
    multiple of some bytes, the fast kernels cannot load or store it (TMA: 16 bytes, cp.async: 4): the table of the
    accelerator has the time of those that run instead. The worse of both sizes counts; the number of rows does not
    matter.

    outputs, features: elements on the rank, scalar or array (n,); number_format: of the operands. Returns shares of
    1 or more. Source: the accelerator's kernel table; NVIDIA CUDA C++ programming guide, tensor
    memory access (strides that are multiples of 16 bytes) and cp.async.

    >>> from meshwright.specs.reading.examples import H100
    >>> [float(slowdown) for slowdown in unaligned_slowdown(50304, 1600, H100)]
    [1.0, 1.0, 1.0]
    >>> [float(slowdown) for slowdown in unaligned_slowdown(50257, 1600, H100)]
    [8.25, 6.0, 5.4]
    """
    tiers, element_bytes = accelerator.kernels.unaligned, ELEMENT_BYTES[number_format]
    of_outputs = _slowdown(outputs * element_bytes, [(tier.bytes, tier.outputs) for tier in tiers])
    of_features = _slowdown(features * element_bytes, [(tier.bytes, tier.features) for tier in tiers])
    return UnalignedSlowdown(*map(larger, of_outputs, of_features))


def _slowdown(row_bytes: Numbers, tiers: list[tuple[int, ProductCosts]]) -> UnalignedSlowdown:
    """Of one of the two sizes: the costs of the fewest bytes of which its rows are no multiple."""
    slowdown = ALIGNED
    for multiple, costs in tiers:
        missed = row_bytes % multiple != 0
        if not some(missed):
            continue
        after = costs.forward, costs.input_gradient, costs.weight_gradient
        slowdown = UnalignedSlowdown(*(where(missed, *pair) for pair in zip(after, slowdown, strict=True)))
    return slowdown

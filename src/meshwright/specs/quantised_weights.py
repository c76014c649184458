"""Quantised weights: what a rank keeps of weights whose products run in 8 bits or fewer."""

from __future__ import annotations

from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import HALF_BYTES
from meshwright.specs.runtime.device import PassBytes

NEVER = PassBytes(forward=0, backward=0)


def transposes_anew(inputs: Inputs) -> bool:
    """Whether products transpose stored 8-bit weights in every backward pass, and keep no copy.

    Source: the runtime's `keeps_transposed_weights`; the recipe's `columns` and `copies`.
    """
    needs = inputs.recipe.columns == "transposed" and inputs.recipe.copies(inputs.cluster.accelerator) > 1
    return needs and inputs.stores_quantised and not inputs.runtime.storage.keeps_transposed_weights


def transposed_bytes(inputs: Inputs) -> float:
    """Bytes read and written of a weight that a product of the backward pass transposes first.

    Returns bytes a weight. Source: `transposes_anew`.
    """
    return 2 * inputs.recipe.operand_bytes * transposes_anew(inputs)


def quantising_weights(inputs: Inputs) -> PassBytes:
    """Bytes read and written to quantise one weight of a product in every micro-batch; none where that is once a step.

    Forward reads as often as the recipe does and writes a copy by rows; backward, where the maximum over the tensor is
    known, reads once and writes one by columns. Weights that are gathered quantised are transposed in backward, where
    products need that. Returns bytes a weight. Source: `quantises_apart` and `quantised_weight_gathers` of the runtime.
    """
    if not (inputs.recipe.quantises and inputs.runtime.kernels.quantises_apart):
        return NEVER
    if inputs.job.precision in inputs.runtime.sharding.quantised_weight_gathers:
        transposed = inputs.recipe.copies(inputs.cluster.accelerator) > 1
        return PassBytes(forward=0, backward=2 * inputs.recipe.operand_bytes * transposed)
    backward = HALF_BYTES + inputs.recipe.operand_bytes
    return PassBytes(forward=HALF_BYTES * (inputs.recipe.quantise_reads - 1) + backward, backward=backward)


def quantised_bytes(inputs: Inputs) -> float:
    """Bytes of all quantised copies of a layer's weight that stay; 0 where nothing is quantised.

    Returns bytes a weight. Source: the recipe's `quantised_bytes`.
    """
    recipe = inputs.recipe
    return recipe.operand_bytes if transposes_anew(inputs) else recipe.quantised_bytes(inputs.cluster.accelerator)

"""Quantised weights: what a rank keeps of weights whose products run in 8 bits or fewer."""

from __future__ import annotations

from meshwright.specs.inputs import Inputs


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


def quantised_bytes(inputs: Inputs) -> float:
    """Bytes of all quantised copies of a layer's weight that stay; 0 where nothing is quantised.

    Returns bytes a weight. Source: the recipe's `quantised_bytes`.
    """
    recipe = inputs.recipe
    return recipe.operand_bytes if transposes_anew(inputs) else recipe.quantised_bytes(inputs.cluster.accelerator)

"""How much longer kernels take in a training step than alone, by the few constants that whole training runs give."""

from __future__ import annotations

import math

from meshwright.specs.inputs import Inputs
from meshwright.specs.kernels import NumberFormat


def slowdown(inputs: Inputs) -> float:
    """How much longer kernels take here than alone: the site's share times what training runs show.

    Returns a share. Source: catalog/fitted.toml; `site_derate` of the cluster.

    >>> from meshwright.specs.job import Job
    >>> from meshwright.specs.read_inputs import read_inputs
    >>> slowdown(read_inputs("llama-3.1-8b", "1x8:h100", Job(sequence_length=8192, global_batch=64)))
    1.13
    """
    return inputs.cluster.site_derate * usual_slowdown(inputs)


def usual_slowdown(inputs: Inputs) -> float:
    """How much longer kernels take in a training step than alone, by published runs; 1 where none tells.

    Returns a share, the product of the constants of `constants_of`. Source: catalog/fitted.toml.
    """
    return _product(inputs, inputs.recipe.number_format)


def half_slowdown(inputs: Inputs) -> float:
    """Time of kernels that stay in half precision over that of the recipe's, by fitted constants alone.

    Returns a share. Source: catalog/fitted.toml.
    """
    return _product(inputs, "half") / usual_slowdown(inputs)


def attention_slowdown(inputs: Inputs) -> float:
    """`half_slowdown` of attention, whose kernels may be older than those of the accelerator's table.

    Returns a share. Source: catalog/fitted.toml.
    """
    older = inputs.runtime.kernels.attention_constant
    return half_slowdown(inputs) * (inputs.constants[older] if older else 1.0)


def constants_of(inputs: Inputs, number_format: NumberFormat) -> tuple[str, ...]:
    """Names of the fitted constants that all kernels have beside products of that format: those that the accelerator's
    kernel table and the runtime name.

    number_format: of a product's operands. Returns names. Source: catalog/fitted.toml.
    """
    named = inputs.cluster.accelerator.kernels.slowdowns.get(number_format, ""), inputs.runtime.kernels.kernel_constant
    return tuple(name for name in named if name)


def _product(inputs: Inputs, number_format: NumberFormat) -> float:
    return math.prod(inputs.constants[name] for name in constants_of(inputs, number_format))

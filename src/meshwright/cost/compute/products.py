"""Time of the three products of a linear layer, or of a group of experts' layers."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Floats, Ints, Numbers
from meshwright.cost.compute.gemm import gemm_time
from meshwright.cost.compute.slowdown import half_slowdown
from meshwright.cost.element import HALF_BYTES
from meshwright.specs.inputs import Inputs
from meshwright.specs.kernels import NumberFormat


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


NO_GEMM = Gemm(0.0, 0.0, 0.0)


def linear_time(rows: Numbers, outputs: Numbers, features: Numbers, inputs: Inputs, *, half: bool = False) -> Gemm:
    """The three products of a linear layer of `features` to `outputs` on `rows` rows.

    In the number format of the job's recipe, or in its half precision. Weight gradients accumulate in fp32, slower by
    the runtime's factor.
    rows, outputs, features: elements, scalar or array (n,). Returns seconds.
    """
    accelerator, recipe = inputs.cluster.accelerator, inputs.recipe
    quantised = recipe.quantises and not half
    peak = inputs.peak_flops if quantised else inputs.half_peak_flops
    element = recipe.operand_bytes if quantised else HALF_BYTES
    number_format: NumberFormat = recipe.number_format if quantised else "half"
    slowdown = recipe.product_slowdown if quantised else half_slowdown(inputs)

    def product(m: Numbers, n: Numbers, k: Numbers) -> Floats:
        return gemm_time(m, n, k, accelerator, peak, element, number_format) * slowdown

    return Gemm(
        product(rows, outputs, features),
        product(rows, features, outputs),
        product(outputs, features, rows) * inputs.runtime.kernels.weight_gradient_slowdown,
    )


def grouped_time(rows: Numbers, outputs: Ints, features: Ints, groups: Ints, inputs: Inputs) -> Gemm:
    """The three products of `groups` equal linear layers, each on its own rows, in one grouped kernel each.

    As `linear_time`, with the tiles of all groups together, times what grouping costs on the accelerator.
    rows: of all groups together; outputs, features: of each; elements; groups: experts on the rank, count; scalar or
    array (n,). Returns seconds. Source: grouped against plain products of MooreThreads/SimuMax, in the kernel tables.
    """
    accelerator, recipe = inputs.cluster.accelerator, inputs.recipe
    element, number_format = recipe.operand_bytes, recipe.number_format
    each, cost = rows / groups, accelerator.kernels.grouped

    def product(m: Numbers, n: Numbers, k: Numbers) -> Floats:
        time = gemm_time(m, n, k, accelerator, inputs.peak_flops, element, number_format, groups)
        return time * recipe.product_slowdown

    return Gemm(
        product(each, outputs, features) * cost.forward,
        product(each, features, outputs) * cost.input_gradient,
        product(outputs, features, each) * cost.weight_gradient,
    )

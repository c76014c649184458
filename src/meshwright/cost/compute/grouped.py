"""Time of the products of experts: in one kernel for all of a rank, or one after the other."""

from __future__ import annotations

from meshwright.arrays import Ints, Numbers
from meshwright.cost.compute.alignment import unaligned_slowdown
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.linear import Gemm, Linear, products_time
from meshwright.cost.compute.slowdown import sustained_slowdown
from meshwright.specs.inputs import Inputs
from meshwright.specs.kernels import ProductCosts

MEASURED_SPREAD = 0.5
"""Standard deviation over the mean of tokens in proportion to i^-0.5, with which `skewed` was measured: 0.37 with 8
experts, 0.74 with 128."""
PLAIN = ProductCosts(forward=1, input_gradient=1, weight_gradient=1)


def grouped_time(rows: Numbers, outputs: Ints, features: Ints, groups: Ints, inputs: Inputs) -> Gemm:
    """The three products of `groups` equal linear layers, each on its own rows, as the runtime runs them.

    One kernel shares the tiles of all groups among the multiprocessors. PyTorch's takes, over plain products, what it
    was measured to take (`grouped`), and any longer where groups are unequal (`skewed`, in proportion to
    `expert_spread`). Products of each group on their own take n times one of them. Those of Transformer Engine add
    weight gradients to the gradient buffer, where that is fused, which reads and writes it:
    t = (t_product^2 + t_buffer^2)^(1/2).
    rows: of all groups together; outputs, features: of each; elements; groups: experts on the rank, n; scalar or
    array (n,). Returns seconds. Source: torch._grouped_mm and a loop of products measured on H100 and H200,
    general_grouped_gemm of Transformer Engine on B200 (MooreThreads/SimuMax@4dcaae51); tests/data/grouped_products.csv;
    torch._grouped_mm on B200 (pytorch/ao, torchao/prototype/moe_training/README.md) and GB200 (NVIDIA-NeMo/Automodel).
    """
    accelerator, recipe = inputs.cluster.accelerator, inputs.recipe
    element, number_format = recipe.operand_bytes, recipe.number_format
    each, products = rows / groups, inputs.runtime.kernels.expert_products
    over_plain = _over_plain(inputs) if products == "one_kernel" else PLAIN
    sustained = sustained_slowdown(inputs, number_format, over_plain.forward)
    unaligned = unaligned_slowdown(outputs, features, accelerator, number_format)
    apart = products in ("each", "looped")
    kernels, tiled = (groups, 1) if apart else (1, groups)
    arguments = accelerator, inputs.peak_flops, element, number_format, tiled

    one = products_time(Linear(each, outputs, features), unaligned, *arguments, sustained=sustained)
    time = Gemm(*(kernels * seconds * recipe.product_slowdown for seconds in one))
    time = _over(time, over_plain)
    if not apart:
        time = _over(time, accelerator.kernels.skewed, inputs.expert_spread / MEASURED_SPREAD)
    if products == "one_kernel" or inputs.runtime.kernels.gradient_accumulation != "fused":
        return time
    buffer = elementwise_time(2.0 * inputs.gradient_bytes * groups * outputs * features, accelerator)
    return time._replace(weight_gradient=(time.weight_gradient**2 + buffer**2) ** 0.5)


def _over_plain(inputs: Inputs) -> ProductCosts:
    """What PyTorch's grouped products take over plain ones, in the number format of the job's recipe."""
    kernels, number_format = inputs.cluster.accelerator.kernels, inputs.recipe.number_format
    measured = kernels.grouped | (kernels.older_grouped if inputs.runtime.kernels.older_grouped_products else {})
    in_8_bits = measured.get("fp8") if number_format == "fp4" else None
    return measured.get(number_format) or in_8_bits or measured["half"]


def _over(time: Gemm, costs: ProductCosts, share: float = 1.0) -> Gemm:
    """What costs say beyond 1, or a share of it."""
    return Gemm(
        time.forward * (1 + share * (costs.forward - 1)),
        time.input_gradient * (1 + share * (costs.input_gradient - 1)),
        time.weight_gradient * (1 + share * (costs.weight_gradient - 1)),
    )

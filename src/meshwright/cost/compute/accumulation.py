"""Gradient accumulation: bytes that move where no product adds a weight's gradient to what is summed."""

from __future__ import annotations

from meshwright.arrays import Floats, Numbers, where
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES


def added_gradient_bytes(inputs: Inputs) -> int:
    """Bytes moved per weight to add its 2-byte gradient to a sum of g bytes: 2 + 2 g. Source: by definition.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> added_gradient_bytes(LLAMA)
    10
    """
    return HALF_BYTES + 2 * inputs.gradient_bytes


def gradient_sum_bytes(inputs: Inputs) -> int:
    """Bytes moved per weight and micro-batch to add its gradient, which a product wrote, to the sum.

    Unfused 2 + 2 g, with g bytes of the sum. Copied 18: 2 to 4 bytes and the copy added to a sum in fp32. Kept and
    copied 8 more: 2 bytes set to zero, and the gradient added to them. In fp16 those two add to the gradient alone, 6.
    None where the product adds it, autograd does, which is not priced, or weights are frozen.
    Source: Megatron-LM@d98e8a64ddf3, distributed_data_parallel.py L578; nanotron@2411b022a75f
    optim/gradient_accumulator.py L222; DeepSpeed@edaa72212672 runtime/pipe/engine.py L863-885 and
    runtime/bf16_optimizer.py L356-371, and clear_lp_grads before its d5a7c1e0b (2023-12-21).

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> ways = ("fused", "unfused", "copied", "kept_and_copied")
    >>> [gradient_sum_bytes(LLAMA.replace(runtime=LLAMA.runtime.replace(gradient_accumulation=way))) for way in ways]
    [0, 10, 18, 26]
    """
    way, added = inputs.runtime.kernels.gradient_accumulation, 3 * HALF_BYTES
    copied = HALF_BYTES + 4 * FP32_BYTES
    if way in ("fused", "autograd") or inputs.freezes_weights:
        return 0
    if way == "unfused":
        return added_gradient_bytes(inputs)
    if inputs.recipe.half == "fp16":
        return added
    return copied if way == "copied" else HALF_BYTES + added + copied


def summed_bytes(plan: Layout, inputs: Inputs, parameters: Numbers) -> Floats:
    """Bytes moved to add the gradients of some weights to what earlier micro-batches left.

    None where ZeRO shards gradients: each micro-batch's are scattered, and the copies for it are counted there.
    plan: scalar or array (n,); parameters: how many on the rank, scalar or array (n,). Returns bytes. Source:
    `gradient_sum_bytes`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> apart = LLAMA.replace(runtime=LLAMA.runtime.replace(gradient_accumulation="unfused"))
    >>> [float(summed_bytes(Plan(zero=zero), apart, 100)) for zero in (1, 2)]
    [1000.0, 0.0]
    """
    return where(plan.zero > 1, 0.0, 1.0 * gradient_sum_bytes(inputs) * parameters)

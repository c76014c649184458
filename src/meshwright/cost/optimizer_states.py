"""Optimizer states: bytes a parameter, by whether the optimizer is distributed."""

from __future__ import annotations

from meshwright.arrays import Bools, Floats, negated
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES


def optimizer_bytes(plan: Layout, inputs: Inputs) -> Floats:
    """Bytes per parameter of the optimizer's fp32 weights, or what stored ones lack of them, and two moments.

    4 + 2 m bytes for moments of m bytes with their scales, wherever they are. Where the runtime keeps remainders of
    weights, 2 + 2 m under a distributed optimizer (ZeRO 1, or a single rank), which alone leaves fp32 weights to it;
    ZeRO 0 has fp32 copies of its own, and ZeRO 2 and 3 shards of fp32 weights.

    plan: scalar or array (n,). Returns bytes. Source: NVIDIA/Megatron-LM@d98e8a64ddf3, core/optimizer/__init__.py
    (use_precision_aware_optimizer needs the distributed one; master_weights is set to False for Megatron-FSDP),
    distrib_optimizer.py, _build_model_and_main_param_groups; core/distributed/fsdp, param_and_grad_buffer.py,
    main_weight_buffer; NVIDIA/TransformerEngine, pytorch/optimizers/fused_adam.py, store_param_remainders.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> bridge = LLAMA.replace(runtime=LLAMA.runtime.replace(remainder_weights=("bf16",)))
    >>> [int(optimizer_bytes(Plan(dp=8, zero=zero), bridge)) for zero in (0, 1, 2, 3)]
    [12, 10, 12, 12]
    """
    kept_whole = negated(_is_distributed(plan)) | (plan.zero > 1)
    return inputs.optimizer_bytes + HALF_BYTES * (inputs.keeps_remainders & kept_whole)


def device_optimizer_bytes(plan: Layout, inputs: Inputs) -> Floats:
    """The same of what is in the accelerator's memory: nothing where optimizer states are in the host's.

    plan: scalar or array (n,). Returns bytes. Source: `optimizer_bytes`, `offloaded` of the runtime.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> on_host = LLAMA.replace(runtime=LLAMA.runtime.replace(offloaded="states"))
    >>> [float(device_optimizer_bytes(Plan(dp=8, zero=1), each)) for each in (LLAMA, on_host)]
    [12.0, 0.0]
    """
    return optimizer_bytes(plan, inputs) * (not inputs.runtime.storage.offloads_states)


def casts_gradients(plan: Layout, inputs: Inputs) -> Bools:
    """Whether the optimizer takes fp32 copies of 2-byte gradients: unless it is distributed and made to keep remainders
    of weights, when it takes gradients as they are, or on the host, which gets them one by one.

    plan: scalar or array (n,). Returns whether. Source: as of `optimizer_bytes` (use_decoupled_grad).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> bridge = LLAMA.replace(runtime=LLAMA.runtime.replace(remainder_weights=("bf16",), gradient_bytes=2))
    >>> [bool(casts_gradients(Plan(dp=8, zero=zero), bridge)) for zero in (0, 1, 3)]
    [True, False, False]
    """
    storage = inputs.runtime.storage
    half = (
        storage.weights == "half" and inputs.gradient_bytes < FP32_BYTES and not inputs.runtime.storage.offloads_states
    )
    return half & negated(inputs.keeps_remainders & _is_distributed(plan))


def _is_distributed(plan: Layout) -> Bools:
    """Whether the optimizer is, as it always is where no other rank holds the same weights."""
    return (plan.zero > 0) | (plan.dp * plan.cp == 1)

"""Time of the optimizer step."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Numbers
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.slowdown import slowdown
from meshwright.cost.memory.optimizer_states import casts_gradients, optimizer_bytes
from meshwright.layout.groups import expert_sharding_ranks, sharding_ranks
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import FP32_BYTES


def optimizer_time(plan: Layout, inputs: Inputs, parameters: Numbers, experts: Numbers = 0) -> Floats:
    """Seconds of the global norm, Adam and clearing the gradients, on the slowest rank.

    Of the n-th part of the parameters that the rank updates (n = dp c / dp_replicate with ZeRO, else 1): gradients read
    twice (norm and update), after 2-byte ones were cast to fp32 where the optimizer takes them so, the runtime's states
    (12 bytes as a rule) read and written, and, of half weights, what is gathered of them written and the gradient
    buffer cleared once.
    parameters: on the rank, without routed experts; experts: those of routed experts; scalar or array (n,). Returns
    seconds. Source: traffic of a fused Adam (Apex FusedAdam); Megatron-LM, distrib_optimizer.py,
    _copy_model_grads_to_main_grads.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.examples import LLAMA
    >>> [round(float(optimizer_time(Plan(dp=8, zero=zero), LLAMA, 1e9)) * 1e3, 2) for zero in (0, 1)]
    [15.2, 3.3]
    """
    half = inputs.runtime.storage.weights == "half"
    gradient = inputs.gradient_bytes if half else FP32_BYTES
    owned = parameters / np.where(np.greater(plan.zero, 0), sharding_ranks(plan), 1)
    owned = owned + experts / np.where(np.greater(plan.zero, 0), expert_sharding_ranks(plan), 1)
    read = np.where(casts_gradients(plan, inputs), gradient + 3 * FP32_BYTES, 2 * gradient)
    bytes_moved = owned * (read + 2 * optimizer_bytes(plan, inputs) + (inputs.gathered_bytes if half else 0))
    buffered = np.where(np.greater(plan.zero, 1), owned, 1.0 * parameters + experts)
    cleared = gradient * buffered if half else 0.0
    return elementwise_time(bytes_moved + cleared, inputs.cluster.accelerator) * slowdown(inputs)

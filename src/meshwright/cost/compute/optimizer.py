"""Time of the optimizer step."""

from __future__ import annotations

from meshwright.arrays import Floats, Numbers, smaller, where
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.slowdown import slowdown
from meshwright.cost.optimizer_states import casts_gradients, optimizer_bytes
from meshwright.layout.groups import expert_sharding_ranks, sharding_ranks
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES

UPDATED_BYTES = 28
"""Read and written of a parameter by a fused Adam in fp32."""


def optimizer_time(plan: Layout, inputs: Inputs, parameters: Numbers, experts: Numbers = 0) -> Floats:
    """Seconds of the global norm, Adam and clearing the gradients, on the slowest rank.

    Of the n-th part of the parameters that the rank updates (n = dp c / dp_replicate with ZeRO, else 1): gradients read
    twice (norm and update), after 2-byte ones were cast to fp32 where the optimizer takes them so, the runtime's states
    (12 bytes as a rule) read and written, of moments that are cast the copies too, and, of half weights, what is
    gathered of them written and the gradient buffer cleared once; of full weights, what operators of an update that is
    not fused read and write again. Where states are in the host's memory the device reads gradients for their norm and
    sends them there in fp32, the processors of the node update the parameters of all its ranks, and the weights come
    back in 2 bytes, one after the other; where weights are there too, those processors do all of it.
    parameters: on the rank, without routed experts; experts: those of routed experts; scalar or array (n,). Returns
    seconds. Source: traffic of a fused Adam (Apex FusedAdam); Megatron-LM, distrib_optimizer.py,
    _copy_model_grads_to_main_grads; TransformerEngine, pytorch/optimizers/fused_adam.py (fp8 moments: cast, searched
    for their maximum and quantised around the update); torch 2.13, optim/adam.py, _multi_tensor_adam; of states on the
    host Megatron-LM, optimizer/cpu_offloading/hybrid_optimizer.py, and DeepSpeed, runtime/zero/stage_1_and_2.py (step).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> [round(float(optimizer_time(Plan(dp=8, zero=zero), LLAMA, 1e9)) * 1e3, 2) for zero in (0, 1)]
    [15.49, 3.36]
    """
    half, width = inputs.runtime.storage.weights == "half", inputs.runtime.storage.weight_bytes
    gradient = inputs.gradient_bytes if half else width
    owned = parameters / where(plan.zero > 0, sharding_ranks(plan), 1)
    owned = owned + experts / where(plan.zero > 0, expert_sharding_ranks(plan), 1)
    read = where(casts_gradients(plan, inputs), gradient + 3 * FP32_BYTES, 2 * gradient)
    # An fp32 copy is written, read and written by the update, and read twice to be quantised.
    states = 2 * optimizer_bytes(plan, inputs) + 5 * inputs.runtime.storage.cast_moment_bytes
    updated = read + states + inputs.gathered_bytes * half + _unfused_bytes(inputs)
    if inputs.runtime.storage.offloads_weights:
        return host_time(plan, inputs, owned, updated)
    bytes_moved = owned * (gradient if inputs.runtime.storage.offloads_states else updated)
    buffered = where(plan.zero > 1, owned, 1.0 * parameters + experts)
    cleared = gradient * buffered if half else 0.0
    on_device = elementwise_time(bytes_moved + cleared, inputs.cluster.accelerator) * slowdown(inputs)
    return on_device + (_host_time(plan, inputs, owned) if inputs.runtime.storage.offloads_states else 0.0)


def _unfused_bytes(inputs: Inputs) -> int:
    """Bytes a parameter that an update operator by operator moves more than one kernel: weights read and written
    once more, gradients and the first moment read once more, the second moment moved three times more, its root six.
    """
    storage = inputs.runtime.storage
    return 0 if storage.fused_update else 3 * storage.weight_bytes + 10 * storage.moment_bytes


def _host_time(plan: Layout, inputs: Inputs, owned: Numbers) -> Floats:
    """Seconds of what a rank owns on its way to the host and back, and of the update of all that its node owns."""
    copied = (FP32_BYTES + HALF_BYTES) * owned / inputs.cluster.accelerator.kernels.host_copy_bandwidth
    return 1.0 * copied + host_time(plan, inputs, owned, UPDATED_BYTES)


def host_time(plan: Layout, inputs: Inputs, owned: Numbers, bytes_moved: Numbers) -> Floats:
    """Seconds in which the processors of a node read and write so many bytes of every parameter that its ranks own.

    n P b / (28 u): a fused Adam of fp32 moves 28 bytes a parameter, and the runtime's host u parameters a second, so
    that it is bound by the node's memory.
    plan: scalar or array (n,); owned: P, parameters of one rank; bytes_moved: b, of each; scalar or array (n,). Returns
    seconds. Source: `updated_parameters_per_s` of the runtime; ATen/native/cpu/FusedAdamKernel.cpp of torch 2.13: a
    gradient is read, a weight and two moments are read and written.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> rate = LLAMA.runtime.host.updated_parameters_per_s
    >>> float(host_time(Plan(dp=8, zero=1), LLAMA, rate / 8, 28))
    1.0
    """
    ranks = smaller(plan.num_gpus, inputs.cluster.gpus_per_node)
    return ranks * owned * (bytes_moved / UPDATED_BYTES) / inputs.runtime.host.updated_parameters_per_s

"""Offloaded layers: activations that wait in the host's memory between the passes of their layer, whole or in part."""

from __future__ import annotations

from meshwright.arrays import Floats, larger
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.memory.graph_pool import WHOLE_STEP
from meshwright.cost.memory.offloaded import offloaded_bytes
from meshwright.cost.shard import layer_shard
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


def offloaded_share(inputs: Inputs) -> float:
    """Of the layers of a model, the share whose activations go to the host: min(k / n, 1), k as the runtime has it, n
    all layers, which one pipeline stage holds.

    Returns a share. Source: Megatron-core, transformer_config.py (cpu_offloading_num_layers).

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> offloaded_share(LLAMA)
    0.0
    """
    return min(inputs.runtime.activations.offloaded_layers / sum(inputs.layers_per_kind), 1.0)


def copied_time(plan: Layout, inputs: Inputs, kind: LayerKind) -> Floats:
    """Seconds of one layer and micro-batch for its saved activations to go to the host, or to come back.

    s A / B, with s the share of layers that are offloaded, A what a layer saves and B the bandwidth between the device
    and pinned memory, as the copies of some layers are spread over the passes of all.
    plan: scalar or array (n,). Returns seconds. Source: Transformer Engine 32be907d, pytorch/cpu_offload.py
    (AsyncDoubleBufferGroupOffloadHandler: window maps).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> float(copied_time(Plan(), LLAMA, LLAMA.model.layer_kinds[0]))  # nothing goes there
    0.0
    """
    saved: Floats = offloaded_share(inputs) * layer_memory(plan, inputs, kind).saved
    return saved / inputs.cluster.accelerator.kernels.host_copy_bandwidth


def module_copy_time(plan: Layout, inputs: Inputs, kind: LayerKind) -> Floats:
    """Seconds of one layer and micro-batch for what its offloaded modules save to go to the host, or to come back.

    C / B, with C what is copied and B the bandwidth between the device and pinned memory.
    plan: scalar or array (n,). Returns seconds. Source: `offloaded_bytes`; NVIDIA/Megatron-LM@d98e8a64ddf3
    core/pipeline_parallel/fine_grained_activation_offload.py (d2h_stream, h2d_stream: one copy at a time each way).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> float(module_copy_time(Plan(), LLAMA, LLAMA.model.layer_kinds[0]))  # nothing goes there
    0.0
    """
    copied = offloaded_bytes(plan, inputs, kind, layer_shard(plan, inputs, kind)).copied
    return copied / inputs.cluster.accelerator.kernels.host_copy_bandwidth


def waits_for_copies(
    plan: Layout, inputs: Inputs, kind: LayerKind, passes: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Seconds by which the copies of one layer and micro-batch hold up its forward and its backward pass.

    max(c - f, 0) / v and max(c - b, 0), c the seconds of copies each way, f and b of the passes and v the chunks of a
    rank. Inputs of modules come back a layer ahead, so that the copies of one layer run beside the pass of another; and
    no forward pass waits for theirs. But backward starts with what was copied last, so that what is still on its way
    holds it up where it follows its forward pass at once: on the last stage, which the others wait for, and of several
    chunks in one. The last layer of such a chunk stays on the device, which is not taken off. One CUDA graph of the
    whole step has every forward pass wait for the copies of the layer before, so that v is 1.
    plan: scalar or array (n,); passes: seconds of both. Returns seconds. Source: `copied_time`, `module_copy_time`;
    NVIDIA/Megatron-LM@d98e8a64ddf3 core/pipeline_parallel/fine_grained_activation_offload.py (should_bulk_offload,
    bulk_reload_group, on_group_start_backward, _drain_offload_pending).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> waits_for_copies(Plan(), LLAMA, LLAMA.model.layer_kinds[0], (0.1, 0.2))
    (0.0, 0.0)
    """
    if not (offloaded_share(inputs) or inputs.runtime.activations.offloaded_modules):
        return 0.0, 0.0
    copied = copied_time(plan, inputs, kind) + module_copy_time(plan, inputs, kind)
    forward, backward = (larger(copied - seconds, 0.0) for seconds in passes)
    return (forward if inputs.runtime.host.graphs == WHOLE_STEP else forward / plan.vpp), backward

"""Switches: what a question gains where a switch of its runtime is at another position."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.errors import InvalidSpec
from meshwright.specs.behaviours import (
    ACTIVATION_FUSION,
    FUSED_EXPERTS,
    GROUPED_EXPERTS,
    LIGER,
    PERMUTE_FUSION,
    ROPE_FUSION,
    position_of,
    with_behaviours,
)
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import HALF_BYTES
from meshwright.specs.runtime import Runtime

OF_EXPERTS = (PERMUTE_FUSION, GROUPED_EXPERTS, FUSED_EXPERTS)
KERNEL_SWITCHES = (*OF_EXPERTS, ACTIVATION_FUSION, ROPE_FUSION, LIGER)
"""Switches for faster kernels, the first of models with experts."""


def switched_on(runtime: Runtime, field: str, otherwise: float) -> float:
    """The highest number that a switch of the runtime gives a field; `otherwise` where no switch sets it.

    >>> from meshwright.specs.runtime import read_runtime
    >>> switched_on(read_runtime("megatron-core"), "overlap.tensor_parallel", 0.9)
    0.5
    """
    positions = (values for switch in runtime.switches.values() for values in switch.values())
    return max((float(values[field]) for values in positions if field in values), default=otherwise)


def with_kernels_on(inputs: Inputs, switch: str) -> Inputs | None:
    """The question with one of `KERNEL_SWITCHES` on; None where it is on already, and where its runtime, as of now, has
    no such switch or does not run these kernels in the question's precision or for its model.

    >>> from meshwright.specs.reading.examples import MIXTRAL  # in bf16
    >>> print(with_kernels_on(MIXTRAL, FUSED_EXPERTS))
    None
    """
    runtime = inputs.runtime
    of_now = runtime.id == runtime.framework and switch in runtime.switches
    lacks = switch in OF_EXPERTS and not inputs.model.is_moe
    lacks |= switch == ACTIVATION_FUSION and inputs.model.gates_with_gelu
    if lacks or not of_now or position_of(runtime, switch) in ("on", ""):
        return None
    try:
        return inputs.replace(runtime=with_behaviours(runtime, [f"{switch}=on"]))
    except InvalidSpec:
        return None


def narrower_forms(inputs: Inputs) -> Iterator[tuple[str, Inputs]]:
    """The question at every position of its runtime's switches at which optimizer states take fewer bytes a parameter
    on the device, or inputs of activations fewer an element: each with the change that `--with` takes.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> [change for change, _ in narrower_forms(LLAMA)]
    ['optimizer_states=bf16', 'optimizer_states=fp8', 'optimizer_states=offloaded']
    """
    for change, after in _positions(inputs):
        if _kept_bytes(after) < _kept_bytes(inputs):
            yield change, after


def forms_on_device(inputs: Inputs) -> Iterator[tuple[str, Inputs]]:
    """The question at every position of its runtime's switches that brings optimizer states back from the host's
    memory, each with the change that `--with` takes; none where they are on the device.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> offloaded = LLAMA.replace(runtime=with_behaviours(LLAMA.runtime, ["optimizer_states=offloaded"]))
    >>> [change for each in (LLAMA, offloaded) for change, _ in forms_on_device(each)]
    ['optimizer_states=fp32', 'optimizer_states=bf16', 'optimizer_states=fp8']
    """
    for change, after in _positions(inputs) if inputs.runtime.storage.offloads_states else ():
        if not after.runtime.storage.offloads_states:
            yield change, after


def narrow_activation_inputs(inputs: Inputs) -> bool:
    """Whether inputs of activations are kept in fewer than 2 bytes, in any layer.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> narrow_activation_inputs(LLAMA)
    False
    """
    kernels = inputs.runtime.elementwise_bytes
    return any(kernels.kept_input_bytes(kind.feed_forward) < HALF_BYTES for kind in inputs.model.layer_kinds)


def _positions(inputs: Inputs) -> Iterator[tuple[str, Inputs]]:
    """The question at every position of every switch of its runtime, where it is a valid one."""
    for switch, positions in inputs.runtime.switches.items():
        for change in (f"{switch}={position}" for position in positions):
            try:
                yield change, inputs.replace(runtime=with_behaviours(inputs.runtime, [change]))
            except InvalidSpec:
                continue


def _kept_bytes(inputs: Inputs) -> float:
    """Of a parameter's optimizer states on the device, and of an element that enters an activation."""
    states = 0.0 if inputs.runtime.storage.offloads_states else inputs.optimizer_bytes
    return states + (1 if narrow_activation_inputs(inputs) else HALF_BYTES)

"""Host: what ranks copy to and from the host's memory where their weights are there."""

from __future__ import annotations

from meshwright.arrays import Floats, smaller
from meshwright.cost.comms.exchange import Message
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs

UPDATE_BYTES = 28
"""Of a parameter that Adam updates in fp32: weight, gradient and two moments read, all but the gradient written."""
ADD_BYTES = 12
"""Of a gradient that is added to another in fp32: both read, one written."""


def host_copies(plan: Layout, inputs: Inputs, axis: str, owned: Floats) -> tuple[Message, Message, Message]:
    """The shard of some weights to the device, their reduced gradients back, and those of a further micro-batch, which
    the host waits for and adds to what it has, so that it issues nothing meanwhile.

    w P / n bytes each over PCIe, w of a stored weight. Adding is bound by the host's memory as the update is: 12 of its
    28 bytes a parameter, of all ranks of the node. plan: scalar or array (n,); axis: of the ranks that share the
    weights; owned: P / n, a count. Returns bytes and seconds. Source: torch 2.13
    distributed/fsdp/_fully_shard/_fsdp_param.py L839-900 and _fsdp_collectives.py L711-760.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.examples import LLAMA_OFFLOADED
    >>> to, back, added = host_copies(Plan(dp=8, zero=3), LLAMA_OFFLOADED, "dp_shard", 1e9)
    >>> round(float(to.seconds) * 1e3, 1), bool(added.seconds > back.seconds)  # 4 GB at 55 GB/s
    (72.7, True)
    """
    size = inputs.runtime.storage.weight_bytes * owned
    copied = size / inputs.cluster.accelerator.kernels.host_copy_bandwidth
    ranks = smaller(plan.num_gpus, inputs.cluster.gpus_per_node)
    adding = ADD_BYTES / UPDATE_BYTES * ranks * owned / inputs.runtime.host.updated_parameters_per_s
    return (
        Message(axis, "copy", "weights from the host", bytes=size, seconds=copied),
        Message(axis, "copy", "gradients to the host", bytes=size, seconds=copied),
        Message(axis, "copy", "gradients added on the host", bytes=size, seconds=copied + adding),
    )

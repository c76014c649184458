"""Host memory: what optimizer states on the host need there."""

from __future__ import annotations

from meshwright.specs.inputs import Inputs
from meshwright.specs.weights import parameter_count

MOST_HOST_BYTES = 4e12
"""Of memory in a node; more states than that are not offered to hosts. Assumed for all from the DGX B200, source:
https://docs.nvidia.com/dgx/dgxb200-user-guide/introduction-to-dgxb200.html (2 TB, upgradable to 4 TB).
"""


def host_bytes(inputs: Inputs) -> float:
    """Bytes of optimizer states, with the weights that they update, and gradients in the memory of each node, evenly
    divided; 0 where they are on the device.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> host_bytes(LLAMA)
    0.0
    """
    whole = (inputs.optimizer_bytes + inputs.runtime.storage.weight_bytes) * parameter_count(inputs.model)
    return whole / inputs.cluster.num_nodes if inputs.runtime.storage.offloads_states else 0.0


def hosts_hold(inputs: Inputs) -> bool:
    """Whether there are nodes with memory for what a question keeps on the host."""
    return host_bytes(inputs) <= MOST_HOST_BYTES

"""The usual levels of links around an accelerator: its scale-up domain, then one network over everything."""

from __future__ import annotations

from meshwright.specs.cluster import Accelerator, Level
from meshwright.units import format_bandwidth, format_seconds

NETWORK_LATENCY_S = 14e-6
"""One hop over the network, seconds: NVIDIA/nccl@5067397c src/graph/tuning.cc, ring, Simple protocol."""
SCALE_UP_LATENCY_S = {"nvlink": 3.4e-6, "xgmi": 3.4e-6, "pcie": 5.7e-6}
"""One hop inside the scale-up domain, seconds: the same table; xGMI taken as NVLink."""


def hop_latency(level_name: str) -> float:
    """Seconds of one hop over a level of that name; a name that is no scale-up link counts as network.

    >>> hop_latency("nvlink")
    3.4e-06
    """
    return SCALE_UP_LATENCY_S.get(level_name.lower(), NETWORK_LATENCY_S)


def largest_node(accelerator: Accelerator) -> int:
    """The most accelerators that one node is believed to hold: twice the usual machine, or a whole domain."""
    return max(accelerator.scale_up_domain, 2 * accelerator.node_size)


def scale_up_block(accelerator: Accelerator, num_nodes: int, gpus_per_node: int) -> int:
    """Ranks in one scale-up domain: a node, or whole nodes where the domain spans nodes (NVL72).

    Of several domains each gives equally many nodes, the largest number that divides all and fits, as schedulers place
    jobs (Slurm, `--segment`): otherwise groups of ranks would lie across two racks. Where that is less than half of
    what fits, domains are filled and the last one has the rest.
    """
    if accelerator.scale_up_domain <= accelerator.node_size:
        return gpus_per_node
    fit = max(accelerator.scale_up_domain // gpus_per_node, 1)
    equal = max(nodes for nodes in range(1, fit + 1) if num_nodes % nodes == 0)
    return gpus_per_node * (equal if 2 * equal >= fit else fit)


def usual_levels(
    accelerator: Accelerator, num_nodes: int, gpus_per_node: int, nic_bandwidth: float | None = None
) -> tuple[Level, ...]:
    """The scale-up domain and, where it does not hold every rank, one `fabric` over all.

    nic_bandwidth: network of one accelerator, one direction, bytes/s; None: the catalogued one.
    Block sizes are nominal: the outermost is the smallest whole number of domains that holds every rank.
    """
    ranks = num_nodes * gpus_per_node
    block = scale_up_block(accelerator, num_nodes, gpus_per_node)
    domain = Level(
        name=accelerator.scale_up_name,
        size=min(block, ranks),
        bandwidth=accelerator.scale_up_bandwidth,
        latency_s=hop_latency(accelerator.scale_up_name),
    )
    return (domain,) if ranks <= block else (domain, fabric(domain, ranks, nic_bandwidth or accelerator.nic_bandwidth))


def fabric(inner: Level, ranks: int, bandwidth: float) -> Level:
    """A network over everything: the smallest whole number of `inner` blocks that holds `ranks`."""
    blocks = max(-(-ranks // inner.size), 2)
    return Level(name="fabric", size=blocks * inner.size, bandwidth=bandwidth, latency_s=NETWORK_LATENCY_S)


def node_assumptions(accelerator: Accelerator, gpus_per_node: int) -> list[str]:
    """What is assumed about a node that differs from the usual one."""
    if gpus_per_node == accelerator.node_size:
        return []
    notes = [f"Accelerators per node: {gpus_per_node}; the usual {accelerator.id} node has {accelerator.node_size}."]
    if gpus_per_node > accelerator.scale_up_domain:
        notes.append(f"One {accelerator.scale_up_name} domain over the {gpus_per_node} accelerators of a node.")
    return notes


def segment_assumptions(accelerator: Accelerator, gpus_per_node: int, levels: tuple[Level, ...]) -> list[str]:
    """What is assumed about a scale-up domain that a cluster uses in part."""
    size, domain = levels[0].size, accelerator.scale_up_domain
    if len(levels) == 1 or size == gpus_per_node or size == domain // gpus_per_node * gpus_per_node:
        return []
    return [
        f"Racks: {size} of the {domain} accelerators of each {accelerator.scale_up_name} domain, "
        f"equal segments of {size // gpus_per_node} nodes."
    ]


def network_assumption(accelerator: Accelerator) -> str:
    """What is assumed about the network when nothing is said of it."""
    return (
        f"Network {format_bandwidth(accelerator.nic_bandwidth)} per accelerator, one direction: "
        f"assumed from the usual {accelerator.id} node, without oversubscription."
    )


def latency_assumption(names: list[str]) -> str:
    """Which latencies come from NCCL's tuning constants."""
    hops = ", ".join(f"{name} {format_seconds(hop_latency(name))}" for name in names)
    return f"Latency of one hop: {hops}, from NCCL's tuning constants."

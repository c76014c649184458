"""The usual levels of links around an accelerator: its scale-up domain, then one network over everything."""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.specs.cluster import Accelerator, Level
from meshwright.units import format_bandwidth, format_seconds


def hop_latency(accelerator: Accelerator, block: int, gpus_per_node: int) -> float:
    """Seconds of one hop over a level of `block` ranks: of the accelerator's own links, where one node or one scale-up
    domain holds the block, else of a network.

    >>> from meshwright.specs.reading.accelerator import read_accelerator
    >>> [hop_latency(read_accelerator("h100"), block, 8) for block in (8, 16)]
    [3.4e-06, 1.4e-05]
    """
    inside = block <= max(accelerator.scale_up_domain, gpus_per_node)
    return accelerator.scale_up_latency_s if inside else accelerator.kernels.library.hop_latency_s


def largest_node(accelerator: Accelerator) -> int:
    """The most accelerators that one node is believed to hold: twice the usual machine, or a whole domain."""
    return max(accelerator.scale_up_domain, 2 * accelerator.node_size)


def scale_up_block(accelerator: Accelerator, num_nodes: int, gpus_per_node: int) -> int:
    """Ranks in one scale-up domain: a node, or whole nodes where the domain spans nodes (NVL72).

    Of several domains each gives equally many nodes, the largest number that divides all and fits, as schedulers place
    jobs (Slurm, `--segment`): otherwise groups of ranks would lie across two racks. Where that is less than half of
    what fits, domains are filled and the last one has the rest.
    """
    if not accelerator.domain_spans_nodes:
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
        latency_s=accelerator.scale_up_latency_s,
    )
    return (domain,) if ranks <= block else (domain, fabric(accelerator, domain, ranks, nic_bandwidth))


def fabric(accelerator: Accelerator, inner: Level, ranks: int, nic_bandwidth: float | None = None) -> Level:
    """A network over everything: the smallest whole number of `inner` blocks that holds `ranks`.

    nic_bandwidth: network of one accelerator, one direction, bytes/s; None: the catalogued one.
    """
    blocks = max(-(-ranks // inner.size), 2)
    latency_s = accelerator.kernels.library.hop_latency_s
    bandwidth = nic_bandwidth or accelerator.nic_bandwidth
    return Level(name="fabric", size=blocks * inner.size, bandwidth=bandwidth, latency_s=latency_s)


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


def latency_assumption(levels: Sequence[Level]) -> str:
    """Which latencies come from NCCL's tuning constants."""
    hops = ", ".join(f"{level.name} {format_seconds(level.latency_s)}" for level in levels)
    return f"Latency of one hop: {hops}, from NCCL's tuning constants."

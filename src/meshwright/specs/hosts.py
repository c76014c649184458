"""Hosts: the machines, each under one operating system, that make up the nodes of a question."""

from __future__ import annotations

from meshwright.specs import catalog
from meshwright.specs.cluster import Accelerator, Cluster


def gpus_per_host(cluster: Cluster) -> int:
    """Accelerators of one host, a count: of a node that is several usual machines in one scale-up domain (NVL72), those
    of one machine; else those of the node.

    >>> from meshwright.specs.reading.cluster import read_cluster
    >>> [gpus_per_host(read_cluster(name)) for name in ("12x72:gb300", "1x6:gb300", "8x8:h100")]
    [4, 6, 8]
    """
    accelerator, gpus = cluster.accelerator, cluster.gpus_per_node
    several = accelerator.domain_spans_nodes and gpus > accelerator.node_size and not gpus % accelerator.node_size
    return accelerator.node_size if several else gpus


def largest_host(accelerator: Accelerator) -> int:
    """Accelerators of the largest host that the catalogue has of a kind, a count: the usual machine, or one of a
    catalogued cluster.

    >>> from meshwright.specs.reading.accelerator import read_accelerator
    >>> [largest_host(read_accelerator(name)) for name in ("h100", "v100")]
    [8, 16]
    """
    entries = (catalog.load("clusters", name) for name in catalog.names("clusters"))
    nodes = (
        entry.get("gpus_per_node", 0)
        for entry in entries
        if catalog.resolve("accelerators", entry["accelerator"]) == accelerator.id
    )
    return int(max(accelerator.node_size, *nodes, 0))


def unknown_host(cluster: Cluster) -> str:
    """That the catalogue has no host of so many accelerators, with the nearest cluster that it has hosts for; empty
    where it has one.

    >>> from meshwright.specs.reading.cluster import read_cluster
    >>> unknown_host(read_cluster("1x16:h100"))
    'No node of 16 h100-sxm-80gb is in the catalogue; the largest has 8. Nearest: 2x8:h100-sxm-80gb.'
    >>> unknown_host(read_cluster("12x72:gb300"))
    ''
    """
    accelerator, gpus = cluster.accelerator, gpus_per_host(cluster)
    if gpus <= accelerator.node_size or gpus <= (largest := largest_host(accelerator)):
        return ""
    nodes = -(-cluster.num_gpus // largest)
    return (
        f"No node of {gpus} {accelerator.id} is in the catalogue; the largest has {largest}. "
        f"Nearest: {nodes}x{largest}:{accelerator.id}."
    )

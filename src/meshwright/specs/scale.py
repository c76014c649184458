"""Scale: the same cluster with another number of nodes."""

from __future__ import annotations

from meshwright.specs.cluster import Cluster
from meshwright.specs.topology import fabric


def with_nodes(cluster: Cluster, num_nodes: int) -> Cluster:
    """The cluster grown or shrunk to `num_nodes` nodes, its outermost network stretched over all of them.

    A cluster of one scale-up domain that outgrows it gets a network of its accelerator's catalogued bandwidth.
    """
    ranks = num_nodes * cluster.gpus_per_node
    levels, outermost = cluster.levels[:-1], cluster.levels[-1]
    if outermost.size < ranks and not levels:
        levels, outermost = (outermost,), fabric(outermost, ranks, cluster.accelerator.nic_bandwidth)
    elif outermost.size < ranks:
        inner = levels[-1].size
        outermost = outermost.replace(size=-(-ranks // inner) * inner)
    return cluster.replace(
        name=f"{num_nodes} nodes of {cluster.name}", num_nodes=num_nodes, levels=(*levels, outermost)
    )

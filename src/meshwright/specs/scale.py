"""Scale: the same cluster with another number of nodes."""

from __future__ import annotations

from meshwright.specs.cluster import Cluster
from meshwright.specs.topology import fabric, usual_levels


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


def with_full_node(cluster: Cluster) -> Cluster | None:
    """One node of as many accelerators as the usual machine holds; None for a cluster that has more already."""
    accelerator = cluster.accelerator
    if cluster.num_nodes > 1 or cluster.gpus_per_node >= accelerator.node_size:
        return None
    levels = usual_levels(accelerator, 1, accelerator.node_size)
    return cluster.replace(name=f"1x{accelerator.node_size}", gpus_per_node=accelerator.node_size, levels=levels)

"""Scale: the same cluster with another number of nodes, or with other links between them."""

from __future__ import annotations

from itertools import pairwise

from meshwright.errors import InvalidInput
from meshwright.specs.cluster import Cluster, Level
from meshwright.specs.quantities import LEAST_BANDWIDTH, MOST
from meshwright.specs.topology import fabric, segment_assumptions, usual_levels


def with_nodes(cluster: Cluster, num_nodes: int) -> Cluster:
    """The cluster grown or shrunk to `num_nodes` nodes, its outermost network stretched over all of them.

    Usual levels become the usual ones of that many nodes. A cluster of one scale-up domain that outgrows it gets a
    network of its accelerator's catalogued bandwidth.
    """
    name, levels = f"{num_nodes} nodes of {cluster.name}", _stretched(cluster, num_nodes)
    notes = cluster.assumptions
    if cluster.levels == _usual_levels(cluster, cluster.num_nodes):
        old, new = (
            segment_assumptions(cluster.accelerator, cluster.gpus_per_node, each) for each in (cluster.levels, levels)
        )
        notes = (*(note for note in notes if note not in old), *new)
    return cluster.replace(name=name, num_nodes=num_nodes, levels=levels, assumptions=notes)


def _stretched(cluster: Cluster, num_nodes: int) -> tuple[Level, ...]:
    accelerator, ranks = cluster.accelerator, num_nodes * cluster.gpus_per_node
    levels, outermost = cluster.levels[:-1], cluster.levels[-1]
    if cluster.levels == _usual_levels(cluster, cluster.num_nodes):
        return _usual_levels(cluster, num_nodes)
    if outermost.size >= ranks:
        return cluster.levels
    if not levels:
        return outermost, fabric(accelerator, outermost, ranks)
    inner = levels[-1].size
    return *levels, outermost.replace(size=-(-ranks // inner) * inner)


def _usual_levels(cluster: Cluster, num_nodes: int) -> tuple[Level, ...]:
    network = cluster.levels[-1].bandwidth if len(cluster.levels) > 1 else cluster.accelerator.nic_bandwidth
    return usual_levels(cluster.accelerator, num_nodes, cluster.gpus_per_node, network)


def with_gpus(cluster: Cluster, gpus: int) -> Cluster:
    """The cluster shrunk or grown to `gpus` accelerators: whole nodes, or a part of one.

    Raises `InvalidInput` for more than a node that are no whole nodes.
    """
    nodes, rest = divmod(gpus, cluster.gpus_per_node)
    if not rest:
        return with_nodes(cluster, nodes)
    if nodes:
        near = nodes * cluster.gpus_per_node, (nodes + 1) * cluster.gpus_per_node
        raise InvalidInput(
            f"{gpus} accelerators are no whole number of nodes of {cluster.gpus_per_node}; the nearest: "
            f"{near[0]} or {near[1]}"
        )
    inner = [level for level in cluster.levels if level.size < gpus and gpus % level.size == 0]
    outer = next(level for level in cluster.levels if level.size >= gpus)
    return cluster.replace(
        name=f"{gpus} of {cluster.name}", num_nodes=1, gpus_per_node=gpus, levels=(*inner, outer.replace(size=gpus))
    )


def with_full_node(cluster: Cluster) -> Cluster | None:
    """One node of as many accelerators as the usual machine holds; None for a cluster that has more already."""
    accelerator = cluster.accelerator
    if cluster.num_nodes > 1 or cluster.gpus_per_node >= accelerator.node_size:
        return None
    levels = usual_levels(accelerator, 1, accelerator.node_size)
    return cluster.replace(name=f"1x{accelerator.node_size}", gpus_per_node=accelerator.node_size, levels=levels)


def network_levels(cluster: Cluster) -> tuple[Level, ...]:
    """The levels of links between nodes, innermost first; none where one scale-up domain holds every rank."""
    if cluster.num_nodes == 1:
        return ()
    above = (level for inner, level in pairwise(cluster.levels) if inner.size < cluster.num_gpus)
    return tuple(level for level in above if level.size > cluster.gpus_per_node)


def with_network(cluster: Cluster, factor: float) -> Cluster:
    """The cluster with every level of links between nodes `factor` times as fast, as far as a link can be.

    factor: a ratio above zero. Latencies, oversubscription and the links inside a node stay.
    """
    between = network_levels(cluster)
    levels = (_times(level, factor) if level in between else level for level in cluster.levels)
    return cluster.replace(levels=tuple(levels))


def _times(level: Level, factor: float) -> Level:
    return level.replace(bandwidth=min(max(level.bandwidth * factor, LEAST_BANDWIDTH), MOST))

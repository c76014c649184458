"""Hosts: the machines that launch files start on, where those are not the nodes of the question."""

from __future__ import annotations

from meshwright.specs.cluster import Cluster
from meshwright.specs.hosts import gpus_per_host, unknown_host


def host_warning(cluster: Cluster) -> tuple[str, ...]:
    """One line where the catalogue has no host of so many accelerators: the files start so many processes on one."""
    unknown = unknown_host(cluster)
    return (f"WARNING: {unknown} These files start {cluster.gpus_per_node} processes on a node.",) if unknown else ()


def host_lines(cluster: Cluster) -> tuple[str, ...]:
    """One line where each node of the question is several hosts."""
    host, gpus = gpus_per_host(cluster), cluster.gpus_per_node
    if host == gpus:
        return ()
    name, hosts = cluster.accelerator.scale_up_name, gpus // host
    return (
        f"Hosts: a {cluster.accelerator.id} host has {host} accelerators, so the {name} domain of {gpus} is {hosts} "
        f"hosts; these files start {host} processes on each of {cluster.num_gpus // host} hosts.",
    )

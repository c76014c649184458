"""Clusters: the one that a row names, or the one that its counts make."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from meshwright.errors import NotModelled, quoted
from meshwright.specs.cluster import Cluster
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.specs.reading.cluster import read_cluster
from meshwright.validation.rows.table import Row

BESIDE = ("inter_node_GBps_per_gpu", "power_limit_w")
"""What a named cluster says itself."""


def with_cluster(row: Row) -> Row:
    """The row with the accelerator and the counts of the cluster that it names; raises `InvalidInput` for one that no
    catalogue has, and for columns that say otherwise.
    """
    if not row["cluster"]:
        return row
    cluster = _named(row["cluster"])
    given = [column for column in BESIDE if row[column]]
    if given:
        raise NotModelled(f"cluster is {row['cluster']} and says itself what {' and '.join(given)} would; leave it out")
    gpu, per_node = cluster.accelerator.id, str(cluster.gpus_per_node)
    if row["gpu"] and read_accelerator(row["gpu"]).id != gpu:
        raise NotModelled(f"cluster is {row['cluster']} of {gpu}, and gpu {row['gpu']}")
    if row["gpus_per_node"] and row["gpus_per_node"] != per_node:
        raise NotModelled(
            f"cluster is {row['cluster']} with nodes of {per_node}, and gpus_per_node {row['gpus_per_node']}"
        )
    ranks = row["num_gpus"] or ("" if row["dp"] else str(cluster.num_gpus))
    return row | {"gpu": gpu, "gpus_per_node": per_node, "num_gpus": ranks}


def cluster_of(row: Row) -> Cluster:
    """The accelerators and their network of a row without blanks; fewer of them than a node holds are one node."""
    ranks = int(row["num_gpus"])
    per_node = min(int(row["gpus_per_node"]), ranks)
    if ranks % per_node:
        raise NotModelled(f"{ranks} accelerators do not fill nodes of {per_node}")
    if row["cluster"]:
        return _part(row["cluster"], ranks, per_node)
    return _described(row["gpu"], ranks // per_node, per_node, row["power_limit_w"], row["inter_node_GBps_per_gpu"])


@lru_cache(maxsize=4096)
def _described(gpu: str, nodes: int, per_node: int, power_limit_w: str, inter_node: str) -> Cluster:
    """Many rows have the same; inter_node: GB/s of one accelerator."""
    table: dict[str, Any] = {"accelerator": read_accelerator(gpu).id, "nodes": nodes, "gpus_per_node": per_node}
    if power_limit_w:
        table["power_limit_w"] = float(power_limit_w)
    if inter_node:
        table |= {"nics_per_node": per_node, "nic_bandwidth": f"{inter_node}GB/s"}
    return read_cluster(table)


@lru_cache(maxsize=4096)
def _named(name: str) -> Cluster:
    """A cluster of the catalogue or in the short form: a table names no files."""
    if name.endswith(".toml") or "/" in name or "\\" in name:
        raise NotModelled(f"cluster is {quoted(name)}; it must be of the catalogue, or as 8x8:h100")
    return read_cluster(name)


@lru_cache(maxsize=4096)
def _part(name: str, ranks: int, per_node: int) -> Cluster:
    """As many nodes of a named cluster as the ranks fill."""
    whole = _named(name)
    if whole.num_gpus == ranks:
        return whole
    if ":" in name:
        raise NotModelled(f"cluster is {name} with {whole.num_gpus} accelerators, and num_gpus {ranks}")
    if per_node < whole.gpus_per_node:
        raise NotModelled(f"cluster is {name} with nodes of {whole.gpus_per_node}, and num_gpus {ranks}")
    counted = re.fullmatch(r"\d+\s*[x×]\s*(.+)", name, re.IGNORECASE)
    return read_cluster(f"{ranks // per_node}x{counted[1] if counted else name}")

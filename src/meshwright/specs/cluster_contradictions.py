"""What a cluster file says twice or against itself, found even where other values are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meshwright.errors import Fault
from meshwright.specs.cluster import Accelerator, nesting_faults, reach_faults
from meshwright.specs.topology import largest_node


def contradictions(table: Mapping[str, Any], accelerator: Accelerator | None) -> list[Fault]:
    """Every contradiction between the nodes, the levels and the network adapters of a cluster file.

    table: the file as read; accelerator: None where it could not be read. Values that are no positive whole numbers
    have their own faults elsewhere and are passed over here.
    """
    nodes = _whole(table.get("nodes", 1))
    gpus_per_node = _whole(table.get("gpus_per_node", accelerator.node_size if accelerator else None))
    levels = _sizes(table.get("levels", ()))
    adapters = [key in table for key in ("nics_per_node", "nic_bandwidth")]
    faults = _half_an_adapter(adapters)
    if gpus_per_node and accelerator and not levels:
        faults += _crowded_node(gpus_per_node, accelerator)
    if levels:
        faults += nesting_faults(levels, gpus_per_node or 1)
    if nodes and gpus_per_node and levels:
        unreached = reach_faults(levels, nodes, gpus_per_node)
        faults += [] if all(adapters) else unreached
        faults += _second_network(adapters, levels) if not unreached else []
    return faults


def _second_network(adapters: list[bool], levels: list[tuple[str, int]]) -> list[Fault]:
    if not any(adapters) or len(levels) == 1:
        return []
    what = f"contradicts level {levels[-1][0]!r}, which already joins every node; give one of the two"
    return [Fault("nics_per_node" if adapters[0] else "nic_bandwidth", what)]


def _half_an_adapter(adapters: list[bool]) -> list[Fault]:
    if all(adapters) or not any(adapters):
        return []
    missing = "nic_bandwidth" if adapters[0] else "nics_per_node"
    return [Fault(missing, "is missing: nics_per_node and nic_bandwidth go together")]


def _crowded_node(gpus_per_node: int, accelerator: Accelerator) -> list[Fault]:
    largest = largest_node(accelerator)
    if gpus_per_node <= largest:
        return []
    what = f"{gpus_per_node} accelerators do not share a node of {accelerator.id}; nearest: {largest}"
    return [Fault("gpus_per_node", f"{what}, or describe the node with [[levels]]")]


def _sizes(levels: Any) -> list[tuple[str, int]]:
    if not isinstance(levels, list | tuple) or not all(isinstance(level, Mapping) for level in levels):
        return []
    sizes = [(str(level.get("name", "")), _whole(level.get("size"))) for level in levels]
    return [(name, size) for name, size in sizes if size] if all(size for _, size in sizes) else []


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

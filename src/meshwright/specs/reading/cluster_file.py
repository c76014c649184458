"""The cluster file: what it may say, and the Cluster that it describes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from meshwright.errors import Fault, InvalidInput, InvalidSpec
from meshwright.specs.base import Spec
from meshwright.specs.cluster import MAX_GPUS, Accelerator, Cluster, Level, nesting_faults, reach_faults
from meshwright.specs.quantities import Bandwidth, Bytes, Seconds
from meshwright.specs.reading.accelerator import read_accelerator, read_library
from meshwright.specs.topology import (
    fabric,
    hop_latency,
    largest_node,
    latency_assumption,
    network_assumption,
    node_assumptions,
    segment_assumptions,
    usual_levels,
)

Factor = Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)]
Count = Annotated[int, Field(gt=0, le=MAX_GPUS, strict=True)]
ADAPTERS = ("nics_per_node", "nic_bandwidth")
"""The network in short: what a file gives together or not at all."""


class LevelEntry(Spec):
    """One `[[levels]]` table."""

    name: str
    """`nvlink`, `node`, `rail`, `leaf`, `spine`, …"""
    size: Count
    """Ranks in one block."""
    bandwidth: Bandwidth
    """Per accelerator, one direction, bytes/s."""
    latency: Seconds | None = None
    """One hop, seconds; None: that of the accelerator's links inside a node or scale-up domain, else of a network."""
    oversubscription: Factor = 1.0
    """Bandwidth below this level over bandwidth through it."""

    def level(self, accelerator: Accelerator, gpus_per_node: int) -> Level:
        """The level of links that it describes."""
        latency = hop_latency(accelerator, self.size, gpus_per_node) if self.latency is None else self.latency
        return Level(**self.model_dump(exclude={"latency"}), latency_s=latency)


class ClusterEntry(Spec):
    """A whole cluster file; see `docs/cluster.md`."""

    accelerator: Any
    """A catalogue name, or a table of the fields of `Accelerator`."""
    name: str | None = None
    nodes: Count = 1
    gpus_per_node: Count | None = None
    """None: the accelerator's usual machine."""
    nics_per_node: Count | None = None
    nic_bandwidth: Bandwidth | None = None
    """Of one adapter, one direction, bytes/s."""
    levels: tuple[LevelEntry, ...] = ()
    """Innermost first; none: the scale-up domain and a network over everything."""
    visible_memory: Bytes | None = None
    """What the driver of this site reports, bytes."""
    library: str | None = None
    """Of collectives, by its name in the catalogue; None: the accelerator's usual one."""
    site_derate: Annotated[float, Field(ge=0.5, le=1000, allow_inf_nan=False)] = 1.0
    power_limit_w: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    aliases: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    sources: dict[str, str] = {}


def cluster_of(source: Mapping[str, Any], subject: str = "cluster file") -> Cluster:
    """The cluster that a table describes.

    source: the keys of `ClusterEntry`; subject: what errors call it.
    Raises `InvalidSpec` with every fault and its path: unknown keys with the nearest known one, wrong values,
    levels that contradict each other or the network adapters.
    """
    table = {str(key): value for key, value in source.items()}
    entry, faults = _entry(table)
    accelerator, more = _accelerator(table)
    faults += [*more, *_contradictions(table, accelerator)]
    if entry is not None and accelerator is not None and not faults:
        try:
            return _cluster(entry, accelerator)
        except InvalidSpec as error:
            names = {"num_nodes": "nodes"}
            faults += [Fault(names.get(fault.where, fault.where), fault.what) for fault in error.faults]
    raise InvalidSpec(subject, faults)


def _entry(table: dict[str, Any]) -> tuple[ClusterEntry | None, list[Fault]]:
    try:
        return ClusterEntry(**table), []
    except InvalidSpec as error:
        return None, list(error.faults)


def _accelerator(table: dict[str, Any]) -> tuple[Accelerator | None, list[Fault]]:
    if "accelerator" not in table:
        return None, []
    try:
        accelerator = read_accelerator(table["accelerator"])
    except InvalidSpec as error:
        return None, [Fault(f"accelerator.{fault.where}".rstrip("."), fault.what) for fault in error.faults]
    except InvalidInput as error:
        return None, [Fault("accelerator", str(error))]
    try:
        return _with_library(accelerator, table.get("library")), []
    except InvalidInput as error:
        return accelerator, [Fault("library", str(error))]


def _with_library(accelerator: Accelerator, name: Any) -> Accelerator:
    """The accelerator with another library of collectives; name: as read, which has its own fault if it is no text."""
    if not isinstance(name, str):
        return accelerator
    return accelerator.replace(kernels=accelerator.kernels.replace(library=read_library(name)))


def _cluster(entry: ClusterEntry, accelerator: Accelerator) -> Cluster:
    gpus_per_node = entry.gpus_per_node or accelerator.node_size
    levels = _levels(entry, accelerator, gpus_per_node)
    return Cluster(
        name=entry.name or f"{entry.nodes}x{gpus_per_node}:{accelerator.id}",
        accelerator=_with_memory(accelerator, entry.visible_memory),
        num_nodes=entry.nodes,
        gpus_per_node=gpus_per_node,
        levels=levels,
        site_derate=entry.site_derate,
        power_limit_w=entry.power_limit_w,
        assumptions=(*entry.assumed, *_assumptions(entry, accelerator, gpus_per_node, levels)),
        sources=entry.sources,
    )


def _with_memory(accelerator: Accelerator, visible_memory: float | None) -> Accelerator:
    if visible_memory is None:
        return accelerator
    try:
        return accelerator.replace(visible_memory_bytes=visible_memory)
    except InvalidSpec as error:
        raise InvalidSpec("cluster", [Fault("visible_memory", fault.what) for fault in error.faults]) from None


def _assumptions(
    entry: ClusterEntry, accelerator: Accelerator, gpus_per_node: int, levels: tuple[Level, ...]
) -> list[str]:
    assumptions = node_assumptions(accelerator, gpus_per_node)
    if not entry.levels:
        assumptions += segment_assumptions(accelerator, gpus_per_node, levels)
    if not entry.levels and len(levels) > 1 and entry.nics_per_node is None:
        assumptions.append(network_assumption(accelerator))
    timed = {level.name for level in entry.levels if level.latency is not None}
    untimed = [level for level in levels if level.name not in timed]
    exchanges = entry.nodes * gpus_per_node > 1
    return [*assumptions, latency_assumption(untimed)] if untimed and exchanges else assumptions


def _levels(entry: ClusterEntry, accelerator: Accelerator, gpus_per_node: int) -> tuple[Level, ...]:
    ranks = entry.nodes * gpus_per_node
    network = None
    if entry.nics_per_node and entry.nic_bandwidth:
        network = entry.nics_per_node * entry.nic_bandwidth / gpus_per_node
    if not entry.levels:
        return usual_levels(accelerator, entry.nodes, gpus_per_node, network)
    levels = [level.level(accelerator, gpus_per_node) for level in entry.levels]
    needed = sum(level.size < ranks for level in levels) + 1
    if network and needed > len(levels):
        return (*levels, fabric(accelerator, levels[-1], ranks, network))
    return tuple(levels[:needed])


def _contradictions(table: Mapping[str, Any], accelerator: Accelerator | None) -> Iterator[Fault]:
    """What a cluster file says twice or against itself of nodes, levels and network adapters, whatever else is wrong.

    table: the file as read; accelerator: None where it could not be read. Values that are no positive whole numbers
    have their own faults elsewhere and are passed over here.
    """
    nodes = _whole(table.get("nodes", 1))
    gpus_per_node = _whole(table.get("gpus_per_node", accelerator.node_size if accelerator else None))
    levels = _sizes(table.get("levels", ()))
    adapters = [key for key in ADAPTERS if key in table]
    if len(adapters) == 1:
        missing = next(key for key in ADAPTERS if key not in table)
        yield Fault(missing, f"is missing: {' and '.join(ADAPTERS)} go together")
    if gpus_per_node and accelerator and not levels and gpus_per_node > largest_node(accelerator):
        what = f"{gpus_per_node} accelerators do not share a node of {accelerator.id}"
        nearest = f"nearest: {largest_node(accelerator)}, or describe the node with [[levels]]"
        yield Fault("gpus_per_node", f"{what}; {nearest}")
    yield from nesting_faults(levels, gpus_per_node or 1)
    if not (nodes and gpus_per_node and levels):
        return
    unreached = reach_faults(levels, nodes, gpus_per_node)
    if len(adapters) < 2:
        yield from unreached
    if adapters and len(levels) > 1 and not unreached:
        what = f"contradicts level {levels[-1][0]!r}, which already joins every node; give one of the two"
        yield Fault(adapters[0], what)


def _sizes(levels: Any) -> list[tuple[str, int]]:
    if not isinstance(levels, list | tuple) or not all(isinstance(level, Mapping) for level in levels):
        return []
    sizes = [(str(level.get("name", "")), _whole(level.get("size"))) for level in levels]
    return [(name, size) for name, size in sizes if size] if all(size for _, size in sizes) else []


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

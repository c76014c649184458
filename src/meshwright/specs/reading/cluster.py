"""Clusters: from a short form, a catalogue name, a TOML file or a table."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meshwright.arguments import checked
from meshwright.errors import InvalidInput, UnknownName, quoted
from meshwright.specs import catalog
from meshwright.specs.cluster import Cluster
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.specs.reading.cluster_file import cluster_of
from meshwright.text_files import read_text, unreadable
from meshwright.units import parse_bandwidth

_SHORT = re.compile(r"(\d+)\s*[x×]\s*(\d+)\s*:\s*(\S.*)", re.IGNORECASE)
_PART = re.compile(r"\s*\d*\s*[x×]?\s*\d*\s*", re.IGNORECASE)
_COUNTED = re.compile(r"(\d+)\s*[x×]\s*(\S.*)", re.IGNORECASE)
_WITHOUT_COLON = re.compile(r"(\d+)(?:\s*[x×]\s*|[\s_-]*)([^\W\d].*)", re.IGNORECASE)
_ADAPTERS = re.compile(r"\s*(?:(\d{1,4})\s*[x×])?(.*)", re.IGNORECASE | re.DOTALL)
_FORMS = (
    "write NODESxGPUS:ACCELERATOR (8x8:h100), a catalogue name (dgx-h100), NODESxNAME (16xdgx-h100) "
    "or the path of a TOML file"
)
_UNLISTED = (
    'an accelerator that is not listed goes into a TOML file, as [accelerator] with like = "l40s" or another one, and '
    "what differs (docs/cluster.md)"
)
_LARGEST_NODE = 72
"""Accelerators that a node of any catalogued machine has, or a rack; a larger number is the name of one."""


Described = tuple[Mapping[str, Any], str]
"""A table with the keys of a cluster file, and what errors call it."""


@checked
def read_cluster(source: str | Path | Mapping[str, Any], network: str | None = None) -> Cluster:
    """The cluster that a user names.

    source: `NODESxGPUS:ACCELERATOR` (`8x8:h100`, `18x4:gb200`), a catalogue name (`selene`) with or without a number of
    nodes before it (`16xdgx-h100`; a node of an NVL72 rack is one tray of 4), the path of a TOML file, or a table with
    the keys of such a file::

        accelerator = "h100"            # a catalogue name, or an [accelerator] table
        nodes = 16
        gpus_per_node = 8               # default: the accelerator's usual machine
        nics_per_node = 4               # the network in short: adapters of a node and the speed of one
        nic_bandwidth = "400Gb/s"
        library = "nccl-efa"            # of collectives, where it is not the accelerator's usual one
        site_derate = 1.1               # kernels run this much slower than on published sites; default 1
        power_limit_w = 500             # of one accelerator; default: what it is rated for
        visible_memory = "79.1GiB"      # default: what the catalogue says

        [[levels]]                      # the links in full, innermost first, instead of the adapters
        name = "nvlink"
        size = 8                        # ranks in one block
        bandwidth = "450GB/s"           # per accelerator, one direction
        latency = "3.4us"               # default: NCCL's tuning constant
        oversubscription = 1.0          # default 1

    Without levels the cluster has the scale-up domain of its accelerator and, around it, one network over everything.
    network: what a node sends to others, in place of what the source says, as `10Gb/s` or `8x400Gb/s`.
    Raises `InvalidInput`, `UnknownName` or `InvalidSpec`; what is assumed stands in `Cluster.assumptions`.

    >>> [(level.name, level.size) for level in read_cluster("8x8:h100").levels]
    [('nvlink', 8), ('fabric', 64)]
    >>> read_cluster("18x4:gb200").levels[0].size
    72
    >>> read_cluster("2x8:h100", network="100Gb/s").levels[-1].bandwidth
    1562500000.0
    """
    table, subject = (source, "cluster file") if isinstance(source, Mapping) else _described(source)
    return cluster_of(table if network is None else _with_network(table, network), subject)


def named_cluster(name: str, network: str | None = None) -> Cluster:
    """The cluster of a short form or of the catalogue, never of a file, with `network` as `read_cluster` takes it;
    raises `InvalidInput` or `UnknownName`.
    """
    table, subject = _named(name.strip())
    return cluster_of(table if network is None else _with_network(table, network), subject)


def _with_network(table: Mapping[str, Any], network: str) -> dict[str, Any]:
    """The table with adapters in place of the network that it says."""
    return {key: value for key, value in table.items() if key != "levels"} | adapters_of(network)


def adapters_of(network: str) -> dict[str, Any]:
    """What a node sends to others, in the keys of a cluster file; raises `InvalidInput`.

    >>> adapters_of("8x400Gb/s")
    {'nics_per_node': 8, 'nic_bandwidth': 50000000000.0}
    """
    count, speed = _ADAPTERS.match(network).groups()  # type: ignore[union-attr]
    return {"nics_per_node": int(count or 1), "nic_bandwidth": parse_bandwidth(speed)}


def _described(source: str | Path) -> Described:
    if isinstance(source, Path):
        return _from_file(source)
    text = str(source).strip()
    is_path = text.endswith(".toml") or "/" in text or "\\" in text
    return _from_file(Path(text)) if is_path and not _SHORT.fullmatch(text) else _named(text)


def _named(text: str) -> Described:
    if match := _SHORT.fullmatch(text):
        return _from_short_form(text, *match.groups())
    if match := _COUNTED.fullmatch(text):
        return _from_count(text, *match.groups())
    return _from_name(text)


def _from_short_form(text: str, nodes: str, gpus: str, accelerator: str) -> Described:
    try:
        known = read_accelerator(accelerator)
    except UnknownName as unknown:
        if not _is("clusters", accelerator):
            raise _unlisted(unknown) from None
        name = accelerator.strip()
        raise InvalidInput(
            f"{quoted(text)}: {quoted(name)} is a cluster: write {_whole(text, nodes) or 1}x{name}"
        ) from None
    counts = {"nodes": _whole(text, nodes), "gpus_per_node": _whole(text, gpus)}
    if not all(counts.values()):
        nearest = f"{counts['nodes'] or 1}x{counts['gpus_per_node'] or known.node_size}:{accelerator}"
        raise InvalidInput(
            f"{quoted(text)} is an empty cluster: nodes and GPUs per node start at 1; nearest: {nearest}"
        )
    return {"accelerator": accelerator, **counts}, f"cluster {text!r}"


def _unlisted(unknown: UnknownName) -> InvalidInput:
    """The error for what may be an accelerator that the catalogue does not have, with the way to describe it."""
    return InvalidInput(f"{unknown}; {_UNLISTED}")


def _from_count(text: str, nodes: str, name: str) -> Described:
    if name.strip(": ").isdigit() and not _is("accelerators", name):
        if _whole(text, name.strip(": ")) > _LARGEST_NODE:
            return _from_short_form(text, nodes, "1", name)
        nearest = f"{nodes}x{name.strip(': ')}:h100"
        raise InvalidInput(f"{quoted(text)} names no accelerator; nearest: {nearest} ({_FORMS})")
    count = _whole(text, nodes)
    if _is("accelerators", name) and not _is("clusters", name):
        gpus = math.gcd(count, read_accelerator(name).node_size)
        raise InvalidInput(
            f"{quoted(text)}: {quoted(name)} is an accelerator: write NODESxGPUS:ACCELERATOR, "
            f"for example {max(count // gpus, 1)}x{gpus}:{name}"
        )
    if (glued := _WITHOUT_COLON.fullmatch(name)) and _is("accelerators", glued[2]):
        nearest = f"{count or 1}x{_whole(text, glued[1]) or 1}:{glued[2]}"
        raise InvalidInput(f"{quoted(text)} has no colon before its accelerator; nearest: {nearest} ({_FORMS})")
    try:
        id_ = catalog.resolve("clusters", name)
    except UnknownName as unknown:
        raise _unlisted(unknown) from None
    if count == 0:
        raise InvalidInput(f"{quoted(text)} is an empty cluster: nodes start at 1; nearest: 1x{id_}")
    entry = catalog.load("clusters", id_)
    part = [_part_of(id_, count, entry)] if entry["nodes"] not in (1, count) else []
    changed = {"nodes": count, "name": f"{count}x{id_}", "assumed": [*entry.get("assumed", ()), *part]}
    return entry | changed, f"cluster {text!r}"


def _part_of(id_: str, nodes: int, entry: Mapping[str, Any]) -> str:
    """That a cluster has other nodes than the catalogued one; of a rack, what as many racks are called."""
    rack = read_accelerator(entry["accelerator"]).domain_spans_nodes
    racks = f"; {nodes} racks are {nodes * entry['nodes']}x{id_}" if rack else ""
    return f"Nodes: {nodes}, where the catalogued {id_} has {entry['nodes']}{racks}."


def _is(kind: catalog.Kind, name: str) -> bool:
    try:
        catalog.resolve(kind, name)
    except UnknownName:
        return False
    return True


def _from_name(text: str) -> Described:
    try:
        id_ = catalog.resolve("clusters", text)
    except UnknownName as unknown:
        raise _no_cluster(text, unknown) from None
    return {"name": id_, **catalog.load("clusters", id_)}, f"cluster {id_!r}"


def _no_cluster(text: str, unknown: UnknownName) -> InvalidInput:
    """The error for a text that names no cluster, though perhaps an accelerator."""
    counts, _, name = text.rpartition(":")
    try:
        accelerator = read_accelerator(name or "none")
    except UnknownName:
        return InvalidInput(f"{unknown}; {_FORMS}")
    if not _PART.fullmatch(counts):
        return InvalidInput(f"{quoted(text)} is not a cluster: {quoted(counts)} is not NODESxGPUS; {_FORMS}")
    count = int(counts) if re.fullmatch(r"\s*\d{1,6}\s*", counts) else 0
    gpus = math.gcd(count, accelerator.node_size)
    nearest = f"{max(count // gpus, 1)}x{gpus}:{name.strip()}"
    return InvalidInput(f"{quoted(text)} is not a cluster: nodes and GPUs are missing; nearest: {nearest}")


def _from_file(path: Path) -> Described:
    text = read_text(path, "cluster file", missing=_nearest_file(path))
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{str(path)!r} is not a TOML file: {unreadable(error)}") from None
    return {"name": path.stem, **table}, f"cluster file {str(path)!r}"


def _nearest_file(path: Path) -> str:
    folder = path.parent
    names = [file.name for file in folder.glob("*.toml")] if folder.is_dir() else []
    near = difflib.get_close_matches(path.name, names, n=3)
    return f"; nearest: {', '.join(near)}" if near else f"; {_FORMS}"


def _whole(text: str, digits: str) -> int:
    if len(digits) > 18:
        raise InvalidInput(f"{quoted(text)} counts {digits[:18]}…: more than any cluster holds")
    return int(digits)

"""The catalogue on screen and as JSON."""

from __future__ import annotations

import math
from typing import Any

from meshwright.answers.document.blocks import Block, Heading, Table
from meshwright.errors import UnknownName
from meshwright.specs import catalog
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import read_runtime, releases, runtime_entry
from meshwright.specs.weights import parameter_count
from meshwright.units import GIB, GIGA, format_bandwidth, format_count, parse_bytes

COLUMNS: dict[catalog.Kind, tuple[str, ...]] = {
    "models": ("parameters", "family"),
    "accelerators": ("16-bit TFLOP/s", "GiB visible", "memory GB/s", "scale-up GB/s", "network GB/s"),
    "clusters": ("accelerators", "levels of links"),
    "runtimes": ("version", "releases"),
}


def catalog_document(kind: str, name: str | None) -> Any:
    """The ids and aliases of a kind, or one entry whole, as JSON: a runtime's with what its family says."""
    known = _kind(kind)
    if name is None:
        return [{"id": id_, "aliases": catalog.load(known, id_).get("aliases", [])} for id_ in catalog.names(known)]
    entry = _entry(known, name)
    sizes = [key for key in entry if key.endswith("_bytes")]
    return entry | {key: math.ceil(parse_bytes(entry[key])) for key in sizes}


def _entry(kind: catalog.Kind, name: str) -> dict[str, Any]:
    """One entry as its files have it."""
    if kind == "runtimes":
        entry = runtime_entry(name)
        return entry | ({"releases": releases(name)} if releases(entry["framework"]) and "@" not in name else {})
    return catalog.load_named(kind, name)


def catalog_screen(kind: str, name: str | None) -> tuple[Block, ...]:
    """A table of a kind, or one entry with its sources."""
    known = _kind(kind)
    if name is not None:
        entry = _entry(known, name)
        return Heading(str(entry["id"]), 2), Table(("", ""), tuple(_flat(entry)), "wl")
    ids = catalog.names(known)
    also = ("".join(catalog.load(known, id_).get("aliases", [])[:1]) for id_ in ids)
    rows = tuple((id_, *_facts(kind, id_), alias) for id_, alias in zip(ids, also, strict=True))
    columns = (kind.removesuffix("s"), *COLUMNS[known], "also")
    return (Table(columns, rows, "w" + "l" * (len(columns) - 1)),)


def _kind(kind: str) -> catalog.Kind:
    for known in COLUMNS:
        if kind == known:
            return known
    raise UnknownName("kind of catalogue entry", kind, COLUMNS)


def _facts(kind: str, id_: str) -> tuple[str, ...]:
    if kind == "models":
        model = read_model(id_)
        return format_count(parameter_count(model)), model.family
    if kind == "runtimes":
        return read_runtime(id_).version, ", ".join(releases(id_))
    if kind == "clusters":
        cluster = read_cluster(id_)
        levels = ", ".join(
            f"{level.name} {level.size} at {format_bandwidth(level.effective_bandwidth)}" for level in cluster.levels
        )
        return f"{cluster.num_nodes} x {cluster.gpus_per_node} {cluster.accelerator.id}", levels
    accelerator = read_accelerator(id_)
    return (
        f"{max(accelerator.peak_flops.get('bf16', 0), accelerator.peak_flops.get('fp16', 0)) / 1e12:.0f}",
        f"{accelerator.visible_memory_bytes / GIB:.1f}",
        f"{accelerator.memory_bandwidth / GIGA:.0f}",
        f"{accelerator.scale_up_domain} x {accelerator.scale_up_bandwidth / GIGA:.0f}",
        f"{accelerator.nic_bandwidth / GIGA:g}",
    )


def _flat(entry: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows = []
    for key, value in entry.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{key}.")
        elif prefix or key != "id":
            shown = ", ".join(map(_item, value)) if isinstance(value, list) else str(value)
            rows.append((prefix + key, shown))
    return rows


def _item(value: Any) -> str:
    """An item of a list; of a table its entries."""
    return ", ".join(f"{key}: {_item(each)}" for key, each in value.items()) if isinstance(value, dict) else str(value)

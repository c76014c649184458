"""Families: a runtime's file on top of what it is `like`, which is never another framework's."""

from __future__ import annotations

from typing import Any

from meshwright.errors import Fault, InvalidSpec, quoted
from meshwright.specs import catalog


def runtime_entry(name: str) -> dict[str, Any]:
    """All that the file of a runtime says, with what it leaves to a root or to another runtime of its family.

    name: an id or an alias. Tables merge key by key, at every depth; `checks`, lists and single values are replaced.
    Raises `UnknownName`, and `InvalidSpec` where the file is like a runtime of another family.
    """
    return {"id": catalog.resolve("runtimes", name), **_entry("runtimes", name)}


def elementwise_entries() -> dict[str, Any]:
    """The element-wise kernels of the catalogue by name: implementations that every framework may take."""
    entries = {name: dict(catalog.load("elementwise", name)) for name in catalog.names("elementwise")}
    return {name: {key: value for key, value in entry.items() if key != "sources"} for name, entry in entries.items()}


def _entry(kind: catalog.Kind, name: str) -> dict[str, Any]:
    entry = dict(catalog.load(kind, name))
    like = entry.pop("like", None)
    if like is None:
        return entry
    parent = _entry("families" if like in catalog.names("families") else "runtimes", like)
    if parent["family"] != entry.get("family"):
        what = f"{quoted(like)} is of the family {parent['family']}: say here what this framework does itself"
        raise InvalidSpec(f"runtime {name}", [Fault("like", what)])
    return _merged({key: value for key, value in parent.items() if key != "aliases"}, entry)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    shared = below.keys() & above.keys() - {"checks"}
    both = {key for key in shared if isinstance(below[key], dict) and isinstance(above[key], dict)}
    return below | above | {key: _merged(below[key], above[key]) for key in both}

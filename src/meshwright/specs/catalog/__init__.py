"""The catalogue: data files about the world, each with its sources, found by id or alias."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Literal

from meshwright.errors import UnknownName

Kind = Literal[
    "accelerators",
    "architectures",
    "clusters",
    "elementwise",
    "families",
    "kernels",
    "library",
    "models",
    "precisions",
    "runtimes",
]


def names(kind: Kind) -> tuple[str, ...]:
    """The ids of a kind, sorted."""
    return tuple(sorted(_files(kind)))


def load(kind: Kind, name: str) -> dict[str, Any]:
    """The raw entry of a kind by id or alias; raises `UnknownName` with the nearest names."""
    return _entry(kind, resolve(kind, name))


def load_named(kind: Kind, name: str) -> dict[str, Any]:
    """The same with its `id`."""
    return {"id": resolve(kind, name), **load(kind, name)}


@cache
def table(name: str) -> dict[str, Any]:
    """The file of that name which stands alone beside the kinds."""
    return tomllib.loads((resources.files(__name__) / f"{name}.toml").read_text("utf-8"))


def resolve(kind: Kind, name: str) -> str:
    """The id behind an id or alias, whatever its case and whether it is written with `-` or `_`."""
    key = _key(name)
    if key in _files(kind):
        return key
    known = _aliases(kind)
    if key not in known:
        raise UnknownName(kind.removesuffix("s"), name, _files(kind))
    return known[key]


@cache
def _files(kind: Kind) -> dict[str, Traversable]:
    """By id."""
    files = (resources.files(__name__) / kind).iterdir()
    return {file.name.removesuffix(".toml"): file for file in files if file.name.endswith(".toml")}


@cache
def _entry(kind: Kind, id_: str) -> dict[str, Any]:
    return tomllib.loads(_files(kind)[id_].read_text("utf-8"))


@cache
def _aliases(kind: Kind) -> dict[str, str]:
    return {_key(alias): id_ for id_ in _files(kind) for alias in (id_, *_entry(kind, id_).get("aliases", ()))}


def _key(name: str) -> str:
    return name.strip().lower().replace("_", "-")

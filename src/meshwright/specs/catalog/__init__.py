"""The catalogue: data files about the world, each with its sources, found by id or alias."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Literal

from meshwright.errors import UnknownName
from meshwright.text_files import packaged_table

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
    return packaged_table(__name__, f"{name}.toml")


@cache
def written_table(name: str) -> dict[str, Any]:
    """The same of a file that a command writes: JSON, which is read forty times as fast as TOML."""
    written: dict[str, Any] = json.loads((resources.files(__name__) / f"{name}.json").read_text("utf-8"))
    return written


def resolve(kind: Kind, name: str) -> str:
    """The id behind an id or alias, whatever its case and whether it is written with `-` or `_`; raises `UnknownName`
    with the nearest names.
    """
    if found := find(kind, name):
        return found
    aliases = {key_of(alias): id_ for id_ in _files(kind) for alias in _entry(kind, id_).get("aliases", ())}
    raise UnknownName(kind.removesuffix("s"), name, _files(kind), aliases)


def find(kind: Kind, name: str) -> str | None:
    """The same id; None where there is none, for which no other entry is read."""
    key = key_of(name)
    if key in _files(kind):
        return key
    mentioned = (id_ for id_ in _files(kind) if f'"{key}"' in _keys(kind, id_))
    return next((id_ for id_ in mentioned if key in map(key_of, _entry(kind, id_).get("aliases", ()))), None)


@cache
def _files(kind: Kind) -> dict[str, Traversable]:
    """By id."""
    files = (resources.files(__name__) / kind).iterdir()
    return {file.name.removesuffix(".toml"): file for file in files if file.name.endswith(".toml")}


@cache
def _entry(kind: Kind, id_: str) -> dict[str, Any]:
    return tomllib.loads(_text(kind, id_))


@cache
def _text(kind: Kind, id_: str) -> str:
    return _files(kind)[id_].read_text("utf-8")


@cache
def _keys(kind: Kind, id_: str) -> str:
    """An entry as it is written, in the spelling of ids: only those that mention a name are parsed for it."""
    return key_of(_text(kind, id_))


def key_of(name: str) -> str:
    """A name as ids are written."""
    return name.strip().lower().replace("_", "-")

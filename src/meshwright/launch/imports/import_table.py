"""Import table: the settings of one framework as they are read."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from meshwright.launch.table import LaunchTable, launch_table, table_entry
from meshwright.specs.like import over_like

TABLES = resources.files("meshwright.launch.imports") / "tables"


@cache
def import_table(name: str) -> LaunchTable:
    """The table of a framework: one for reading alone, or the one that also writes its files.

    `like` names another that it changes, `program` the one of the arguments that stand beside it in a script.
    """
    return LaunchTable(**_entry(name)) if _own(name).is_file() else launch_table(name)


def _own(name: str) -> Traversable:
    return TABLES / f"{name}.toml"


def _entry(name: str) -> dict[str, Any]:
    own = _own(name)
    if not own.is_file():
        return table_entry(name)

    def like(other: str) -> dict[str, Any]:
        """The one for reading where there is one, unless it is of the same name."""
        return table_entry(other) if name == other else _entry(other)

    return over_like(tomllib.loads(own.read_text("utf-8")), like, _changed)


def _changed(like: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    program = _entry(own.pop("program")) if "program" in own else {}
    tables = {
        key: like.get(key, {}) | program.get(key, {}) | own.get(key, {}) for key in ("unpriced", "as_priced", "refused")
    }
    ignored = [name for each in (like, own, program) for name in each.get("ignored", ())]
    return like | own | tables | {"rows": like["rows"] | own.get("rows", {}), "ignored": ignored}

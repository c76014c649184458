"""Import table: the settings of one framework as they are read."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

from meshwright.launch.table import LaunchTable, Row, launch_table

TABLES = resources.files("meshwright.launch.imports") / "tables"


@cache
def import_table(name: str) -> LaunchTable:
    """The table of a framework: one for reading alone, or the one that also writes its files.

    `like` names another that it changes, `program` the one of the arguments that stand beside it in a script.
    """
    own = TABLES / f"{name}.toml"
    if not own.is_file():
        return launch_table(name)
    entry = tomllib.loads(own.read_text("utf-8"))
    if "like" not in entry:
        return LaunchTable(**entry)
    like = _like(name, entry.pop("like"))
    rows = like.rows | {field: Row(**row) for field, row in entry.pop("rows", {}).items()}
    program = import_table(entry.pop("program")) if "program" in entry else like
    unpriced = like.unpriced | program.unpriced | entry.pop("unpriced", {})
    as_priced = like.as_priced | program.as_priced | entry.pop("as_priced", {})
    ignored = (*like.ignored, *entry.pop("ignored", ()), *(program.ignored if program is not like else ()))
    refused = like.refused | program.refused | entry.pop("refused", {})
    return like.replace(**entry, rows=rows, unpriced=unpriced, as_priced=as_priced, refused=refused, ignored=ignored)


def _like(name: str, other: str) -> LaunchTable:
    """The table that another is like: the one for reading where it has that, unless it is of the same name."""
    read = name != other and (TABLES / f"{other}.toml").is_file()
    return import_table(other) if read else launch_table(other)

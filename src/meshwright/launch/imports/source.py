"""Source: a launch file as it is read, whose it is, and what is said beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from meshwright.errors import InvalidInput
from meshwright.launch.forms import Fields
from meshwright.launch.imports.dialects import dialect_of
from meshwright.launch.imports.dialects.dialect import Dialect
from meshwright.launch.imports.files.bridge_workloads import is_workload, one_workload
from meshwright.launch.imports.files.folder import environment_in, launch_file_in, with_configuration, with_folder
from meshwright.launch.imports.files.functions import one_function
from meshwright.launch.imports.files.given_values import is_setting, not_read, passed_over
from meshwright.launch.imports.import_table import import_table
from meshwright.launch.readers.read import read_launch_file
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.table import LaunchTable


@dataclass(frozen=True, kw_only=True)
class Given:
    """What is said beside the file."""

    cluster: str | None = None
    model: str | None = None
    runtime: str | None = None
    framework: str | None = None
    values: dict[str, str] = field(default_factory=dict)
    """Of what the file leaves open: variables of a script, its arguments by number, settings by key."""
    answers: Fields = field(default_factory=dict)
    """Fields that options of the question say, taken where the file leaves them open."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A launch file before its settings are put into those of a table."""

    path: Path
    read: LaunchSettings
    dialect: Dialect
    table: LaunchTable
    keyed: dict[str, str]
    """What is said beside the file by keys of settings and names of fields."""
    environment: dict[str, str]
    """What the start script of a folder exports."""
    unheard: list[str]
    """What is said beside the file and read nowhere."""


def source_of(path: Path, given: Given, text: str | None) -> Source:
    """A launch file, or that of a folder that `launch` wrote. text: what the file holds instead.

    Raises `InvalidInput` where it cannot be read or is of no known framework.
    """
    environment = environment_in(path) if path.is_dir() else {}
    path = launch_file_in(path) if path.is_dir() else path
    keyed = {name: value for name, value in given.values.items() if name.startswith("--") or "." in name}
    variables = {name: value for name, value in given.values.items() if name not in {*keyed, "function"}}

    def reader(variables: dict[str, str]) -> LaunchSettings:
        asked_for = given.values.get("function")
        read = one_workload(with_configuration(read_launch_file(path, variables, text)), asked_for)
        return read if is_workload(read) else one_function(read, asked_for)

    try:
        read = reader(variables)
        dialect = dialect_of(read, given.framework)
    except InvalidInput as error:
        raise with_folder(error, path) from None
    table, own = import_table(dialect.name), Path(read.path)
    unused = not_read(variables, reader, read)
    keyed |= {name: variables[name] for name in unused if is_setting(name, read, table)}
    unheard = [passed_over(name, own.name, read, table) for name in unused if name not in keyed]
    return Source(
        path=own, read=read, dialect=dialect, table=table, keyed=keyed, environment=environment, unheard=unheard
    )

"""Release: which release of a framework launch files are for, where rules and prices were read in another version."""

from __future__ import annotations

import re

from meshwright.launch.table import LaunchTable, launch_table, table_of
from meshwright.specs.runtime import Runtime

_COMMIT = re.compile(r"[0-9a-f]{7,40}\b")
_NUMBER = re.compile(rf"{_COMMIT.pattern}|\d+(?:\.\d+)+")


def release_lines(table: LaunchTable, runtime: Runtime) -> tuple[str, ...]:
    """One line on what to install for the launch files of a table; nothing where that is the runtime's version.

    >>> from meshwright.specs.runtime import read_runtime
    >>> release_lines(launch_table("torchtitan"), read_runtime("torchtitan"))[0].partition(";")[0]
    'Install torchtitan 0.3.0 to run launch files'
    """
    number = _NUMBER.search(table.release)
    if number and number[0] in runtime.version:
        return ()
    release = f"{table.framework} {table.release}" if _COMMIT.match(table.release) else table.release
    return (f"Install {release} to run launch files; rules and prices were read in {runtime.version}.",)


def own_release_lines(runtime: Runtime) -> tuple[str, ...]:
    """The same of the launch files of a runtime's own framework; nothing where there are none."""
    name = table_of(runtime.id)
    return release_lines(launch_table(name), runtime) if name else ()

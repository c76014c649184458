"""Release: which release of a framework launch files are for, where rules and prices were read in another version."""

from __future__ import annotations

from meshwright.launch.table import LaunchTable, launch_table, table_of
from meshwright.specs.runtime import Runtime


def release_lines(table: LaunchTable, runtime: Runtime) -> tuple[str, ...]:
    """One line on what to install for the launch files of a table; nothing where that is the runtime's version.

    >>> from meshwright.specs.runtime import read_runtime
    >>> release_lines(launch_table("torchtitan"), read_runtime("torchtitan"))[0].partition(";")[0]
    'Install torchtitan 0.3.0 to run launch files'
    """
    if runtime.id in table.read_in_release:
        return ()
    release = table.installed or table.release
    return (f"Install {release} to run launch files; rules and prices were read in {runtime.version}.",)


def own_release_lines(runtime: Runtime) -> tuple[str, ...]:
    """The same of the launch files of a runtime's own framework; nothing where there are none."""
    name = table_of(runtime.id)
    return release_lines(launch_table(name), runtime) if name else ()

"""Given values: which of those that are said beside a launch file it reads as its variables, and which it does not."""

from __future__ import annotations

from collections.abc import Callable

from meshwright.errors import InvalidInput
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.table import LaunchTable

Reader = Callable[[dict[str, str]], LaunchSettings]
"""Reads one file with values of its variables."""
_OTHER = "_"
"""What makes a value another one."""


def not_read(values: dict[str, str], reader: Reader, read: LaunchSettings) -> list[str]:
    """The names of values that a file reads nowhere: with another value it would be read as the same.

    read: the file as it is read with the values.
    """
    return [name for name in sorted(values) if not _reads(values, reader, read, name)]


def is_setting(name: str, read: LaunchSettings, table: LaunchTable) -> bool:
    """Whether a name is that of a setting, which the file has or its framework."""
    constants = {key for each in table.settings for key in each.every_value}
    return name in table.keys | constants | table.unpriced.keys() | table.refused.keys() or name in read.by_key()


def passed_over(name: str, file: str, read: LaunchSettings, table: LaunchTable) -> str:
    """That a file does not read a value, with the option of that name where there is one."""
    nearest = f"; nearest: --set --{name}=..." if is_setting(f"--{name}", read, table) else ""
    return f"--set {name}: {file} itself does not read {name}{nearest}"


def _reads(values: dict[str, str], reader: Reader, read: LaunchSettings, name: str) -> bool:
    try:
        return reader(values | {name: values[name] + _OTHER}) != read
    except InvalidInput:
        return True

"""Writers: a plan as the files of its framework, one module for each kind of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from meshwright.launch.export import Launch
from meshwright.launch.writers.arguments import argument_files
from meshwright.launch.writers.filled import filled_files
from meshwright.launch.writers.python import python_files
from meshwright.launch.writers.recipe import recipe_files
from meshwright.launch.writers.trained import trained_files

_WRITERS: dict[str | None, Callable[[Launch, Sequence[str]], dict[str, str]]] = {
    "arguments": argument_files,
    "filled": filled_files,
    "python": python_files,
    "recipe": recipe_files,
    "trained": trained_files,
}
"""By the `writer` of a launch table."""


def files_of(launch: Launch, notes: Sequence[str]) -> dict[str, str]:
    """The files of a launch, by name. notes: what all say first."""
    return _WRITERS[launch.table.writer](launch, notes)

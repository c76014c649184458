"""Read: the settings of any launch file, by its form."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from meshwright.errors import InvalidInput
from meshwright.launch.readers.limits import line_of, text_of
from meshwright.launch.readers.literals import read_literals
from meshwright.launch.readers.script import read_script
from meshwright.launch.readers.settings import Form, LaunchSettings
from meshwright.launch.readers.tables import read_table
from meshwright.launch.readers.tasks import commands_of, is_task, machines_of_task, variables_of
from meshwright.launch.readers.traced import Unreadable
from meshwright.launch.readers.trees import read_tree

_FORMS: dict[str, Form] = {
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".py": "python",
    ".sh": "shell",
    ".bash": "shell",
    ".slurm": "shell",
    ".sbatch": "shell",
    ".sub": "shell",
}


def read_launch_file(path: Path, given: dict[str, str] | None = None, text: str | None = None) -> LaunchSettings:
    """The settings of a launch file, with their lines; nothing in it is run.

    given: values of a script's variables, and of its arguments by number; text: what the file holds instead.
    Raises `InvalidInput` with the line and the reason where it cannot be read.
    """
    text, name = text_of(path) if text is None else text, str(path)
    form = _FORMS.get(path.suffix.lower()) or _form_of(text)
    try:
        if form == "shell":
            return read_script(name, text, given or {})
        if form == "python":
            return read_literals(name, text, given)
        if form == "toml":
            return read_table(name, text)
        read = read_tree(name, text, form)
        if not is_task(read):
            return read
        run = read_script(name, text, variables_of(read) | (given or {}), commands_of(text))
        return replace(run, launcher=(*machines_of_task(read), *run.launcher))
    except Unreadable as error:
        line = line_of(text, error.origin)
        raise InvalidInput(f"{name!r}, line {line}: {error.what} (read as {form})") from None


def _form_of(text: str) -> Form:
    """The form of a text that no ending of a name tells."""
    start = text.lstrip()
    if start.startswith("{"):
        return "json"
    if start.startswith("#!") or re.search(r"\\\n|^\s*(export|srun|torchrun|sbatch)\b", text, re.MULTILINE):
        return "shell"
    if re.search(r"^\[[\w.]+\]\s*$", text, re.MULTILINE):
        return "toml"
    return "yaml" if re.search(r"^[\w.]+:(\s|$)", text, re.MULTILINE) else "shell"

"""Limits: how large and how deep a launch file may be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from meshwright.errors import InvalidInput
from meshwright.text_files import read_text

MAX_BYTES = 1_000_000
MAX_YAML_BYTES = 200_000
"""The reader of YAML takes a second for 40 kB."""
MAX_DEPTH = 40
MAX_SETTINGS = 10_000


def text_of(path: Path) -> str:
    """The text of a file; raises `InvalidInput` where it is none, or too large."""
    text = read_text(path, "launch file", most=MAX_BYTES)
    if other := re.search("[\0\ue000\ue001]", text):
        where = f"line {line_of(text, other.start())}"
        raise InvalidInput(f"cannot read the launch file {str(path)!r}, {where}: it holds what is no text")
    return text


def named_file(path: Path, name: str) -> Path | None:
    """The file that a launch file names: of that name in the same folder, or where its path leads from that folder, or
    from the root of the repository that the launch file lies in, as programs are started there; no link, and nothing
    else. None: there is none. Raises `OSError` for what is no name.
    """
    inside = Path(name.removeprefix("./"))
    beside = path.parent / inside.name
    if inside.name and beside.is_file() and not beside.is_symlink():
        return beside
    if inside.is_absolute():
        return None
    folders = path.resolve().parents
    starts = (*folders[:1], *(each for each in folders if (each / ".git").exists()))[:2]
    places = (start / inside for start in starts)
    return next((each for each in places if each.is_file() and each.resolve() == each), None)


def line_of(text: str, offset: int) -> int:
    """The line on which an offset stands, from 1."""
    return text.count("\n", 0, offset) + 1


def named_lines(numbers: Iterable[int], most: int = 8) -> str:
    """Lines of a file by number, in order.

    >>> named_lines([92]), named_lines([8, 3])
    ('line 92', 'lines 3, 8')
    """
    shown = sorted(set(numbers))[:most]
    return f"line{'s' * (len(shown) > 1)} {', '.join(map(str, shown))}"

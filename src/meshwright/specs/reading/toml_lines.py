"""TOML lines: where a key or a value stands in a TOML file, for messages."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

Path = Sequence[str | int]
"""Keys and places in lists, from the outermost on."""
_Steps = tuple[str | int, ...]
_PIECE = re.compile(
    r'''"""(?:\\.|[^\\"]|"(?!""))*+"{3,5}|'{3}(?:[^']|'(?!''))*+'{3,5}'''
    r"""|"(?:\\.|[^"\\])*+"|'[^']*+'|\#[^\n]*+|[\[{\]}\n]""",
    re.DOTALL,
)
"""What decides where a statement ends: strings and comments, in which nothing does, brackets, and ends of lines."""


class TomlLines:
    """The lines of a TOML file that tomllib can read."""

    def __init__(self, text: str) -> None:
        self._text = text.replace("\r\n", "\n")

    def line_of(self, path: Path) -> int | None:
        """The line in which a value is given, or the nearest table or list around it, a count from 1; None for what
        stands nowhere.

        >>> lines = TomlLines('a = [\\n  1,\\n  2,\\n]\\n[b]\\nc = "x"')
        >>> [lines.line_of(path) for path in (["a"], ["a", 1], ["b", "c"], ["b", "d"], ["e"])]
        [1, 3, 6, 5, None]
        """
        for length in range(len(path), 0, -1):
            if place := self._places.get(tuple(path[:length])):
                return place.line
        return None

    @cached_property
    def _places(self) -> dict[_Steps, _Place]:
        """Of every value and table the statement that gives it first, in which it is looked for."""
        places: dict[_Steps, _Place] = {}
        tables, within = Counter[_Steps](), _Steps()
        for first, text in _statements(self._text):
            document = tomllib.loads(text)
            if text.lstrip().startswith("["):
                document, within = {}, _header(document, tables)
            for length in range(1, len(within) + 1):
                places.setdefault(within[:length], _Place(first, text, {}))
            for path, value in _values(document, within):
                places.setdefault(path, _Place(first, text, value))
        return places


class _Place(NamedTuple):
    first: int
    """The line of the statement, a count from 1."""
    text: str
    value: Any

    @property
    def line(self) -> int:
        """The line of the statement that holds the value itself, where it is written in one line; else its first."""
        if isinstance(self.value, list | dict):
            return self.first
        text = re.escape(str(self.value))
        written = rf"([\"']){text}\1" if isinstance(self.value, str) else rf"(?<![\w.]){text}(?![\w.])"
        found = re.search(written, self.text)
        return self.first + (self.text.count("\n", 0, found.start()) if found else 0)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Every statement with the line in which it begins, a count from 1; comments and blank lines are some, too."""
    first, line, start, depth = 1, 1, 0, 0
    for piece in _PIECE.finditer(text):
        depth += (piece[0] in "[{") - (piece[0] in "]}")
        line += piece[0].count("\n")
        if piece[0] == "\n" and not depth:
            yield first, text[start : piece.start()]
            first, start = line, piece.end()
    yield first, text[start:]


def _header(document: dict[str, Any], tables: Counter[_Steps]) -> _Steps:
    """The path of the table that a header begins; tables: how many each array of tables has had, which it adds to."""
    path = _Steps()
    value: Any = document
    while value:
        ((key, value),) = value.items()
        path = (*path, key)
        if isinstance(value, list):
            tables[path], value = tables[path] + 1, None
        if tables[path]:
            path = (*path, tables[path] - 1)
    return path


def _values(value: Any, path: _Steps) -> Iterator[tuple[_Steps, Any]]:
    """Everything in a value, with its path."""
    steps: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        steps = value.items()
    elif isinstance(value, list):
        steps = enumerate(value)
    for step, each in steps:
        yield (*path, step), each
        yield from _values(each, (*path, step))

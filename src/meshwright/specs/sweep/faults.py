"""Faults of a sweep file, collected: each with its line and its key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from meshwright.errors import LONGEST, Fault, InvalidInput, InvalidSpec, quoted
from meshwright.specs.reading.toml_lines import TomlLines

Value = TypeVar("Value")
Where = tuple[str | int, ...]
"""Keys and places in lists."""


class Faults:
    """What is wrong with one file, or with a table in its form."""

    def __init__(self, subject: str, lines: TomlLines | None) -> None:
        self._subject, self._lines = subject, lines
        self._found: dict[Fault, int] = {}
        """With the line of each; 0: it stands in none."""

    def add(self, where: Where, what: str) -> None:
        """A mistake at a place."""
        line = (self._lines.line_of(where) or 0) if self._lines else 0
        self._found[Fault(f"line {line}, {self.name(where)}" if line else self.name(where), what)] = line

    def refused(self, where: Where, refusal: Exception) -> None:
        """What the reader of a value says of it; every fault of a specification on its own."""
        for fault in refusal.faults if isinstance(refusal, InvalidSpec) else [Fault("", str(refusal))]:
            steps = re.findall(r"\[(\d+)\]|([^.\[\]]+)", fault.where)
            self.add((*where, *(int(place) if place else key for place, key in steps)), fault.what)

    def raise_any(self) -> None:
        """Raise `InvalidSpec` with all of them in the order of the file, if there are any."""
        if self._found:
            raise InvalidSpec(self._subject, sorted(self._found, key=lambda fault: self._found[fault]))

    def read(self, where: Where, read: Callable[[], Value]) -> Value | None:
        """What a reader returns; None where it refuses, which is a mistake."""
        try:
            return read()
        except InvalidInput as refusal:
            self.refused(where, refusal)
            return None

    def list_of(self, where: Where, given: Any) -> Iterator[tuple[Where, Any]]:
        """One value, or each of a list, with its place."""
        if isinstance(given, list | tuple):
            if not given:
                self.add(where, "must hold one or more")
            yield from (((*where, index), value) for index, value in enumerate(given))
        else:
            yield where, given

    def table_of(self, where: Where, given: Any, known: Iterable[str] = ()) -> Mapping[str, Any]:
        """A table, empty where what is given is none; known: its keys, if not any."""
        if not isinstance(given, Mapping):
            self.add(where, f"must be a table (given: {quoted(given)})")
            return {}
        if known:
            self.unknown_keys(where, given, known)
        return given

    def unknown_keys(self, where: Where, table: Mapping[str, Any], known: Iterable[str]) -> None:
        """A mistake for every key that is not known, with the nearest one that is."""
        names = [*known]
        for key in table:
            if key not in names:
                near = difflib.get_close_matches(str(key)[:LONGEST], names, n=1)
                hint = f"nearest: {near[0]}" if near else f"known: {', '.join(names)}"
                self.add((*where, key), f"is not a key here; {hint}")

    @staticmethod
    def name(where: Where) -> str:
        """A place as it is written: `knobs.with[1]`."""
        return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in where).lstrip(".")

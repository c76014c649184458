"""Formats: what frameworks print of a step, and reading it from lines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from meshwright.specs.base import Spec
from meshwright.text_files import packaged_table
from meshwright.units import GIB, parse_bytes, parse_seconds
from meshwright.validation.logs.lines import Line
from meshwright.validation.logs.steps import Pace, Readings
from meshwright.validation.rows.table import LARGEST_FIGURE, LEAST_FIGURE

NUMBER = r"[0-9][0-9.,]{0,30}(?:[eE][+-]?[0-9]{1,3})?[KMGBT]?"
"""A number as frameworks print it: 7,204 and 2.5K too."""
_SUFFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
MOST_SOURCES = 5_000
"""Processes whose blocks are told apart."""


class PacePattern(Spec):
    """Where the step time of a line stands, or a rate."""

    pattern: str
    unit: str
    of: Pace
    add: bool = False
    """It is the sum of all that match."""


class MemoryPattern(Spec):
    """A line with peaks of memory."""

    marker: str
    unit: str
    rank: str = ""
    allocated: str = ""
    reserved: str = ""
    device: str = ""


class LogFormat(Spec):
    """The step lines of a framework."""

    framework: str
    looked_for: str
    """An example, which users read."""
    marker: str
    step: str = ""
    pace: PacePattern
    batch: str = ""
    """Sequences of a step."""
    block: bool = False
    counted: bool = False
    memory: tuple[MemoryPattern, ...] = ()
    source: str


@cache
def formats() -> dict[str, LogFormat]:
    """Every format by its name, in the order in which they are looked for."""
    document = packaged_table("meshwright.validation.logs", "formats.toml")
    return {name: LogFormat(**entry) for name, entry in document.items()}


def number(text: str) -> float | None:
    """A printed number, or none where it is 0 or beyond what any run measures.

    >>> number("7,204"), number("2.5K"), number("0.0")
    (7204.0, 2500.0, None)
    """
    scale = _SUFFIXES.get(text[-1:], 1.0)
    try:
        value = float(text.rstrip("KMGBT").replace(",", "")) * scale
    except ValueError:
        return None
    return value if LEAST_FIGURE <= value <= LARGEST_FIGURE else None


class StepLines:
    """Reads the lines of one format."""

    def __init__(self, entry: LogFormat) -> None:
        self.entry = entry
        self.readings = Readings(entry.pace.of)
        self._step = _pattern(entry.step)
        self._pace = _pattern(entry.pace.pattern)
        self._batch = _pattern(entry.batch)
        self._second = parse_seconds(f"1{entry.pace.unit}") if entry.pace.unit != "1/s" else 0.0
        self._memory = [_memory_patterns(each) for each in entry.memory]
        self._open: dict[str, int] = {}
        self._counts: dict[str, int] = {}

    def read(self, line: Line) -> None:
        """Take what a line says."""
        text = line.text
        if self.entry.block:
            self._read_block(line)
        elif self.entry.marker in text and (step := self._numbered(line)) is not None:
            self._take(step, text)
        for marker, gib, rank, kinds in self._memory:
            if marker not in text:
                continue
            owner = match[1] if rank and (match := rank.search(text)) else ""
            for kind, pattern in kinds.items():
                if (match := pattern.search(text)) and (value := number(match[1])):
                    self.readings.peak(kind, owner, value * gib)

    def _read_block(self, line: Line) -> None:
        if self.entry.marker in line.text and self._step and (match := self._step.search(line.text)):
            if line.source in self._open or len(self._open) < MOST_SOURCES:
                self._open[line.source] = int(match[1])
        elif line.source in self._open:
            self._take(self._open[line.source], line.text)

    def _numbered(self, line: Line) -> int | None:
        if not self.entry.counted:
            match = self._step.search(line.text) if self._step else None
            return int(match[1]) if match else None
        if line.source not in self._counts and len(self._counts) >= MOST_SOURCES:
            return None
        self._counts[line.source] = count = self._counts.get(line.source, 0) + 1
        return count

    def _take(self, step: int, text: str) -> None:
        values = [number(match[1]) for match in self._pace.finditer(text)] if self._pace else []
        if not values or None in values:
            return
        value = math.fsum(each for each in values if each) if self.entry.pace.add else values[0]
        batch = match[1] if self._batch and (match := self._batch.search(text)) else "0"
        if value:
            self.readings.add(step, value * self._second if self._second else 1 / value, int(batch))


def _pattern(text: str) -> re.Pattern[str] | None:
    return re.compile(text.replace("NUMBER", NUMBER)) if text else None


def _memory_patterns(entry: MemoryPattern) -> tuple[str, float, re.Pattern[str] | None, dict[str, re.Pattern[str]]]:
    kinds = dict[str, Any](allocated=entry.allocated, reserved=entry.reserved, device=entry.device)
    known = {kind: pattern for kind, text in kinds.items() if (pattern := _pattern(text))}
    return entry.marker, parse_bytes(f"1{entry.unit}") / GIB, _pattern(entry.rank), known


def readers() -> Iterator[tuple[str, StepLines]]:
    """A reader of every format, in the order in which they are looked for."""
    for name, entry in formats().items():
        yield name, StepLines(entry)

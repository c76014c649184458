"""Blocks: what a document is made of, whoever writes it.

Text may hold `**strong**` and `` `code` ``; everything else in it is literal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tone = Literal["good", "warning", "bad"]


@dataclass(frozen=True)
class Heading:
    """The title of a part."""

    text: str
    level: int
    """2 for a section, 3 for a part of one."""


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of short texts."""

    items: tuple[str, ...]
    numbered: bool = False


@dataclass(frozen=True)
class Table:
    """Columns under their names."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    align: str = ""
    """One letter a column, l or r; empty: the first left, the others right."""
    caption: str = ""
    total: bool = False
    """The last row is a sum: bold, with a rule above."""

    @property
    def alignment(self) -> str:
        """One letter a column, l or r."""
        return self.align or "l" + "r" * (len(self.columns) - 1)

    def is_total(self, row: int) -> bool:
        """Whether the row of this number is the sum of those above."""
        return self.total and row == len(self.rows) - 1


@dataclass(frozen=True)
class Figure:
    """A picture with its caption."""

    name: str
    """The stem of a file name, as `pipeline`."""
    svg: str
    caption: str


@dataclass(frozen=True)
class Callout:
    """What must not be overlooked."""

    title: str
    text: str
    tone: Tone


Block = Heading | Paragraph | Bullets | Table | Figure | Callout


@dataclass(frozen=True)
class Document:
    """A title, a line under it, and what follows."""

    title: str
    subtitle: str
    blocks: tuple[Block, ...]

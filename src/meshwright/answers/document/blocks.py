"""Blocks: what a document is made of, whoever writes it.

Text may hold `**strong**` and `` `code` ``; everything else in it is literal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, Self

Tone = Literal["good", "warning", "bad"]


class Toned(str):
    """A text that a terminal shows in the colour of its tone."""

    __slots__ = ("tone",)
    tone: Tone

    def __new__(cls, text: str, tone: Tone) -> Self:
        """The text with its tone."""
        instance = super().__new__(cls, text)
        instance.tone = tone
        return instance


class Coloured(str):
    """A text of which a terminal shows every letter in a colour of its own."""

    __slots__ = ("colours",)
    colours: Mapping[str, str]
    """By letter; what follows a letter has its colour."""

    def __new__(cls, text: str, colours: Mapping[str, str]) -> Self:
        """The text with its colours."""
        instance = super().__new__(cls, text)
        instance.colours = colours
        return instance


class Heading(NamedTuple):
    """The title of a part."""

    text: str
    level: int
    """2 for a section, 3 for a part of one."""
    new_page: bool = False
    """On paper the section begins a page, and from it on print is smaller."""


class Paragraph(NamedTuple):
    """Running text."""

    text: str


class Lines(NamedTuple):
    """Texts that each begin a line."""

    lines: tuple[str, ...]


class Code(NamedTuple):
    """Lines of a file, as they are: without marks, and never broken."""

    lines: tuple[str, ...]


class Bullets(NamedTuple):
    """A list of short texts."""

    items: tuple[str, ...]
    numbered: bool = False

    def marked(self) -> Iterator[tuple[str, str]]:
        """Every item behind its number or dash."""
        for number, item in enumerate(self.items, 1):
            yield f"{number}." if self.numbered else "-", item


class Table(NamedTuple):
    """Columns under their names."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    align: str = ""
    """One letter a column: l left, r right, w left and on one line; empty: the first l, the others r."""
    caption: str = ""
    note: str = ""
    """Under the table."""
    total: bool = False
    """The last row is a sum: bold, with a rule above."""

    @property
    def alignment(self) -> str:
        """One letter a column."""
        return self.align or "l" + "r" * (len(self.columns) - 1)

    def is_total(self, row: int) -> bool:
        """Whether the row of this number is the sum of those above."""
        return self.total and row == len(self.rows) - 1


class Figure(NamedTuple):
    """A picture with its caption."""

    name: str
    """The stem of a file name, as `pipeline`."""
    svg: str
    caption: str
    table: Table | None = None
    """What it shows as figures, for readers without pictures; none: another table of the document has them."""


class Callout(NamedTuple):
    """What must not be overlooked."""

    title: str
    text: str
    tone: Tone


Block = Heading | Paragraph | Lines | Code | Bullets | Table | Figure | Callout


class Document(NamedTuple):
    """A title, a line under it, and what follows."""

    title: str
    subtitle: str
    blocks: tuple[Block, ...]

"""Terminal: blocks as a screen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment, Segments
from rich.table import Table as Grid
from rich.text import Text

from meshwright.answers.document.blocks import (
    Block,
    Bullets,
    Callout,
    Code,
    Coloured,
    Figure,
    Heading,
    Lines,
    Paragraph,
    Table,
    Toned,
)
from meshwright.answers.document.columns import fitted
from meshwright.answers.document.inline import raw_pieces, visible

STYLES = {"good": "green", "warning": "yellow", "bad": "red"}
LONGEST_WORD = 30
"""Characters of a word that a column keeps whole."""
GAP = 2
"""Blanks between two columns."""
_WORD = re.compile(r"\S+")
_BREAK = re.compile(r"(?<=\w[-/.])(?=\w)")
"""Where a word that is longer than its line may be broken: behind a hyphen, a slash or a dot inside it."""
_LISTED = re.compile(r"(?<=\w)\([\w*]+(,[\w*]+)+\)")
"""A list in a word, as that of `recompute-selective(layernorm,mlp)`, which has no place to break."""


def terminal(blocks: Iterable[Block]) -> RenderableType:
    """Blocks with an empty line between them, but none behind a heading; pictures are left out."""
    return Group(*_spaced(block for block in blocks if not isinstance(block, Figure)))


def _spaced(blocks: Iterable[Block]) -> Iterator[RenderableType]:
    before: Block | None = None
    for block in blocks:
        if before is not None and not isinstance(before, Heading):
            yield ""
        yield _block(block)
        before = block


def text_of(text: str, style: str = "") -> Text:
    """A text with its marks as styles; code keeps its backticks, which other commands read."""
    if isinstance(text, Coloured):
        return _coloured(text)
    tone = STYLES[text.tone] if isinstance(text, Toned) else ""
    styled = Text(style=f"{style} {tone}".strip())
    for kind, piece in raw_pieces(visible(text)):
        styled.append(f"`{piece}`" if kind == "code" else piece, style="bold" if kind == "strong" else "")
    return styled


def _coloured(text: Coloured) -> Text:
    """Every character in the colour of the last letter."""
    styled, colour = Text(), ""
    for character in text:
        colour = text.colours.get(character, colour) if character.isalpha() else colour
        styled.append(character, style="" if character in " .|" else colour)
    return styled


def _block(block: Block) -> RenderableType:
    match block:
        case Heading():
            return text_of(block.text, "bold")
        case Paragraph():
            return _Flowing(text_of(block.text))
        case Lines():
            return Group(*(_Flowing(text_of(line)) for line in block.lines))
        case Code():
            # a Text would be broken, and its tabs made blanks
            return Segments(map(Segment, map(visible, block.lines)), new_lines=True)
        case Bullets():
            return Group(*(_Flowing(text_of(f"{mark} {item}", "dim")) for mark, item in block.marked()))
        case Callout():
            return Group(text_of(Toned(block.title, block.tone), "bold"), text_of(block.text))
        case Figure():
            return Group()
        case Table():
            return _table(block)


@dataclass(frozen=True)
class _Flowing:
    """A text whose long words are broken where they may be: rich cuts them where the line ends."""

    text: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield _in_pieces(self.text, options.max_width)


@dataclass(frozen=True)
class _Screen:
    """A table whose columns fit the screen: rich cuts off what stands on the right of a wider one."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        rows = [[*map(_cell, row)] for row in self.table.rows]
        grid = Grid(box=None, pad_edge=False, header_style="bold", show_header=any(self.table.columns))
        sides = self.table.alignment
        widths = self._widths(rows, options.max_width)
        for name, side, width in zip(self.table.columns, sides, widths, strict=True):
            if side == "l":
                grid.add_column(name, overflow="fold", width=width)
            else:
                grid.add_column(name, justify="right" if side == "r" else "left", no_wrap=True)
        for number, row in enumerate(rows):
            cells = (
                _in_pieces(cell, width) if side == "l" else cell
                for cell, side, width in zip(row, sides, widths, strict=True)
            )
            grid.add_row(*cells, style="bold" if self.table.is_total(number) else "")
        yield grid

    def _widths(self, rows: Sequence[Sequence[Text]], room: int) -> list[int]:
        """Of every column; those that wrap share what the others and the gaps leave."""
        columns = [*zip(map(Text, self.table.columns), *rows, strict=True)]
        widths = [max(cell.cell_len for cell in column) for column in columns]
        wrapped = [index for index, side in enumerate(self.table.alignment) if side == "l"]
        natural = [widths[index] for index in wrapped]
        least = [min(_longest_word(columns[index]), LONGEST_WORD) for index in wrapped]
        left = room - GAP * (len(columns) - 1) - sum(widths) + sum(natural)
        for index, width in zip(wrapped, fitted(natural, least, left), strict=True):
            widths[index] = width
        return widths


def _in_pieces(text: Text, width: int) -> Text:
    """A text with new lines in words longer than a line: behind a hyphen or slash, else a dot, else at its end."""
    if text.cell_len <= width:
        return text
    breaks = list[int]()
    for word in _WORD.finditer(text.plain):
        start, end = word.span()
        places = [each.start() for each in _BREAK.finditer(text.plain, start, end)]
        while end - start > width:
            reached = [each for each in places if start < each <= start + width]
            start = max(reached, key=lambda each: (text.plain[each - 1] != ".", each), default=start + width)
            breaks.append(start)
    return Text("\n").join(text.divide(breaks)) if breaks else text


def _longest_word(cells: Iterable[Text]) -> int:
    return max((len(word) for cell in cells for word in cell.plain.split()), default=0)


def _table(table: Table) -> RenderableType:
    above = [text_of(table.caption, "italic")] if table.caption else []
    below = [text_of(table.note, "dim")] if table.note else []
    return Group(*above, _Screen(table), *below)


def _cell(text: str) -> Text:
    """A cell, which may be broken behind the commas of a list."""
    return text_of(_LISTED.sub(lambda listed: listed[0].replace(",", ", "), text) if type(text) is str else text)

"""Terminal: blocks as a screen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
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
from meshwright.answers.document.inline import raw_pieces, visible

STYLES = {"good": "green", "warning": "yellow", "bad": "red"}
LONGEST_WORD = 30
"""Characters of a word that a column keeps whole."""
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
            return text_of(block.text)
        case Lines():
            return Group(*map(text_of, block.lines))
        case Code():
            # a Text would be broken, and its tabs made blanks
            return Segments(map(Segment, map(visible, block.lines)), new_lines=True)
        case Bullets():
            return Group(*(text_of(f"{mark} {item}", "dim") for mark, item in block.marked()))
        case Callout():
            return Group(text_of(Toned(block.title, block.tone), "bold"), text_of(block.text))
        case Figure():
            return Group()
        case Table():
            return _table(block)


def _table(table: Table) -> RenderableType:
    grid = Grid(box=None, pad_edge=False, header_style="bold", show_header=any(table.columns))
    rows = [[*map(_cell, row)] for row in table.rows]
    for number, (name, side) in enumerate(zip(table.columns, table.alignment, strict=True)):
        if side == "l":
            words = (len(word) for row in rows for word in row[number].plain.split())
            grid.add_column(name, overflow="fold", min_width=min(max(words, default=0), LONGEST_WORD))
        else:
            grid.add_column(name, justify="right" if side == "r" else "left", no_wrap=True)
    for number, row in enumerate(rows):
        grid.add_row(*row, style="bold" if table.is_total(number) else "")
    above = [text_of(table.caption, "italic")] if table.caption else []
    below = [text_of(table.note, "dim")] if table.note else []
    return Group(*above, grid, *below)


def _cell(text: str) -> Text:
    """A cell, which may be broken behind the commas of a list."""
    return text_of(_LISTED.sub(lambda listed: listed[0].replace(",", ", "), text) if type(text) is str else text)

"""Terminal: blocks as a screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import singledispatch
from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from meshwright.answers.document.blocks import (
    Block,
    Bullets,
    Callout,
    Coloured,
    Figure,
    Heading,
    Lines,
    Paragraph,
    Table,
    Toned,
)
from meshwright.answers.document.inline import MARKS

STYLES = {"good": "green", "warning": "yellow", "bad": "red"}


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
    styled, end = Text(style=f"{style} {tone}".strip()), 0
    for mark in MARKS.finditer(text):
        styled.append(text[end : mark.start()])
        styled.append(mark[0] if mark["code"] else mark["strong"], style="" if mark["code"] else "bold")
        end = mark.end()
    return styled.append(text[end:])


def _coloured(text: Coloured) -> Text:
    """Every character in the colour of the last letter."""
    styled, colour = Text(), ""
    for character in text:
        colour = text.colours.get(character, colour) if character.isalpha() else colour
        styled.append(character, style="" if character in " .|" else colour)
    return styled


@singledispatch
def _block(block: object) -> RenderableType:
    raise TypeError(f"{type(block).__name__} is no block")


@_block.register
def _(heading: Heading) -> RenderableType:
    return text_of(heading.text, "bold")


@_block.register
def _(paragraph: Paragraph) -> RenderableType:
    return text_of(paragraph.text)


@_block.register
def _(lines: Lines) -> RenderableType:
    return Group(*map(text_of, lines.lines))


@_block.register
def _(bullets: Bullets) -> RenderableType:
    marks = (f"{number}." if bullets.numbered else "-" for number in range(1, len(bullets.items) + 1))
    return Group(*(text_of(f"{mark} {item}", "dim") for mark, item in zip(marks, bullets.items, strict=True)))


@_block.register
def _(callout: Callout) -> RenderableType:
    return Group(text_of(Toned(callout.title, callout.tone), "bold"), text_of(callout.text))


@_block.register
def _(table: Table) -> RenderableType:
    grid = Grid(box=None, pad_edge=False, header_style="bold", show_header=any(table.columns))
    for name, side in zip(table.columns, table.alignment, strict=True):
        justify: Literal["left", "right"] = "right" if side == "r" else "left"
        grid.add_column(name, justify=justify, no_wrap=side != "l", overflow="fold" if side == "l" else "ellipsis")
    for number, row in enumerate(table.rows):
        grid.add_row(*map(text_of, row), style="bold" if table.is_total(number) else "")
    above = [text_of(table.caption, "italic")] if table.caption else []
    below = [text_of(table.note, "dim")] if table.note else []
    return Group(*above, grid, *below)

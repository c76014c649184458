"""Markdown: a document as text that also reads well unrendered, and the pictures that lie beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import singledispatch
from urllib.parse import quote

from meshwright.answers.document.blocks import Bullets, Callout, Document, Figure, Heading, Lines, Paragraph, Table
from meshwright.answers.document.inline import Piece, pieces, plain

SPECIAL = re.compile(r"[\\`*|~$<\[\]]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
"""What Markdown would read as a mark: an underscore inside a word, say, it would not."""
START = re.compile(r"^(\d{1,9}(?=[.)](?:\s|$))|(?=[-+](?:[\s-]|$)|[>#]))")
"""What it would read as a list, a quotation, a heading or a rule at the start of a line."""
CLOSING = re.compile(r"(?:(?<=\s)|^)(?=#+$)")
"""Where it would read the end of a heading."""
BACKSLASH = r"\\"
PIPE = r"\|"


def markdown(document: Document, stem: str) -> tuple[str, dict[str, str]]:
    """A document as Markdown, and the SVG of each picture by the name of the file that the text links.

    stem: what the names of the pictures begin with, before `-NAME.svg`.
    """
    written = [_block(Heading(document.title, 1))]
    written += [_line(document.subtitle)] if document.subtitle else []
    pictures: dict[str, str] = {}
    for block in document.blocks:
        if isinstance(block, Figure):
            name = f"{stem}-{block.name}.svg"
            pictures[name] = block.svg
            written.append(_figure(block, name))
        else:
            written.append(_block(block))
    return "\n\n".join(written) + "\n", pictures


def _figure(figure: Figure, name: str) -> str:
    caption = f"\n\n*{_marked(figure.caption)}*" if figure.caption else ""
    return f"![{_escaped(plain(figure.caption))}]({quote(name)}){caption}"


@singledispatch
def _block(block: object) -> str:
    raise TypeError(f"{type(block).__name__} is no block")


@_block.register
def _(heading: Heading) -> str:
    return f"{'#' * heading.level} {CLOSING.sub(BACKSLASH, _marked(heading.text))}"


@_block.register
def _(paragraph: Paragraph) -> str:
    return _line(paragraph.text)


@_block.register
def _(lines: Lines) -> str:
    return "  \n".join(map(_line, lines.lines))


@_block.register
def _(bullets: Bullets) -> str:
    marks = (f"{number}." if bullets.numbered else "-" for number in range(1, len(bullets.items) + 1))
    return "\n".join(f"{mark} {_line(item)}" for mark, item in zip(marks, bullets.items, strict=True))


@_block.register
def _(callout: Callout) -> str:
    return f"> **{_escaped(plain(callout.title))}**\n>\n> {_line(callout.text)}"


@_block.register
def _(table: Table) -> str:
    rows = [[_cell(pieces(cell)) for cell in row] for row in (table.columns, *table.rows)]
    if table.total and table.rows:
        rows[-1] = [_strong_cell(cell) for cell in table.rows[-1]]
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * (width - 1) + (":" if side == "r" else "-") for width, side in _sides(widths, table)]
    padded = [
        [
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, (width, side) in zip(row, sides, strict=True)
        ]
        for row, sides in ((row, _sides(widths, table)) for row in rows)
    ]
    caption = f"*{_marked(table.caption)}*\n\n" if table.caption else ""
    note = f"\n\n{_line(table.note)}" if table.note else ""
    return caption + "\n".join(f"| {' | '.join(row)} |" for row in (padded[0], rule, *padded[1:])) + note


def _sides(widths: Sequence[int], table: Table) -> list[tuple[int, str]]:
    return list(zip(widths, table.alignment, strict=True))


def _strong_cell(cell: str) -> str:
    """A cell of a sum; what is strong in it already needs no marks of its own."""
    text = _cell(Piece("text", piece.text) if piece.kind == "strong" else piece for piece in pieces(cell))
    return f"**{text}**" if text else ""


def _cell(cell: Iterable[Piece]) -> str:
    """Pieces inside a table, where even code must not hold a bare pipe."""
    return "".join(_piece(piece).replace("|", PIPE) if piece.kind == "code" else _piece(piece) for piece in cell)


def _line(text: str) -> str:
    """Text that begins a line."""
    return START.sub(r"\1\\", _marked(text))


def _marked(text: str) -> str:
    return "".join(map(_piece, pieces(text)))


def _piece(piece: Piece) -> str:
    if piece.kind == "code":
        return f"`{piece.text}`"
    return f"**{_escaped(piece.text)}**" if piece.kind == "strong" else _escaped(piece.text)


def _escaped(text: str) -> str:
    return SPECIAL.sub(r"\\\g<0>", text)

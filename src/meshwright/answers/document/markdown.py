"""Markdown: a document as text that also reads well unrendered, and the pictures that lie beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from meshwright.answers.document.blocks import (
    Block,
    Bullets,
    Callout,
    Code,
    Document,
    Figure,
    Heading,
    Lines,
    Paragraph,
    Table,
)
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
    blocks: list[Block] = [Heading(document.title, 1)]
    blocks += [Paragraph(document.subtitle)] if document.subtitle else []
    blocks += document.blocks
    pictures = {f"{stem}-{block.name}.svg": block.svg for block in document.blocks if isinstance(block, Figure)}
    return "\n\n".join(_block(block, stem) for block in blocks) + "\n", pictures


def without_pictures(document: Document) -> str:
    """A document as Markdown that stands alone: tables in place of pictures, nothing where another table has them."""
    blocks: list[Block] = []
    for block in document.blocks:
        blocks += ([block.table] if block.table else []) if isinstance(block, Figure) else [block]
    return markdown(document._replace(blocks=tuple(blocks)), "")[0]


def _block(block: Block, stem: str) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {CLOSING.sub(BACKSLASH, _marked(block.text))}"
        case Paragraph():
            return _line(block.text)
        case Lines():
            return "  \n".join(map(_line, block.lines))
        case Code():
            fence = "`" * (2 + max((len(run) for run in re.findall("`+", "\n".join(block.lines))), default=1))
            return "\n".join((fence, *block.lines, fence))
        case Bullets():
            return "\n".join(f"{mark} {_line(item)}" for mark, item in block.marked())
        case Callout():
            return f"> **{_escaped(plain(block.title))}**\n>\n> {_line(block.text)}"
        case Figure():
            name = f"{stem}-{block.name}.svg"
            caption = f"\n\n*Picture in {name}: {_marked(block.caption)}*" if block.caption else ""
            table = f"\n\n{_table(block.table)}" if block.table else ""
            return f"![{_escaped(plain(block.caption))}]({quote(name)}){caption}{table}"
        case Table():
            return _table(block)


def _table(table: Table) -> str:
    rows = [[_cell(pieces(cell)) for cell in row] for row in (table.columns, *table.rows)]
    if table.total and table.rows:
        rows[-1] = [_strong_cell(cell) for cell in table.rows[-1]]
    columns = [_column(cells, side) for cells, side in zip(zip(*rows, strict=True), table.alignment, strict=True)]
    caption = f"*{_marked(table.caption)}*\n\n" if table.caption else ""
    note = f"\n\n{_line(table.note)}" if table.note else ""
    return caption + "\n".join(f"| {' | '.join(row)} |" for row in zip(*columns, strict=True)) + note


def _column(cells: Sequence[str], side: str) -> list[str]:
    """Cells of one width, with a rule under the first, the name of the column."""
    width = max(3, *map(len, cells))
    name, *others = (cell.rjust(width) if side == "r" else cell.ljust(width) for cell in cells)
    return [name, "-" * (width - 1) + (":" if side == "r" else "-"), *others]


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

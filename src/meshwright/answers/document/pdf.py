"""PDF: a document as Typst source, typeset by the optional library typst.

In the source every text stands as a string literal, so that none of its characters can be markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module

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
from meshwright.errors import InvalidInput

PREAMBLE = """\
#set page(paper: "a4", margin: (x: 24mm, top: 24mm, bottom: 26mm), numbering: "1 / 1")
#set text(font: "Libertinus Serif", size: 10.5pt, lang: "en", fill: rgb("#1c2733"), number-width: "tabular")
#set par(leading: 0.68em, spacing: 1em)
#set list(indent: 0.2em, spacing: 0.7em)
#set enum(indent: 0.2em, spacing: 0.7em)
#set table(stroke: none, inset: (x: 4.5pt, y: 3.6pt))
#show raw: set text(font: "DejaVu Sans Mono", size: 1em)
#show heading: set block(above: 1.7em, below: 0.8em)
#show heading.where(level: 2): set text(size: 14pt)
#show heading.where(level: 3): set text(size: 11.5pt)
#let quiet(body) = text(size: 9pt, fill: rgb("#57636f"), body)
#let callout(tone, tint, title, body) = block(
  width: 100%, inset: (x: 10pt, y: 8pt), fill: tint, stroke: (left: 2.5pt + tone), breakable: false, above: 1.3em,
  below: 1.3em, [#text(fill: tone, strong(title)) #parbreak() #body],
)
#show table: set text(size: 9.2pt)
#let together(..parts) = block(
  width: 100%, breakable: false, above: 1.4em, below: 1.4em, stack(spacing: 0.7em, ..parts),
)
#let flowing(..parts) = {
  for part in parts.pos().slice(0, -1) { block(sticky: true, above: 1.4em, below: 0.7em, part) }
  block(width: 100%, above: 0.7em, below: 1.4em, parts.pos().last())
}
"""
SMALL = """\
#set page(margin: (x: 20mm, top: 18mm, bottom: 20mm))
#set text(size: 9pt)
#set par(leading: 0.58em, spacing: 0.85em)
#set list(spacing: 0.45em)
#set enum(spacing: 0.45em)
#set table(inset: (x: 4pt, y: 2.2pt))
#show table: set text(size: 7.8pt)
#show heading.where(level: 2): set text(size: 12.5pt)
#show heading.where(level: 3): set text(size: 10.5pt)
#show heading: set block(above: 1.2em, below: 0.6em)
"""
"""From a heading that begins a page on."""
TONES = {
    "good": ("#1d6b4f", "#f0f7f3"),
    "warning": ("#8a5a00", "#fcf7ea"),
    "bad": ("#a23b22", "#fbf1ee"),
}
"""Colour of the rule and of the ground of a callout."""
MOST_TOGETHER = 500
"""Characters of a table that stays on one page; a longer one may go over to the next, under the same header."""
PAGE = 100
"""Characters that the columns of a table have room for, about."""
SHARING = 24
"""Characters from which on a column may be broken into lines."""
RULE = 'table.hline(stroke: 0.4pt + rgb("#d5dade"))'
LONG_WORD = re.compile(r"\S{20,}")
BREAKABLE = re.compile(r"[,()/_=:-]")
"""Characters behind which a long word of code may be broken."""


def pdf(document: Document) -> bytes:
    """A document as A4 pages; the same bytes every time, with the fonts that the library brings.

    Raises `InvalidInput` where the library is not installed.
    """
    try:
        typst = import_module("typst")
    except ImportError:
        raise InvalidInput(
            "a PDF needs the library typst, which is not installed: pip install 'meshwright[pdf]'; "
            "Markdown (.md) and HTML (.html) work without"
        ) from None
    written: bytes = typst.compile(source(document).encode(), format="pdf", ignore_system_fonts=True)
    return written


def source(document: Document) -> str:
    """A document as Typst source, its pictures inside."""
    title = f"#text(size: 20pt, {_content([Piece('strong', plain(document.title))])})"
    head = [
        f"#set document(title: {_string(plain(document.title))}, date: none)",
        PREAMBLE,
        f"#block(below: 0.9em)[{title}]",
    ]
    head += [f'#text(fill: rgb("#57636f"), {_marked(document.subtitle)})'] if document.subtitle else []
    head.append('#line(length: 100%, stroke: 0.6pt + rgb("#d5dade"))')
    return "\n\n".join([*head, *map(_block, document.blocks)]) + "\n"


def _block(block: Block) -> str:
    match block:
        case Heading():
            before = SMALL if block.new_page else ""
            return f"{before}#heading(level: {block.level}, {_marked(block.text)})"
        case Paragraph():
            return f"#par({_marked(block.text)})"
        case Lines():
            return f"#par({' + linebreak() + '.join(map(_marked, block.lines))})"
        case Code():
            return f"#raw({_string(chr(10).join(block.lines))}, block: true)"
        case Bullets():
            return f"#{'enum' if block.numbered else 'list'}({', '.join(map(_marked, block.items))})"
        case Callout():
            tone, tint = (f'rgb("{colour}")' for colour in TONES[block.tone])
            return f"#callout({tone}, {tint}, {_marked(block.title)}, {_marked(block.text)})"
        case Figure():
            svg, alternative = _string(block.svg), _string(plain(block.caption))
            image = f'image(bytes({svg}), format: "svg", width: 100%, alt: {alternative})'
            return f"#together({', '.join([image, *_caption(block.caption)])})"
        case Table():
            return _table(block)


def _table(table: Table) -> str:
    sides = ", ".join("right" if side == "r" else "left" for side in table.alignment)
    names = ", ".join(f"quiet(strong({_marked(name)}))" for name in table.columns)
    parts = [
        f"columns: ({_widths(table)},)",
        f"align: ({sides},)",
        f"table.header({names}, table.hline(stroke: 0.8pt))",
    ]
    for number, row in enumerate(table.rows):
        if table.is_total(number):
            parts += ["table.hline(stroke: 0.8pt)", *(f"strong({_marked(cell)})" for cell in row)]
        else:
            parts += [*([RULE] if number else []), *map(_marked, row)]
    written = f"table({', '.join(parts)})"
    block = "flowing" if sum(len(cell) for row in table.rows for cell in row) > MOST_TOGETHER else "together"
    note = f"\n\n#quiet({_marked(table.note)})" if table.note else ""
    return f"#{block}({', '.join([*_caption(table.caption), written])})" + note


def _widths(table: Table) -> str:
    """The width of each column: as its cells need; of a table too wide for a page, long columns share what is left."""
    longest = [max(map(len, cells)) for cells in zip(table.columns, *table.rows, strict=True)]
    shared = sum(longest) > PAGE
    return ", ".join("1fr" if shared and size > SHARING else "auto" for size in longest)


def _caption(text: str) -> list[str]:
    return [f"quiet({_marked(text)})"] if text else []


def _marked(text: str) -> str:
    return _content(pieces(text))


def _content(marked: Iterable[Piece]) -> str:
    return "[" + "".join(f"#{_piece(piece)};" for piece in marked) + "]"


def _piece(piece: Piece) -> str:
    if piece.kind == "code":
        broken = LONG_WORD.sub(lambda word: BREAKABLE.sub("\\g<0>\u200b", word[0]), piece.text)
        return f"raw({_string(broken)})"
    return f"strong({_string(piece.text)})" if piece.kind == "strong" else _string(piece.text)


def _string(text: str) -> str:
    """A literal of Typst."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'

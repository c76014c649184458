"""Cells: a table whose cells have the colour of what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from meshwright.answers.pictures.svg import CHARACTER, COLOURS, LINE, MARGIN, PALE, QUIET, WIDTH, Drawing

BAR, GAP = 20, 3
MOST_LABEL = 300
"""Units of the names of rows, at most."""


class Cell(NamedTuple):
    """One cell."""

    kind: str
    """What its colour stands for; empty: it is pale, and no kind."""
    words: str


def cells_picture(
    rows: Mapping[str, Sequence[Cell | None]], columns: Sequence[str], title: str, known: Sequence[str] = ()
) -> str:
    """A row for each name with its cells under the columns; a cell that is None stays empty.

    known: kinds that have the first colours, so that pictures that share them look alike.
    """
    label = min(max(CHARACTER * len(name) for name in rows) + 8, MOST_LABEL)
    width = (WIDTH - 2 * MARGIN - label) / len(columns)
    kinds = dict.fromkeys(cell.kind for cells in rows.values() for cell in cells if cell and cell.kind)
    colours = dict(zip(dict.fromkeys([*known, *kinds]), cycle(COLOURS), strict=False))
    drawing, y = Drawing(), float(MARGIN + LINE)
    for index, name in enumerate(columns):
        drawing.text(MARGIN + label + (index + 0.5) * width, MARGIN + 10, _cut(name, width), "middle", QUIET)
    for name, cells in rows.items():
        drawing.text(MARGIN + label - 8, y + 14, _cut(name, label), "end")
        for index, cell in enumerate(cells):
            if cell:
                x = MARGIN + label + index * width
                drawing.box(x, y, width - GAP, BAR, colours.get(cell.kind, PALE))
                drawing.text(x + (width - GAP) / 2, y + 14, _cut(cell.words, width), "middle", halo=bool(cell.kind))
        y += BAR + GAP
    height = drawing.legend(y + LINE, [(kind, colours[kind]) for kind in kinds])
    listed = "; ".join(
        f"{name} on {column}: {cell.kind or cell.words}"
        for name, cells in rows.items()
        for column, cell in zip(columns, cells, strict=True)
        if cell
    )
    return drawing.svg(height, title, f"{listed}.")


def _cut(words: str, width: float) -> str:
    most = max(int(width / CHARACTER), 1)
    return words if len(words) <= most else f"{words[: most - 1]}…"

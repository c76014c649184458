"""SVG: the few shapes that pictures are made of, and the colours that they share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from html import escape
from math import log
from typing import NamedTuple

from meshwright.answers.document.inline import printable
from meshwright.units import GIB, format_gib

WIDTH = 760
"""Units across every picture."""
MARGIN = 12
LINE = 18
"""Units from one line of text to the next."""
INK, QUIET, RULE, PALE = "#1f2933", "#57636f", "#c3cad1", "#e9edf0"
ON_LIGHT = "#10161d"
"""Of text on a light fill, whatever lies around the picture."""
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a6d3b")
"""Told apart by colour-blind people, and most of them in grey (Okabe and Ito, 2008)."""
CHARACTER = 6.4
"""Units that a character of small text takes, at most."""


class Drawing:
    """A picture of `WIDTH` units across, shape by shape; later ones lie over earlier ones."""

    def __init__(self) -> None:
        self.shapes: list[str] = []

    @contextmanager
    def mark(self, words: str) -> Iterator[None]:
        """Shapes that belong together and say something: what a reader is told who points at them."""
        self.shapes.append(f'<g class="mark"><title>{_escaped(words)}</title>')
        yield
        self.shapes.append("</g>")

    def text(
        self,
        x: float,
        y: float,
        words: str,
        anchor: str = "start",
        fill: str = INK,
        weight: str = "normal",
        halo: bool = False,
    ) -> None:
        """A line of text with its base line at y; halo: white around it, where lines run below."""
        around = ' stroke="#ffffff" stroke-width="4" paint-order="stroke"' if halo else ""
        self.shapes.append(
            f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}" fill="{fill}" '
            f'font-weight="{weight}"{around}>{_escaped(words)}</text>'
        )

    def box(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        """A filled rectangle."""
        sides = f'width="{number(max(width, 0))}" height="{number(height)}"'
        self.shapes.append(f'<rect x="{number(x)}" y="{number(y)}" {sides} fill="{fill}"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = RULE, dash: str = "") -> None:
        """A straight line."""
        ends = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
        self.shapes.append(f'<line {ends} stroke="{stroke}"{_dashes(dash)}/>')

    def polyline(self, points: Iterable[tuple[float, float]], stroke: str, dash: str = "") -> None:
        """Straight lines from each point to the next."""
        corners = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        self.shapes.append(
            f'<polyline points="{corners}" fill="none" stroke="{stroke}" stroke-width="2"{_dashes(dash)}/>'
        )

    def legend(self, y: float, entries: Iterable[tuple[str, str]]) -> float:
        """Names behind their colours, in as many lines as they need from y on; returns where the next line would be."""
        x = float(MARGIN)
        for name, colour in entries:
            width = 18 + CHARACTER * len(name) + 14
            if x > MARGIN and x + width > WIDTH - MARGIN:
                x, y = float(MARGIN), y + LINE
            self.box(x, y - 9, 11, 11, colour)
            self.text(x + 16, y, name, fill=QUIET)
            x += width
        return y + LINE

    def svg(self, height: float, title: str, description: str) -> str:
        """The whole picture."""
        body = "\n".join(self.shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {number(height)}" role="img" '
            f'font-family="system-ui, sans-serif" font-size="12" style="background:#fff">\n'
            f"<title>{_escaped(title)}</title>\n<desc>{_escaped(description)}</desc>\n{body}\n</svg>\n"
        )


class LogField(NamedTuple):
    """A rectangle with a logarithmic scale along either side."""

    left: float
    top: float
    width: float
    height: float
    across: tuple[float, float]
    """The values at the left and at the right side."""
    up: tuple[float, float]
    """The values at the bottom and at the top."""

    def x(self, value: float) -> float:
        """Where a value lies across."""
        return self.left + self.width * _share(value, *self.across)

    def y(self, value: float) -> float:
        """Where a value lies in height."""
        return self.top + self.height * (1 - _share(value, *self.up))


def _share(value: float, low: float, high: float) -> float:
    return min(max(log(value / low) / log(high / low), 0.0), 1.0)


def number(value: float) -> str:
    """A coordinate, to a tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")


def gib(size: float) -> str:
    """Bytes as GiB, four digits at most.

    >>> gib(1428.4 * GIB), gib(70.63 * GIB)
    ('1,428 GiB', '70.6 GiB')
    """
    rounded = float(f"{size / GIB:.4g}")
    return f"{rounded:,.0f} GiB" if rounded >= 1000 else format_gib(rounded * GIB)


def round_step(span: float, most: int) -> float:
    """The least of 1, 2 and 5 times a power of ten of which at most `most` fit into a span.

    >>> round_step(23.7, 6), round_step(0.9, 5)
    (5.0, 0.2)
    """
    power = 10.0**-12
    while True:
        for factor in (1.0, 2.0, 5.0):
            if span / (factor * power) <= most:
                return float(f"{factor * power:.1g}")
        power *= 10


def _escaped(words: str) -> str:
    return escape(printable(words))


def _dashes(dash: str) -> str:
    return f' stroke-dasharray="{dash}"' if dash else ""

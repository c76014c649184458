"""Memory: layouts as stacked bars against what an accelerator has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from meshwright.answers.pictures.svg import (
    COLOURS,
    INK,
    LINE,
    MARGIN,
    QUIET,
    WIDTH,
    box,
    gib,
    legend,
    line,
    picture,
    text,
)

LABELS, ENDS = 190, 90
"""Units for names before the bars, and for sums behind them."""
BAR, GAP = 22, 12
MOST = 2.5
"""Times the limit: what is beyond it is cut off."""


class MemoryBar(NamedTuple):
    """One layout."""

    label: str
    parts: tuple[tuple[str, float], ...]
    """Names and bytes."""

    @property
    def total(self) -> float:
        """Bytes of all parts."""
        return sum(size for _, size in self.parts)


def memory_picture(bars: Sequence[MemoryBar], limit_bytes: float, limit_label: str, title: str) -> str:
    """Bars of bytes by part with the limit as a line; a bar far beyond it is cut, and its sum stands at its end."""
    longest = min(max(limit_bytes, *(bar.total for bar in bars)), MOST * limit_bytes)
    scale, top = (WIDTH - LABELS - ENDS - 2 * MARGIN) / longest, MARGIN + LINE
    names = list(dict.fromkeys(name for bar in bars for name, _ in bar.parts))
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(names)}
    at, bottom = MARGIN + LABELS + limit_bytes * scale, top + len(bars) * (BAR + GAP)
    shapes, sums = [], []
    for index, bar in enumerate(bars):
        *drawn, told = _bar(bar, top + index * (BAR + GAP), longest, scale, colours)
        shapes += drawn
        sums.append(told)
    shapes += [line(at, top - 8, at, bottom - GAP + 6, INK, "4 3"), text(at, top - 14, limit_label, "middle", INK)]
    shapes += sums
    named, end = legend(bottom + LINE, colours.items())
    listed = "; ".join(f"{bar.label}: {gib(bar.total)}" for bar in bars)
    return picture(end, title, f"{limit_label}. {listed}.", [*shapes, *named])


def _bar(bar: MemoryBar, y: float, longest: float, scale: float, colours: dict[str, str]) -> list[str]:
    start = MARGIN + LABELS
    shapes, begun = [text(start - 8, y + 15, bar.label, "end")], 0.0
    for name, size in bar.parts:
        end = min(begun + size, longest)
        if end > begun:
            shapes.append(box(start + begun * scale, y, (end - begun) * scale, BAR, colours[name]))
        begun = end
    end = start + begun * scale
    if bar.total > longest:
        shapes += [line(end - 12 + shift, y - 3, end - 18 + shift, y + BAR + 3, "#ffffff") for shift in (0, 2, 4)]
    return [*shapes, text(end + 6, y + 15, gib(bar.total), fill=QUIET, halo=True)]

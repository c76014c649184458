"""Memory: layouts as stacked bars against what an accelerator has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from meshwright.answers.pictures.svg import COLOURS, INK, LINE, MARGIN, QUIET, WIDTH, Drawing, gib

LABELS, ENDS = 190, 90
"""Units for names before the bars, and for sums behind them."""
START = MARGIN + LABELS
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
    names = dict.fromkeys(name for bar in bars for name, _ in bar.parts)
    colours = dict(zip(names, cycle(COLOURS), strict=False))
    drawing, rows = Drawing(), [(top + index * (BAR + GAP), bar) for index, bar in enumerate(bars)]
    ends = [_bar(drawing, bar, y, longest, scale, colours) for y, bar in rows]
    limit, bottom = START + limit_bytes * scale, top + len(bars) * (BAR + GAP)
    drawing.line(limit, top - 8, limit, bottom - GAP + 6, INK, "4 3")
    drawing.text(limit, top - 14, limit_label, "middle", INK)
    for end, (y, bar) in zip(ends, rows, strict=True):
        drawing.text(end + 6, y + 15, gib(bar.total), fill=QUIET, halo=True)
    height = drawing.legend(bottom + LINE, colours.items())
    listed = "; ".join(f"{bar.label}: {gib(bar.total)}" for bar in bars)
    return drawing.svg(height, title, f"{limit_label}. {listed}.")


def _bar(drawing: Drawing, bar: MemoryBar, y: float, longest: float, scale: float, colours: Mapping[str, str]) -> float:
    """One bar with its name; returns where it ends."""
    drawing.text(START - 8, y + 15, bar.label, "end")
    size = 0.0
    for name, part in bar.parts:
        before, size = size, min(size + part, longest)
        if size > before:
            drawing.box(START + before * scale, y, (size - before) * scale, BAR, colours[name])
    end = START + size * scale
    if bar.total > longest:
        for shift in (0, 2, 4):
            drawing.line(end - 12 + shift, y - 3, end - 18 + shift, y + BAR + 3, "#ffffff")
    return end

"""Memory: layouts as stacked bars against what an accelerator has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from meshwright.answers.pictures.svg import CHARACTER, COLOURS, INK, LINE, MARGIN, ON_LIGHT, QUIET, WIDTH, Drawing, gib
from meshwright.units import GIB

LABELS, ENDS = 190, 90
"""Units for names before the bars, and for sums behind them."""
START = MARGIN + LABELS
BAR, GAP = 22, 12
FILLS = (*COLOURS, "#f0e442")
"""With the last of Okabe and Ito's, which lines do not take."""
LIGHT = (COLOURS[1], COLOURS[3], COLOURS[4], FILLS[-1])
"""Fills that a figure stands on in dark."""
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


def is_cut(bar: MemoryBar, limit_bytes: float) -> bool:
    """Whether a bar is drawn shorter than it is."""
    return bar.total > MOST * limit_bytes


def memory_picture(bars: Sequence[MemoryBar], limit_bytes: float, limit_label: str, title: str) -> str:
    """Bars of bytes by part with the limit as a line; a bar far beyond it is cut, and its sum stands at its end."""
    longest = min(max(limit_bytes, *(bar.total for bar in bars)), MOST * limit_bytes)
    scale, top = (WIDTH - LABELS - ENDS - 2 * MARGIN) / longest, MARGIN + LINE
    names = dict.fromkeys(name for bar in bars for name, _ in bar.parts)
    colours = dict(zip(names, cycle(FILLS), strict=False))
    drawing, rows = Drawing(), [(top + index * (BAR + GAP), bar) for index, bar in enumerate(bars)]
    ends = [_bar(drawing, bar, y, longest, scale, colours) for y, bar in rows]
    limit, bottom = START + limit_bytes * scale, top + len(bars) * (BAR + GAP)
    drawing.line(limit, top - 8, limit, bottom - GAP + 6, INK, "4 3")
    drawing.text(limit, top - 14, limit_label, "middle", INK)
    for _, (y, bar) in zip(ends, rows, strict=True):
        drawing.text(WIDTH - MARGIN, y + 15, gib(bar.total), "end", QUIET)
    height = drawing.legend(bottom + LINE, colours.items())
    listed = "; ".join(f"{bar.label}: {gib(bar.total)}" for bar in bars)
    return drawing.svg(height, title, f"{limit_label}. {listed}.")


def _bar(drawing: Drawing, bar: MemoryBar, y: float, longest: float, scale: float, colours: Mapping[str, str]) -> float:
    """One bar with its name; returns where it ends."""
    parts = ", ".join(f"{name} {gib(size)}" for name, size in bar.parts if size)
    with drawing.mark(f"{bar.label}: {gib(bar.total)} = {parts}"):
        return _parts(drawing, bar, y, longest, scale, colours)


def _parts(
    drawing: Drawing, bar: MemoryBar, y: float, longest: float, scale: float, colours: Mapping[str, str]
) -> float:
    drawing.text(START - 8, y + 15, bar.label, "end")
    size = 0.0
    for name, part in bar.parts:
        before, size = size, min(size + part, longest)
        width = (size - before) * scale
        if width > 0:
            drawing.box(START + before * scale, y, width, BAR, colours[name])
        label = f"{part / GIB:.0f}"
        if width > CHARACTER * (len(label) + 1):
            ink = ON_LIGHT if colours[name] in LIGHT else "#ffffff"
            drawing.text(START + before * scale + width / 2, y + 15, label, "middle", ink)
    end = START + size * scale
    if bar.total > longest:
        for shift in (0, 2, 4):
            drawing.line(end - 12 + shift, y - 3, end - 18 + shift, y + BAR + 3, "#ffffff")
    return end

"""Waterfall: the parts of a step, each where the one before it ends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from meshwright.answers.pictures.svg import COLOURS, INK, LINE, MARGIN, QUIET, WIDTH, Drawing
from meshwright.units import format_seconds

LABELS, ENDS = 248, 124
"""Units for names before the bars, and for seconds behind them."""
START = MARGIN + LABELS
SHARE = 60
"""Units of the column of shares."""
BAR = 13
IDEAL, LOST, GAINED, WHOLE = COLOURS[2], COLOURS[1], COLOURS[4], COLOURS[0]


def waterfall_picture(parts: Sequence[tuple[str, float]], title: str) -> str:
    """Seconds from the first part, the ideal, to the last; negative ones step back; the sum stands below."""
    ends = [*accumulate((seconds for _, seconds in parts), initial=0.0)]
    total, scale = ends[-1], (WIDTH - LABELS - ENDS - 2 * MARGIN) / max(ends)
    drawing, y = Drawing(), float(MARGIN)
    for (name, seconds), (before, after) in zip(parts, pairwise(ends), strict=True):
        colour = IDEAL if y == MARGIN else LOST if seconds >= 0 else GAINED
        end = START + after * scale
        with drawing.mark(f"{name}: {format_seconds(seconds)}, {seconds / total:.1%} of {format_seconds(total)}"):
            drawing.text(START - 8, y + 11, name, "end")
            drawing.box(START + min(before, after) * scale, y, max(abs(after - before) * scale, 1), BAR, colour)
            _figures(drawing, seconds, total, y, QUIET)
        drawing.line(end, y, end, y + LINE + BAR)
        y += LINE
    drawing.text(START - 8, y + 11, "step", "end", weight="bold")
    drawing.box(START, y, total * scale, BAR, WHOLE)
    _figures(drawing, total, total, y, INK, "bold")
    listed = "; ".join(f"{name}: {format_seconds(seconds)}" for name, seconds in parts)
    return drawing.svg(y + BAR + MARGIN, title, f"{listed}. In all {format_seconds(total)}.")


def _figures(drawing: Drawing, seconds: float, total: float, y: float, fill: str, weight: str = "normal") -> None:
    """Seconds and share, each in a column of its own."""
    drawing.text(WIDTH - MARGIN - SHARE, y + 11, format_seconds(seconds), "end", fill, weight)
    drawing.text(WIDTH - MARGIN, y + 11, f"{seconds / total:.1%}", "end", fill, weight)

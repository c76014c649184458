"""Waterfall: the parts of a step, each where the one before it ends."""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.answers.pictures.svg import COLOURS, INK, LINE, MARGIN, QUIET, WIDTH, box, line, picture, text
from meshwright.units import format_seconds

LABELS, ENDS = 248, 124
"""Units for names before the bars, and for seconds behind them."""
SHARE = 60
"""Units of the column of shares."""
BAR = 13
IDEAL, LOST, GAINED, WHOLE = COLOURS[2], COLOURS[1], COLOURS[4], COLOURS[0]


def waterfall_picture(parts: Sequence[tuple[str, float]], title: str) -> str:
    """Seconds from the first part, the ideal, to the last; negative ones step back; the sum stands below."""
    total = sum(seconds for _, seconds in parts)
    scale, shapes = (WIDTH - LABELS - ENDS - 2 * MARGIN) / _furthest(parts), []
    start, begun, y = MARGIN + LABELS, 0.0, float(MARGIN)
    for index, (name, seconds) in enumerate(parts):
        end = begun + seconds
        colour = IDEAL if index == 0 else LOST if seconds >= 0 else GAINED
        shapes += [text(start - 8, y + 11, name, "end"), _box(start, y, begun, end, scale, colour)]
        shapes += _told(seconds, total, y, QUIET)
        shapes.append(line(start + end * scale, y, start + end * scale, y + LINE + BAR))
        begun, y = end, y + LINE
    shapes += [text(start - 8, y + 11, "step", "end", weight="bold"), box(start, y, total * scale, BAR, WHOLE)]
    shapes += _told(total, total, y, INK, "bold")
    told = "; ".join(f"{name}: {format_seconds(seconds)}" for name, seconds in parts)
    return picture(y + BAR + MARGIN, title, f"{told}. In all {format_seconds(total)}.", shapes)


def _furthest(parts: Sequence[tuple[str, float]]) -> float:
    """The largest sum of the first parts."""
    begun = furthest = 0.0
    for _, seconds in parts:
        begun += seconds
        furthest = max(furthest, begun)
    return furthest


def _box(start: float, y: float, begun: float, end: float, scale: float, colour: str) -> str:
    return box(start + min(begun, end) * scale, y, max(abs(end - begun) * scale, 1), BAR, colour)


def _told(seconds: float, total: float, y: float, fill: str, weight: str = "normal") -> list[str]:
    """Seconds and share, each in a column of its own."""
    columns = ((WIDTH - MARGIN - SHARE, format_seconds(seconds)), (WIDTH - MARGIN, f"{seconds / total:.1%}"))
    return [text(x, y + 11, words, "end", fill, weight) for x, words in columns]

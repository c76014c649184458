"""Lines: one figure over another for several series, both on logarithmic scales, with a limit if there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import ceil, log2
from typing import NamedTuple

from meshwright.answers.pictures.svg import (
    CHARACTER,
    COLOURS,
    INK,
    LINE,
    MARGIN,
    PALE,
    QUIET,
    WIDTH,
    Drawing,
    LogField,
)

LEFT, RIGHT, TOP, HEIGHT = 84, 24, 32, 240
"""Units around the field, and its height."""
BOTTOM = TOP + HEIGHT
MARK = 7
ROOM = 1.15
"""Times the largest and the smallest value: where the field ends."""
LINES_ACROSS = 8
Points = Sequence[tuple[float, float]]
"""Across and up."""


class Axis(NamedTuple):
    """What stands along a side."""

    name: str
    words: Callable[[float], str]
    """A value for people."""


def lines_picture(
    series: Mapping[str, Points],
    title: str,
    across: Axis,
    up: Axis,
    limit: tuple[str, float] | None = None,
    steps: bool = False,
    told: Mapping[tuple[float, float], str] | None = None,
) -> str:
    """Every series as marks and the line between them.

    series: by name, as many as there are colours; limit: a name and the height of a dashed line; steps: a value holds
    until the next one; told: what the mark of a point says, where not the name of its series.
    """
    points = [point for each in series.values() for point in each]
    heights = [y for _, y in points] + ([limit[1]] if limit else [])
    field = LogField(
        left=LEFT,
        top=TOP,
        width=WIDTH - LEFT - RIGHT,
        height=HEIGHT,
        across=(min(x for x, _ in points) / ROOM, max(x for x, _ in points) * ROOM),
        up=(min(heights) / ROOM, max(heights) * ROOM),
    )
    drawing = Drawing()
    drawing.box(LEFT, TOP, field.width, HEIGHT, "#fbfcfd")
    _grid(drawing, field, sorted({x for x, _ in points}), across, up)
    if limit:
        drawing.line(LEFT, field.y(limit[1]), WIDTH - RIGHT, field.y(limit[1]), INK, "4 3")
        drawing.text(WIDTH - RIGHT - 4, field.y(limit[1]) - 5, limit[0], "end", INK, halo=True)
    colours = dict(zip(series, COLOURS, strict=False))
    for name, each in series.items():
        marks = [(field.x(x), field.y(y)) for x, y in each]
        drawing.polyline(_stairs(marks) if steps else marks, colours[name])
        for (x, y), point in zip(marks, each, strict=True):
            with drawing.mark(f"{(told or {}).get(point, name)}: {_words(point, across, up)}"):
                drawing.box(x - MARK / 2, y - MARK / 2, MARK, MARK, colours[name])
    height = drawing.legend(BOTTOM + 3 * LINE, colours.items())
    listed = "; ".join(f"{name}: {_ends(each, across, up)}" for name, each in series.items())
    return drawing.svg(height, title, f"{listed}.")


def _grid(drawing: Drawing, field: LogField, values: Sequence[float], across: Axis, up: Axis) -> None:
    drawing.text((LEFT + WIDTH - RIGHT) / 2, BOTTOM + 2 * LINE, across.name, "middle", QUIET)
    end = 0.0
    for value in values:
        words, x = across.words(value), field.x(value)
        drawing.line(x, TOP, x, BOTTOM, PALE)
        if x - CHARACTER * len(words) / 2 > end:
            drawing.text(x, BOTTOM + 15, words, "middle")
            end = x + CHARACTER * len(words) / 2
    low, high = field.up[0] * ROOM, field.up[1]
    factor = 2 ** max(ceil(log2(high / low) / LINES_ACROSS), 1) if high / low > 2 * ROOM else ROOM
    height = low
    while height <= high:
        drawing.line(LEFT, field.y(height), WIDTH - RIGHT, field.y(height), PALE)
        drawing.text(LEFT - 6, field.y(height) + 4, up.words(height), "end", QUIET)
        height *= factor
    drawing.text(MARGIN, TOP - 14, up.name, fill=QUIET)


def _stairs(marks: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    corners = [corner for (_, y), (x, below) in pairwise(marks) for corner in ((x, y), (x, below))]
    return [*marks[:1], *corners]


def _ends(points: Points, across: Axis, up: Axis) -> str:
    words = [_words(point, across, up) for point in points]
    return words[0] if len(words) == 1 else f"{words[0]}, {words[-1]}"


def _words(point: tuple[float, float], across: Axis, up: Axis) -> str:
    return f"{up.words(point[1])} at {across.words(point[0])}"

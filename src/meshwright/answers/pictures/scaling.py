"""Scaling: tokens a second over accelerators, against what perfect scaling would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from math import log2
from typing import NamedTuple

from meshwright.answers.pictures.svg import COLOURS, LINE, PALE, QUIET, WIDTH, Drawing, LogField
from meshwright.units import format_count

LEFT, RIGHT, TOP, HEIGHT = 70, 130, 30, 220
"""Units around the field, and its height."""
BOTTOM = TOP + HEIGHT
MARK = 7
IDEAL = "#57636f"


class ScalingPoint(NamedTuple):
    """The speed of all accelerators together."""

    gpus: int
    tokens_per_s: float


def scaling_picture(series: Mapping[str, Sequence[ScalingPoint]], title: str) -> str:
    """Every series with its efficiency at the end, and dashed what perfect scaling from its first point would give.

    series: two or more points each, the fewest accelerators first.
    """
    points = [point for each in series.values() for point in each]
    counts = sorted({point.gpus for point in points})
    perfect = {name: _perfect(each) for name, each in series.items()}
    speeds = [point.tokens_per_s for each in (*series.values(), *perfect.values()) for point in each]
    field = LogField(
        left=LEFT,
        top=TOP,
        width=WIDTH - LEFT - RIGHT,
        height=HEIGHT,
        across=(counts[0], counts[-1]),
        up=(min(speeds) / 1.15, max(speeds) * 1.15),
    )
    drawing = Drawing()
    drawing.box(LEFT, TOP, field.width, HEIGHT, "#fbfcfd")
    _grid(drawing, field, counts, points)
    colours = dict(zip(series, cycle(COLOURS), strict=False))
    label_y = float(TOP)
    for name in sorted(series, key=lambda name: -series[name][-1].tokens_per_s):
        label_y = _series(drawing, series[name], perfect[name], field, colours[name], label_y)
    height = drawing.legend(BOTTOM + 3 * LINE, [*colours.items(), ("perfect scaling (dashed)", IDEAL)])
    listed = "; ".join(f"{name}: {_ends(each)}" for name, each in series.items())
    return drawing.svg(height, title, f"{listed}.")


def _grid(drawing: Drawing, field: LogField, counts: Sequence[int], points: Sequence[ScalingPoint]) -> None:
    drawing.text((LEFT + WIDTH - RIGHT) / 2, BOTTOM + 2 * LINE, "accelerators", "middle", QUIET)
    for count in counts:
        drawing.line(field.x(count), TOP, field.x(count), BOTTOM, PALE)
        drawing.text(field.x(count), BOTTOM + 15, f"{count}", "middle")
    low, high = min(point.tokens_per_s for point in points), max(point.tokens_per_s for point in points)
    for doubled in range(int(log2(high / low)) + 2):
        if (speed := low * 2**doubled) <= field.up[1]:
            drawing.line(LEFT, field.y(speed), WIDTH - RIGHT, field.y(speed), PALE)
            drawing.text(LEFT - 6, field.y(speed) + 4, format_count(float(f"{speed:.3g}")), "end", QUIET)
    drawing.text(LEFT - 6, TOP - 12, "tokens/s", "end", QUIET)


def _perfect(points: Sequence[ScalingPoint]) -> list[ScalingPoint]:
    """As fast on every accelerator as at the first point."""
    first = points[0]
    return [ScalingPoint(point.gpus, first.tokens_per_s * point.gpus / first.gpus) for point in points]


def _series(
    drawing: Drawing,
    points: Sequence[ScalingPoint],
    perfect: Sequence[ScalingPoint],
    field: LogField,
    colour: str,
    label_y: float,
) -> float:
    """The lines and marks of a series, its label at `label_y` or below; returns where the next one may stand."""
    ideal, marks = ([(field.x(gpus), field.y(speed)) for gpus, speed in each] for each in (perfect, points))
    drawing.polyline(ideal, IDEAL, "5 4")
    drawing.polyline(marks, colour)
    for x, y in marks:
        drawing.box(x - MARK / 2, y - MARK / 2, MARK, MARK, colour)
    x, y = marks[-1]
    y = max(y + 4, label_y)
    drawing.box(x + 10, y - 9, 3, 11, colour)
    drawing.text(x + 17, y, f"{points[-1].tokens_per_s / perfect[-1].tokens_per_s:.1%} of perfect")
    return y + LINE


def _ends(points: Sequence[ScalingPoint]) -> str:
    first, last = points[0], points[-1]
    return (
        f"{format_count(first.tokens_per_s)} tokens/s on {first.gpus} accelerators, "
        f"{format_count(last.tokens_per_s)} on {last.gpus}"
    )

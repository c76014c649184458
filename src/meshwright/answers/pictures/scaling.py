"""Scaling: tokens a second over accelerators, against what perfect scaling would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from math import log2
from typing import NamedTuple

from meshwright.answers.pictures.svg import (
    COLOURS,
    LINE,
    PALE,
    QUIET,
    WIDTH,
    box,
    legend,
    line,
    number,
    picture,
    text,
)
from meshwright.units import format_count

LEFT, RIGHT, TOP, HEIGHT = 70, 130, 30, 220
"""Units around the field, and its height."""
MARK = 7
IDEAL = "#57636f"


class ScalingPoint(NamedTuple):
    """One number of accelerators."""

    gpus: int
    tokens_per_s: float
    ideal_tokens_per_s: float


class _Field(NamedTuple):
    """Where numbers of accelerators and tokens a second lie, both on scales of powers of two."""

    gpus: tuple[float, float]
    tokens: tuple[float, float]

    def x(self, gpus: float) -> float:
        low, high = self.gpus
        return LEFT + (WIDTH - LEFT - RIGHT) * (log2(gpus / low) / log2(high / low))

    def y(self, tokens: float) -> float:
        low, high = self.tokens
        return TOP + HEIGHT * (1 - log2(tokens / low) / log2(high / low))


def scaling_picture(series: Mapping[str, Sequence[ScalingPoint]], title: str) -> str:
    """Every series with its efficiency at the end, and the ideal of each as a dashed line; two or more points each."""
    points = [point for each in series.values() for point in each]
    counts = sorted({point.gpus for point in points})
    speeds = [speed for point in points for speed in (point.tokens_per_s, point.ideal_tokens_per_s)]
    field = _Field((counts[0], counts[-1]), (min(speeds) / 1.15, max(speeds) * 1.15))
    shapes = [box(LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT, "#fbfcfd"), *_grid(field, counts, points)]
    colours = dict(zip(series, cycle(COLOURS), strict=False))
    lowest = float(TOP)
    for name in sorted(series, key=lambda name: -series[name][-1].tokens_per_s):
        drawn, lowest = _series(series[name], field, colours[name], lowest)
        shapes += drawn
    named, end = legend(TOP + HEIGHT + 3 * LINE, [*colours.items(), ("perfect scaling (dashed)", IDEAL)])
    told = "; ".join(f"{name}: {_ends(each)}" for name, each in series.items())
    return picture(end, title, f"{told}.", [*shapes, *named])


def _grid(field: _Field, counts: Sequence[int], points: Sequence[ScalingPoint]) -> list[str]:
    bottom = TOP + HEIGHT
    shapes = [text((LEFT + WIDTH - RIGHT) / 2, bottom + 2 * LINE, "accelerators", "middle", QUIET)]
    for count in counts:
        shapes += [
            line(field.x(count), TOP, field.x(count), bottom, PALE),
            text(field.x(count), bottom + 15, f"{count}", "middle"),
        ]
    low, high = min(point.tokens_per_s for point in points), max(point.tokens_per_s for point in points)
    speeds = [low * 2**step for step in range(int(log2(high / low)) + 2) if low * 2**step <= field.tokens[1]]
    for speed in speeds:
        shapes += [line(LEFT, field.y(speed), WIDTH - RIGHT, field.y(speed), PALE)]
        shapes.append(text(LEFT - 6, field.y(speed) + 4, format_count(float(f"{speed:.3g}")), "end", QUIET))
    return [*shapes, text(LEFT - 6, TOP - 12, "tokens/s", "end", QUIET)]


def _series(points: Sequence[ScalingPoint], field: _Field, colour: str, lowest: float) -> tuple[list[str], float]:
    """The lines and marks of a series, and where the next label may stand at the highest."""
    ideal = [(field.x(point.gpus), field.y(point.ideal_tokens_per_s)) for point in points]
    real = [(field.x(point.gpus), field.y(point.tokens_per_s)) for point in points]
    shapes = [_way(ideal, IDEAL, "5 4"), _way(real, colour)]
    shapes += [box(x - MARK / 2, y - MARK / 2, MARK, MARK, colour) for x, y in real]
    x, y = real[-1]
    y = max(y + 4, lowest)
    mark = box(x + 10, y - 9, 3, 11, colour)
    efficiency = points[-1].tokens_per_s / points[-1].ideal_tokens_per_s
    return [*shapes, mark, text(x + 17, y, f"{efficiency:.1%} of perfect")], y + LINE


def _way(points: Sequence[tuple[float, float]], stroke: str, dash: str = "") -> str:
    corners = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{corners}" fill="none" stroke="{stroke}" stroke-width="2"{dashed}/>'


def _ends(points: Sequence[ScalingPoint]) -> str:
    first, last = points[0], points[-1]
    return (
        f"{format_count(first.tokens_per_s)} tokens/s on {first.gpus} accelerators, "
        f"{format_count(last.tokens_per_s)} on {last.gpus}"
    )

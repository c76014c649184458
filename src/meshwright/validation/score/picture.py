"""Picture: predicted against measured, step time and memory, coloured by source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import ceil, floor, log10
from typing import NamedTuple

from meshwright.answers.pictures.svg import (
    CHARACTER,
    COLOURS,
    LINE,
    MARGIN,
    PALE,
    QUIET,
    WIDTH,
    box,
    line,
    number,
    picture,
    round_step,
    text,
)
from meshwright.validation.score.errors import Quantity, memory, step_time
from meshwright.validation.score.outcomes import Outcome, Pair

LEFT, TOP, SIDE, BETWEEN = 56, 34, 300, 80
"""Units before the first field and above both, of each field's sides, and between them."""
SHAPES = ("circle", "diamond", "square", "triangle")
RADIUS = 3.2
OFF = 1.2
"""The dashed lines stand for predictions that are a fifth too long or too short."""
EQUAL_STEPS, POWERS_ALONE, MOST_STEPS = 1.0, 4.6, 6
"""Decades below which an axis is marked in equal steps, and above which by powers of ten alone; marks on it."""
LONGEST_NAME = 60
Mark = tuple[str, str]
"""Colour and shape."""


class _Field(NamedTuple):
    """Where pairs lie, on the same logarithmic scale both ways."""

    left: float
    low: float
    high: float

    def x(self, value: float) -> float:
        return self.left + SIDE * self._share(value)

    def y(self, value: float) -> float:
        return TOP + SIDE * (1 - self._share(value))

    def _share(self, value: float) -> float:
        return min(max(log10(value / self.low) / log10(self.high / self.low), 0.0), 1.0)


def score_picture(outcomes: Sequence[Outcome]) -> str:
    """Every configuration as a mark of its source; on the line the prediction is right. Returns SVG."""
    names = sorted({each.configuration.dataset for each in outcomes if each.step_time or each.memory})
    kinds = [(colour, shape) for shape, colour in product(SHAPES, COLOURS)]
    marks = {name: kinds[index % len(kinds)] for index, name in enumerate(names)}
    shapes: list[str] = []
    for place, (title, quantity) in enumerate((("Step time, s", step_time), ("Memory, GiB", memory))):
        shapes += _panel(LEFT + place * (SIDE + BETWEEN), title, _pairs(outcomes, quantity), marks)
    named, end = _legend(marks)
    times, memories = (len(_pairs(outcomes, quantity)) for quantity in (step_time, memory))
    told = f"{times} step times and {memories} memories of {len(names)} sources; dashed: 20 % off."
    told += f" Sources: {', '.join(names)}." if names else ""
    return picture(end, "Predicted against measured", told, [*shapes, *named])


def _pairs(outcomes: Sequence[Outcome], quantity: Quantity) -> list[tuple[str, Pair]]:
    given = ((each.configuration.dataset, quantity(each)) for each in outcomes)
    return [(name, pair) for name, pair in given if pair is not None]


def _panel(left: float, title: str, pairs: Sequence[tuple[str, Pair]], marks: Mapping[str, Mark]) -> list[str]:
    if not pairs:
        return [text(left, TOP - 12, f"{title}: nothing measured", fill=QUIET)]
    values = [value for _, pair in pairs for value in (pair.measured, pair.predicted)]
    field = _Field(left, min(values) / 1.3, max(values) * 1.3)
    shapes = [box(left, TOP, SIDE, SIDE, "#fbfcfd"), text(left, TOP - 12, title, weight="bold"), *_grid(field)]
    for factor, dash in ((1.0, ""), (OFF, "4 3"), (1 / OFF, "4 3")):
        low, high = field.low * max(1.0, 1 / factor), field.high * min(1.0, 1 / factor)
        ends = field.x(low), field.y(low * factor), field.x(high), field.y(high * factor)
        shapes.append(line(*ends, QUIET, dash))
    shapes += [_mark(field.x(pair.measured), field.y(pair.predicted), marks[name]) for name, pair in pairs]
    shapes.append(text(left + SIDE / 2, TOP + SIDE + 2 * LINE, "measured", "middle", QUIET))
    return [*shapes, text(left + 5, TOP + 14, "predicted", fill=QUIET, halo=True)]


def _grid(field: _Field) -> Iterator[str]:
    for value in (each for each in _ticks(field.low, field.high) if field.low < each < field.high):
        yield line(field.x(value), TOP, field.x(value), TOP + SIDE, PALE)
        yield line(field.left, field.y(value), field.left + SIDE, field.y(value), PALE)
        yield text(field.x(value), TOP + SIDE + 15, f"{value:g}", "middle", QUIET)
        yield text(field.left - 6, field.y(value) + 4, f"{value:g}", "end", QUIET)


def _ticks(low: float, high: float) -> list[float]:
    """Powers of ten and three times them, fewer over many decades, equal steps over one."""
    decades = log10(high / low)
    if decades < EQUAL_STEPS:
        step = round_step(high - low, MOST_STEPS)
        return [count * step for count in range(ceil(low / step), floor(high / step) + 1)]
    powers = range(floor(log10(low)), floor(log10(high)) + 1)
    if decades > POWERS_ALONE:
        return [10.0**power for power in powers if power % ceil(decades / MOST_STEPS) == 0]
    return [factor * 10.0**power for power in powers for factor in (1, 3)]


def _mark(x: float, y: float, mark: Mark) -> str:
    colour, shape = mark
    if shape == "circle":
        return f'<circle cx="{number(x)}" cy="{number(y)}" r="{RADIUS}" fill="{colour}" fill-opacity="0.65"/>'
    corners = {
        "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
        "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        "triangle": ((0, -1.3), (1.2, 1), (-1.2, 1)),
    }[shape]
    points = " ".join(f"{number(x + RADIUS * across)},{number(y + RADIUS * down)}" for across, down in corners)
    return f'<polygon points="{points}" fill="{colour}" fill-opacity="0.65"/>'


def _legend(marks: Mapping[str, Mark]) -> tuple[list[str], float]:
    """Names behind their marks, and where the picture ends."""
    shapes: list[str] = []
    x, y = float(MARGIN), TOP + SIDE + 3.5 * LINE
    for name, mark in marks.items():
        told = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
        width = 18 + CHARACTER * len(told) + 18
        if x > MARGIN and x + width > WIDTH - MARGIN:
            x, y = float(MARGIN), y + LINE
        shapes += [_mark(x + 5, y - 4, mark), text(x + 16, y, told, fill=QUIET)]
        x += width
    return shapes, y + LINE

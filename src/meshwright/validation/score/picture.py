"""Picture: predicted against measured, step time and memory, coloured by source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import ceil, floor, log10

from meshwright.answers.pictures.svg import (
    CHARACTER,
    COLOURS,
    LINE,
    MARGIN,
    PALE,
    QUIET,
    WIDTH,
    Drawing,
    LogField,
    number,
    round_step,
)
from meshwright.validation.outcomes import Outcome, Pair
from meshwright.validation.score.errors import Quantity, memory, step_time

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


def score_picture(outcomes: Sequence[Outcome]) -> str:
    """Every configuration as a mark of its source; on the line the prediction is right. Returns SVG."""
    names = sorted({each.configuration.dataset for each in outcomes if each.step_time or each.memory})
    kinds = [(colour, shape) for shape, colour in product(SHAPES, COLOURS)]
    marks = {name: kinds[index % len(kinds)] for index, name in enumerate(names)}
    drawing = Drawing()
    for place, (title, quantity) in enumerate((("Step time, s", step_time), ("Memory, GiB", memory))):
        _panel(drawing, LEFT + place * (SIDE + BETWEEN), title, _pairs(outcomes, quantity), marks)
    height = _legend(drawing, marks)
    times, memories = (len(_pairs(outcomes, quantity)) for quantity in (step_time, memory))
    description = f"{times} step times and {memories} memories of {len(names)} sources; dashed: 20 % off."
    description += f" Sources: {', '.join(names)}." if names else ""
    return drawing.svg(height, "Predicted against measured", description)


def _pairs(outcomes: Sequence[Outcome], quantity: Quantity) -> list[tuple[str, Pair]]:
    pairs = ((each.configuration.dataset, quantity(each)) for each in outcomes)
    return [(name, pair) for name, pair in pairs if pair is not None]


def _panel(
    drawing: Drawing, left: float, title: str, pairs: Sequence[tuple[str, Pair]], marks: Mapping[str, Mark]
) -> None:
    if not pairs:
        drawing.text(left, TOP - 12, f"{title}: nothing measured", fill=QUIET)
        return
    values = [value for _, pair in pairs for value in (pair.measured, pair.predicted)]
    low, high = min(values) / 1.3, max(values) * 1.3
    field = LogField(left=left, top=TOP, width=SIDE, height=SIDE, across=(low, high), up=(low, high))
    drawing.box(left, TOP, SIDE, SIDE, "#fbfcfd")
    drawing.text(left, TOP - 12, title, weight="bold")
    _grid(drawing, field)
    for factor, dash in ((1.0, ""), (OFF, "4 3"), (1 / OFF, "4 3")):
        start, end = low * max(1.0, 1 / factor), high * min(1.0, 1 / factor)
        drawing.line(field.x(start), field.y(start * factor), field.x(end), field.y(end * factor), QUIET, dash)
    for name, pair in pairs:
        _mark(drawing, field.x(pair.measured), field.y(pair.predicted), marks[name])
    drawing.text(left + SIDE / 2, TOP + SIDE + 2 * LINE, "measured", "middle", QUIET)
    drawing.text(left + 5, TOP + 14, "predicted", fill=QUIET, halo=True)


def _grid(drawing: Drawing, field: LogField) -> None:
    low, high = field.across
    for value in (each for each in _ticks(low, high) if low < each < high):
        drawing.line(field.x(value), TOP, field.x(value), TOP + SIDE, PALE)
        drawing.line(field.left, field.y(value), field.left + SIDE, field.y(value), PALE)
        drawing.text(field.x(value), TOP + SIDE + 15, f"{value:g}", "middle", QUIET)
        drawing.text(field.left - 6, field.y(value) + 4, f"{value:g}", "end", QUIET)


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


def _mark(drawing: Drawing, x: float, y: float, mark: Mark) -> None:
    colour, shape = mark
    if shape == "circle":
        outline = f'<circle cx="{number(x)}" cy="{number(y)}" r="{RADIUS}"'
    else:
        corners = {
            "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
            "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
            "triangle": ((0, -1.3), (1.2, 1), (-1.2, 1)),
        }[shape]
        points = " ".join(f"{number(x + RADIUS * across)},{number(y + RADIUS * down)}" for across, down in corners)
        outline = f'<polygon points="{points}"'
    drawing.shapes.append(f'{outline} fill="{colour}" fill-opacity="0.65"/>')


def _legend(drawing: Drawing, marks: Mapping[str, Mark]) -> float:
    """Names behind their marks; returns where the picture ends."""
    x, y = float(MARGIN), TOP + SIDE + 3.5 * LINE
    for name, mark in marks.items():
        short = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
        width = 18 + CHARACTER * len(short) + 18
        if x > MARGIN and x + width > WIDTH - MARGIN:
            x, y = float(MARGIN), y + LINE
        _mark(drawing, x + 5, y - 4, mark)
        drawing.text(x + 16, y, short, fill=QUIET)
        x += width
    return y + LINE

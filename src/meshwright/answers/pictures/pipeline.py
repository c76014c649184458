"""Pipeline: what every stage does, action by action, and where it idles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from meshwright.answers.pictures.svg import (
    CHARACTER,
    COLOURS,
    INK,
    LINE,
    MARGIN,
    PALE,
    QUIET,
    RULE,
    WIDTH,
    box,
    legend,
    line,
    picture,
    round_step,
    text,
)
from meshwright.schedules.action import Event
from meshwright.units import format_seconds

LEFT = 66
"""Units for the names of the stages."""
ROW, GAP = 18, 3
MOST_ROWS = 16
FILLS = {
    "forward": ("forward", COLOURS[4]),
    "backward": ("backward", COLOURS[0]),
    "input_gradient": ("backward of inputs", COLOURS[2]),
    "weight_gradient": ("gradients of weights", "#e8d935"),
}
"""Of any two kinds, one is clearly darker."""
SECOND_CHUNKS = {COLOURS[4]: "#9ad0ef", COLOURS[0]: "#00517f", COLOURS[2]: "#007a59", "#e8d935": "#cbbb28"}
"""The same of every other chunk, so that neighbours are told apart."""
DARK = (COLOURS[0], "#00517f", "#007a59")
"""Fills that a number stands on in white."""


class PipelineChart(NamedTuple):
    """One schedule on the clock."""

    title: str
    events: tuple[tuple[Event, ...], ...]
    """Of every stage."""
    span_s: float


def pipeline_picture(charts: Sequence[PipelineChart], title: str) -> str:
    """Schedules one below the other on one time scale: forward, backward and idle time of every stage."""
    span = max(chart.span_s for chart in charts)
    scale, y, shapes = (WIDTH - LEFT - 2 * MARGIN) / span, float(MARGIN), []
    for chart in charts:
        shapes.append(text(MARGIN, y + 10, chart.title, weight="bold"))
        drawn, y = _chart(chart, y + LINE, scale)
        shapes += drawn
    axis, y = _axis(span, scale, y)
    named, end = legend(y + LINE, [*_kinds(charts), ("idle", PALE)])
    told = "; ".join(f"{chart.title}: {format_seconds(chart.span_s)}" for chart in charts)
    return picture(end, title, f"{told}.", [*shapes, *axis, *named])


def _kinds(charts: Sequence[PipelineChart]) -> list[tuple[str, str]]:
    """Names and colours of what is drawn, those of every other chunk last."""
    actions = (event.action for chart in charts for row in chart.events for event in row)
    drawn = dict.fromkeys((action.chunk % 2, *FILLS[action.kind]) for action in actions)
    plain = [(name, colour) for second, name, colour in drawn if not second]
    shaded = [(f"{name}, every other chunk", SECOND_CHUNKS[colour]) for second, name, colour in drawn if second]
    return [*plain, *shaded]


def _chart(chart: PipelineChart, y: float, scale: float) -> tuple[list[str], float]:
    """The rows of one schedule from y on, and where the next one begins."""
    shapes, start = [], LEFT + MARGIN
    for stage, events in enumerate(chart.events[:MOST_ROWS]):
        shapes.append(text(start - 6, y + 13, f"stage {stage}", "end", QUIET))
        shapes.append(box(start, y, chart.span_s * scale, ROW, PALE))
        shapes += [shape for event in events for shape in _event(event, start, y, scale)]
        y += ROW + GAP
    if len(chart.events) > MOST_ROWS:
        shapes.append(text(start, y + 11, f"... {len(chart.events) - MOST_ROWS} more stages", fill=QUIET))
        y += LINE
    return shapes, y + MARGIN


def _event(event: Event, start: float, y: float, scale: float) -> Iterator[str]:
    _, colour = FILLS[event.action.kind]
    fill = SECOND_CHUNKS[colour] if event.action.chunk % 2 else colour
    x, width = start + event.start_s * scale, (event.end_s - event.start_s) * scale
    yield box(x, y, max(width - 0.5, 0.3), ROW, fill)
    name = f"{event.action.micro_batch}"
    if width > CHARACTER * (len(name) + 0.6):
        yield text(x + width / 2, y + 13, name, "middle", "#ffffff" if fill in DARK else INK)


def _axis(span: float, scale: float, y: float) -> tuple[list[str], float]:
    """Ticks at round seconds below all charts, and where the next line would be."""
    step, start = round_step(span, 6), LEFT + MARGIN
    shapes = [line(start, y, start + span * scale, y, RULE)]
    for tick in range(int(span / step + 1e-9) + 1):
        x = start + tick * step * scale
        shapes += [
            line(x, y, x, y + 4, QUIET),
            text(min(x, WIDTH - 34), y + LINE, format_seconds(tick * step), "middle", QUIET),
        ]
    return shapes, y + LINE + 4

"""Pipeline: what every stage does, action by action, and where it idles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from meshwright.answers.pictures.svg import (
    CHARACTER,
    COLOURS,
    LINE,
    MARGIN,
    ON_LIGHT,
    PALE,
    QUIET,
    WIDTH,
    Drawing,
    round_step,
)
from meshwright.schedules.action import Event
from meshwright.units import format_seconds

START = MARGIN + 66
"""Where the clock starts, behind the names of the stages."""
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
    scale, drawing, y = (WIDTH - START - MARGIN) / span, Drawing(), float(MARGIN)
    for chart in charts:
        drawing.text(MARGIN, y + 10, chart.title, weight="bold")
        y = _chart(drawing, chart, y + LINE, scale)
    height = drawing.legend(_axis(drawing, span, scale, y) + LINE, [*_kinds(charts), ("idle", PALE)])
    spans = "; ".join(f"{chart.title}: {format_seconds(chart.span_s)}" for chart in charts)
    return drawing.svg(height, title, f"{spans}.")


def _kinds(charts: Sequence[PipelineChart]) -> list[tuple[str, str]]:
    """Names and colours of what is drawn, those of every other chunk last."""
    actions = (event.action for chart in charts for row in chart.events for event in row)
    drawn = dict.fromkeys((action.chunk % 2, *FILLS[action.kind]) for action in actions)
    plain = [(name, colour) for second, name, colour in drawn if not second]
    shaded = [(f"{name}, every other chunk", SECOND_CHUNKS[colour]) for second, name, colour in drawn if second]
    return [*plain, *shaded]


def _chart(drawing: Drawing, chart: PipelineChart, y: float, scale: float) -> float:
    """The rows of one schedule from y on; returns where the next one begins."""
    for stage, events in enumerate(chart.events[:MOST_ROWS]):
        with drawing.mark(f"stage {stage}: {_busy(events, chart.span_s)}"):
            drawing.text(START - 6, y + 13, f"stage {stage}", "end", QUIET)
            drawing.box(START, y, chart.span_s * scale, ROW, PALE)
            for event in events:
                _event(drawing, event, y, scale)
        y += ROW + GAP
    if len(chart.events) > MOST_ROWS:
        drawing.text(START, y + 11, f"... {len(chart.events) - MOST_ROWS} more stages", fill=QUIET)
        y += LINE
    return y + MARGIN


def _busy(events: Sequence[Event], span_s: float) -> str:
    """What a stage does in all, and its share of the time without work."""
    done: dict[str, float] = {}
    for event in events:
        name = FILLS[event.action.kind][0]
        done[name] = done.get(name, 0.0) + event.end_s - event.start_s
    kinds = ", ".join(f"{kind} {format_seconds(seconds)}" for kind, seconds in done.items())
    return f"{kinds}, idle {max(1 - sum(done.values()) / span_s, 0):.0%} of {format_seconds(span_s)}"


def _event(drawing: Drawing, event: Event, y: float, scale: float) -> None:
    _, colour = FILLS[event.action.kind]
    fill = SECOND_CHUNKS[colour] if event.action.chunk % 2 else colour
    x, width = START + event.start_s * scale, (event.end_s - event.start_s) * scale
    drawing.box(x, y, max(width - 0.5, 0.3), ROW, fill)
    name = f"{event.action.micro_batch}"
    if width > CHARACTER * (len(name) + 0.6):
        drawing.text(x + width / 2, y + 13, name, "middle", "#ffffff" if fill in DARK else ON_LIGHT)


def _axis(drawing: Drawing, span: float, scale: float, y: float) -> float:
    """Ticks at round seconds below all charts; returns where the next line would be."""
    step = round_step(span, 6)
    drawing.line(START, y, START + span * scale, y)
    for tick in range(int(span / step + 1e-9) + 1):
        x = START + tick * step * scale
        drawing.line(x, y, x, y + 4, QUIET)
        drawing.text(min(x, WIDTH - 34), y + LINE, format_seconds(tick * step), "middle", QUIET)
    return y + LINE + 4

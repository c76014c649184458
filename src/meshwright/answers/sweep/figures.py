"""Figures of a sweep: step time over GPUs, cost over time, memory over length, and what limits where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from meshwright.answers.document.blocks import Block, Figure, Heading, Paragraph
from meshwright.answers.pictures.cells import Cell, cells_picture
from meshwright.answers.pictures.lines import Axis, Points, lines_picture
from meshwright.answers.pictures.svg import COLOURS, gib
from meshwright.answers.step_parts import ALL_NAMES
from meshwright.answers.sweep.columns import OF_JOB, REFUSED, Row
from meshwright.answers.sweep.series import differing, groups, words_of
from meshwright.units import format_count, format_seconds

MOST = 6
"""Pictures of one kind: more are not looked at."""
MOST_ROWS = 40
"""Of a picture of cells."""
KNOBS = ("precision", "gradients", "risk", "runtime", "with", "limits")
JOB = tuple(name for name in OF_JOB if name not in KNOBS)
GPUS, STEP = Axis("accelerators", lambda count: f"{count:.0f}"), Axis("step time", format_seconds)
DAYS, LENGTH = (
    Axis("days of training", lambda days: f"{days:,.3g}"),
    Axis("sequence length", lambda length: f"{length:,.0f}"),
)
Point = Callable[[Row], tuple[float, float]]


def figures(rows: Sequence[Row]) -> tuple[Block, ...]:
    """The pictures that these rows have anything to show in."""
    planned = [row for row in rows if row.get("plan")]
    kinds = {
        "Step time": [*_step_times(planned)],
        "Cost and deadline": [*_costs(planned)],
        "Memory": [*_memories(planned)],
        "What limits the step": [*_limits(rows)],
    }
    return tuple(block for title, pictures in kinds.items() for block in _section(title, pictures))


def _section(title: str, pictures: Sequence[Figure]) -> Iterator[Block]:
    if pictures:
        yield Heading(title, 2)
        yield from pictures[:MOST]
        if len(pictures) > MOST:
            yield Paragraph(f"{len(pictures) - MOST} more such pictures are left out; the table has their figures.")


def _step_times(rows: Sequence[Row]) -> Iterator[Figure]:
    """Of every job the step time over accelerators, the fastest cluster of as many."""
    for place, each in enumerate(groups(rows, ("model", *JOB)).values(), 1):
        if len({row["gpus"] for row in each}) > 1:
            points = _series(each, ("accelerator", *KNOBS), lambda row: (row["gpus"], row["step_time_s"]), min)
            series, left = _drawn(points)
            name = words_of(each[0], ("model", *differing(rows, JOB))) or each[0]["model"]
            picture = lines_picture(series, f"Step time of {name}", GPUS, STEP)
            yield Figure(f"step-time-{place}", picture, f"{name}: time of a step over accelerators{left}")


def _costs(rows: Sequence[Row]) -> Iterator[Figure]:
    """Of every model and number of tokens, the cheapest training that is done within so many days."""
    timed = [row for row in rows if row["days"] is not None]
    priced = [row for row in timed if row["cost"] is not None]
    unit = "cost" if priced else "accelerator_hours"
    axis = Axis("cost" if priced else "accelerator-hours", format_count)
    for place, each in enumerate(groups(priced or timed, ("model", "tokens")).values(), 1):
        points = _series(each, ("accelerator",), lambda row: (row["days"], row[unit]), min)
        series, left = _drawn({name: _cheapest(each) for name, each in points.items()})
        if sum(map(len, series.values())) > 1:
            name = words_of(each[0], ("model", "tokens"))
            picture = lines_picture(series, f"Cost of {name}", DAYS, axis, steps=True)
            caption = f"{name}: the least {axis.name} that meets a deadline, over all jobs, knobs and limits{left}"
            yield Figure(f"cost-{place}", picture, caption)


def _cheapest(points: Points) -> Points:
    """Of points by days, those that cost less than all that take fewer."""
    kept: list[tuple[float, float]] = []
    for days, cost in points:
        if not kept or cost < kept[-1][1]:
            kept.append((days, cost))
    return kept


def _memories(rows: Sequence[Row]) -> Iterator[Figure]:
    """Of every model and cluster the memory of the best plan over the length of a sequence."""
    for place, each in enumerate(groups(rows, ("model", "cluster")).values(), 1):
        if len({row["sequence_length"] for row in each}) > 1:
            others = (*(name for name in JOB if name != "sequence_length" and name != "global_batch"), *KNOBS)
            points = _series(each, others, lambda row: (row["sequence_length"], row["device_bytes"]), max)
            series, left = _drawn(points)
            name = words_of(each[0], ("model", "cluster"))
            visible = each[0]["visible_bytes"]
            limit = (f"{gib(visible)} on {each[0]['accelerator']}", visible)
            picture = lines_picture(series, f"Memory of {name}", LENGTH, Axis("memory", gib), limit)
            caption = f"{name}: memory of the best plan over the length of a sequence{left}"
            yield Figure(f"memory-{place}", picture, caption)


def _limits(rows: Sequence[Row]) -> Iterator[Figure]:
    """Of every model what takes most of a step beyond the ideal compute, on every cluster."""
    kinds = [*dict.fromkeys(limiting_words(row) for row in rows if row.get("plan"))]
    for place, each in enumerate(groups(rows, ("model",)).values(), 1):
        clusters = [*dict.fromkeys(row["cluster"] for row in sorted(each, key=lambda row: row["gpus"]))]
        names = [name for name in differing(each) if name != "cluster"]
        cells: dict[str, list[Cell | None]] = {}
        for row in each:
            cells.setdefault(words_of(row, names) or "best plan", [None] * len(clusters))
            cells[words_of(row, names) or "best plan"][clusters.index(row["cluster"])] = _cell(row)
        shown = dict([*cells.items()][:MOST_ROWS])
        rest = f"; {len(cells) - MOST_ROWS} more rows stand in the table" if len(cells) > MOST_ROWS else ""
        model = each[0]["model"]
        picture = cells_picture(shown, clusters, f"What limits {model}", kinds)
        caption = f"{model}: the largest loss of a step apart from kernels below peak, and its share{rest}"
        yield Figure(f"limits-{place}", picture, caption)


def _cell(row: Row) -> Cell:
    if not row.get("plan"):
        return Cell("", "refused" if row["status"] == REFUSED else "no fit")
    return Cell(limiting_words(row), f"{row['limiting_s'] / row['step_time_s']:.0%}")


def limiting_words(row: Row) -> str:
    """What a step loses most to."""
    return ALL_NAMES[f"{row['limiting']}_s"]


def _series(
    rows: Sequence[Row], names: Sequence[str], point: Point, among: Callable[[float, float], float]
) -> dict[str, Points]:
    """Points by the name of their series, each from left to right, those that lie on each other as one; among: which of
    several at one place stands.
    """
    alike: dict[tuple[tuple[float, float], ...], list[Row]] = {}
    labels = differing(rows, names)
    for each in groups(rows, labels).values():
        points: dict[float, float] = {}
        for x, y in map(point, each):
            points[x] = among(points.get(x, y), y)
        alike.setdefault(tuple(sorted(points.items())), []).append(each[0])
    return {_name_of(each, labels): [*points] for points, each in alike.items()}


def _name_of(rows: Sequence[Row], labels: Sequence[str]) -> str:
    """What rows say under some labels, several words under one label as `bf16/fp8`."""
    words = ("/".join(dict.fromkeys(words_of(row, [label]) for row in rows)) for label in labels)
    return ", ".join(filter(None, words)) or rows[0]["model"]


def _drawn(series: dict[str, Points]) -> tuple[dict[str, Points], str]:
    """As many series as there are colours, and what a caption says of the others."""
    left = len(series) - len(COLOURS)
    words = f"; {left} more {'is' if left == 1 else 'are'} in the table" if left > 0 else ""
    return dict([*series.items()][: len(COLOURS)]), words

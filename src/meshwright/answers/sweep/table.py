"""The answers of a sweep as a table on a screen, as JSON, and how large it is before it starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from meshwright.answers.document.blocks import Block, Lines, Table, Toned
from meshwright.answers.records import document_of
from meshwright.answers.screen import TONE_OF, without_plan
from meshwright.answers.sweep.columns import REFUSED, Row
from meshwright.answers.sweep.figures import limiting_words
from meshwright.answers.sweep.series import differing, words_of
from meshwright.answers.words import plural
from meshwright.units import GIB, format_seconds

SCHEMA = "meshwright.sweep/1"
MOST_ROWS = 24
"""On a screen."""
UNPRICED = "cost -: [prices] has none of its accelerator."
SPAN = "8 in 10"
SPANS = "8 in 10: the days that eight of ten runs like it take."
WHOLE = 100.0
"""Days from which a range has no fractions."""
MOST_REASONS = 10


def counts_words(rows: Sequence[Row]) -> str:
    """How many questions have a plan, and what the others have."""
    counts = Counter(row["status"] for row in rows)
    listed = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"{plural(len(rows), 'question')}: {listed}"


def sweep_screen(rows: Sequence[Row], files: Sequence[Path], unanswered: int = 0) -> tuple[Block, ...]:
    """The first rows, why others have no plan, and where everything is written; unanswered: questions not reached."""
    written = f"Written: {', '.join(map(str, files))}"
    if unanswered:
        written = f"{unanswered:,} more are not answered yet; the same sweep, asked again, goes on from here"
    return (*(summary(rows, MOST_ROWS) if rows else ()), Lines((counts_words(rows), written)))


def sweep_document(rows: Sequence[Row], files: Sequence[Path], unanswered: int = 0) -> dict[str, Any]:
    """Every row, and the files that hold it; unanswered: questions not reached."""
    missing = {"complete": False, "unanswered": unanswered} if unanswered else {}
    return document_of(schema=SCHEMA, **missing, rows=rows, files=[*map(str, files)])


def summary(rows: Sequence[Row], most: int) -> tuple[Block, ...]:
    """Tables with what rows differ in and with their plans, and why others have none; most: how many rows."""
    labels, shown = differing(rows) or ["model", "cluster"], [*enumerate(rows[:most], 1)]
    known = {name for name in ("days", "cost") if any(row.get(name) is not None for row in rows)}
    timed = [*(("days", SPAN) if "days" in known else ()), *(("cost",) if "cost" in known else ())]
    columns = ("", "question", "step", "MFU", "GiB", "verdict", *timed)
    cells = tuple((str(place), words_of(row, labels), *_figures(row, timed)) for place, row in shown)
    plans = tuple((str(place), row["plan"], limiting_words(row)) for place, row in shown if row.get("plan"))
    notes = [f"{len(rows) - most} more rows stand in the Parquet table."] if len(rows) > most else []
    unpriced = "cost" in known and any(row.get("plan") and row.get("cost") is None for _, row in shown)
    notes += [SPANS] if SPAN in timed else []
    notes += [UNPRICED] if unpriced else []
    return (
        Table(columns, cells, "rlrrrw" + "r" * len(timed), note=" ".join(notes)),
        Table(("", "plan", "largest loss apart from kernels below peak"), plans, "rll"),
        *without_plan(_reasons(rows, labels)),
    )


def _reasons(rows: Sequence[Row], labels: Sequence[str]) -> list[str]:
    """Why rows have no plan, each reason once with the first of its rows."""
    reasons: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("reason"):
            reasons.setdefault(row["reason"], []).append(row)
    listed = [
        f"{words_of(each[0], labels)}{f' and {len(each) - 1} more' if len(each) > 1 else ''}: {reason}"
        for reason, each in [*reasons.items()][:MOST_REASONS]
    ]
    more = len(reasons) - MOST_REASONS
    return [*listed, f"{more} more reasons stand in the Parquet table"] if more > 0 else listed


def _figures(row: Row, timed: Sequence[str]) -> tuple[str, ...]:
    if not row.get("plan"):
        status = Toned(row["status"], "bad" if row["status"] != REFUSED else "warning")
        return ("-", "-", "-", status, *("-" for _ in timed))
    return (
        format_seconds(row["step_time_s"]),
        f"{row['mfu']:.1%}",
        f"{row['device_bytes'] / GIB:.1f}",
        Toned(row["verdict"], TONE_OF.get(row["verdict"], "bad")),
        *(_timed(row, name) for name in timed),
    )


def _timed(row: Row, name: str) -> str:
    """The days, those of eight in ten runs, or the cost of a plan."""
    days, cost = row.get("days"), row.get("cost")
    if name == "cost":
        return "-" if cost is None else f"{cost:,.0f}"
    if days is None:
        return "-"
    if name == "days":
        return f"{days:,.1f}"
    low, high = (days * row[key] / row["step_time_s"] for key in ("step_time_p10_s", "step_time_p90_s"))
    digits = 0 if high >= WHOLE else 1
    return f"{low:,.{digits}f}-{high:,.{digits}f}"

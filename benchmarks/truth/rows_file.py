"""One line per configuration, as a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from .scoring import STEP_TIME, Outcome, Score


def write_rows(path: Path, outcomes: Iterable[Outcome]) -> None:
    """Write what was measured, predicted and assumed, or why a configuration is not represented."""
    lines = [_line(outcome) for outcome in outcomes]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def _line(outcome: Outcome) -> dict[str, object]:
    given, case, estimate = outcome.configuration, outcome.case, outcome.estimate
    time = next((score for score in outcome.scores if score.quantity == STEP_TIME), None)
    memory = next((score for score in outcome.scores if score.unit == "GiB"), None)
    return {
        "id": given.id,
        "rows": len(given.rows),
        "dataset": given.dataset,
        "quality": given.quality,
        "model": given.rows[0]["model"],
        "gpus": f"{given.rows[0]['num_gpus']} {given.rows[0]['gpu']}",
        "plan": case.plan if case else "",
        **_figures("step_time", "s", given.step_time_s, time),
        "memory_kind": given.memory_kind,
        **_figures("memory", "gib", given.memory_gib, memory),
        "fitted": "yes" if given.fits else "no",
        "verdict": estimate.verdict if estimate else "",
        "not_represented": outcome.refusal,
        "assumed": "; ".join(case.assumed) if case else "",
    }


def _figures(name: str, unit: str, measured: float | None, score: Score | None) -> dict[str, object]:
    return {
        f"{name}_measured_{unit}": "" if measured is None else measured,
        f"{name}_predicted_{unit}": f"{score.predicted:.5g}" if score else "",
        f"{name}_error": f"{score.error:.4f}" if score else "",
    }

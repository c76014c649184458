"""Document: a score as JSON, where every error is a share, and its configurations as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from meshwright.validation.score.outcomes import Outcome, Pair
from meshwright.validation.score.score import Part, Score

COLUMNS = (
    *("id", "rows", "dataset", "quality", "model", "gpus", "plan"),
    *("step_time_measured_s", "step_time_predicted_s", "step_time_error", "memory_kind"),
    *("memory_measured_gib", "memory_predicted_gib", "memory_error"),
    *("fitted", "verdict", "not_represented", "assumed"),
)


def score_document(score: Score) -> dict[str, Any]:
    """The whole score; what was not measured is null."""
    time, gib = score.means
    return {
        "rows": score.rows,
        "represented": score.represented,
        "skipped": [{"id": name, "reason": reason} for name, reason in score.skipped],
        **_part(score.whole),
        "memory_by_kind": {kind: errors._asdict() for kind, errors in score.kinds.items()},
        "memory_not_scored": score.memory_not_scored,
        "mean_of_datasets": {"step_time": time, "memory": gib},
        "judged_together": {
            each.name: {
                "step_time": each.step_time._asdict(),
                "mean_of_datasets": each.mean_of_datasets,
                "datasets": each.datasets,
            }
            for each in score.judged_together
        },
        "fit": score.verdicts._asdict(),
        "ranking": [each._asdict() for each in score.rankings],
        "by": {name: {key: _part(part) for key, part in parts.items()} for name, parts in score.by.items()},
        "intervals": {name: held._asdict() for name, held in score.intervals._asdict().items()},
        "apart": {quality: _part(part) for quality, part in score.apart.items()},
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "step_time": part.step_time._asdict() if part.step_time else None,
        "memory": part.memory._asdict() if part.memory else None,
    }


def configurations_csv(outcomes: Sequence[Outcome]) -> str:
    """What was measured, predicted and assumed, or why a configuration is not represented, as CSV."""
    written = io.StringIO()
    writer = csv.DictWriter(written, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_line(outcome) for outcome in outcomes)
    return written.getvalue()


def _line(outcome: Outcome) -> dict[str, object]:
    given, case, estimate = outcome.configuration, outcome.case, outcome.estimate
    first = given.rows[0]
    return {
        "id": given.id,
        "rows": len(given.rows),
        "dataset": given.dataset,
        "quality": given.quality,
        "model": first["model"],
        "gpus": f"{first['num_gpus']} {first['gpu']}".strip(),
        "plan": case.plan if case else "",
        **_figures("step_time", "s", given.step_time_s, outcome.step_time),
        "memory_kind": given.memory_kind,
        **_figures("memory", "gib", given.memory_gib, outcome.memory),
        "fitted": "yes" if given.fits else "no",
        "verdict": estimate.verdict if estimate else "",
        "not_represented": outcome.refusal,
        "assumed": "; ".join(case.assumed) if case else "",
    }


def _figures(name: str, unit: str, measured: float | None, pair: Pair | None) -> dict[str, object]:
    printed = pair.measured if pair else measured
    return {
        f"{name}_measured_{unit}": "" if printed is None else f"{printed:.6g}",
        f"{name}_predicted_{unit}": f"{pair.predicted:.6g}" if pair else "",
        f"{name}_error": f"{pair.error:.4f}" if pair else "",
    }

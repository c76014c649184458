"""Document: a score as JSON; every error is a share."""

from __future__ import annotations

from typing import Any

from meshwright.validation.score.score import Part, Score


def score_document(score: Score) -> dict[str, Any]:
    """The whole score; what was not measured is null."""
    time, gib = score.means
    return {
        "rows": score.rows,
        "represented": score.represented,
        "skipped": [{"id": name, "reason": reason} for name, reason in score.skipped],
        **_part(score.whole),
        "memory_by_kind": {kind: errors._asdict() for kind, errors in score.kinds.items()},
        "mean_of_datasets": {"step_time": time, "memory": gib},
        "judged_together": {
            each.name: {
                "step_time": each.step_time._asdict(),
                "mean_of_datasets": each.mean_of_datasets,
                "datasets": each.datasets,
            }
            for each in score.judged_together
        },
        "fit": score.fits._asdict(),
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

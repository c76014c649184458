"""Write the score of every published source, which tests hold later changes against."""

from __future__ import annotations

import json
from pathlib import Path

from meshwright.validation.outcomes import outcomes_of
from meshwright.validation.rows.configurations import configurations
from meshwright.validation.rows.table import read_rows
from meshwright.validation.score.score import Score, score_of

BASELINE = Path(__file__).parent / "baseline.json"


def errors_by_source(score: Score) -> dict[str, dict[str, float]]:
    """Mean absolute errors of step time and memory, shares."""
    return {
        source: {
            name: round(errors.mape, 4)
            for name, errors in (("step_time", part.step_time), ("memory", part.memory))
            if errors
        }
        for source, part in score.by["dataset"].items()
    }


if __name__ == "__main__":
    score = score_of(outcomes_of(configurations(read_rows())))
    BASELINE.write_text(json.dumps(errors_by_source(score), indent=2) + "\n", "utf-8")

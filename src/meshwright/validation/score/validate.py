"""Validate: predictions scored against measured runs, from Python."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from meshwright.answers.document.answer import Answer
from meshwright.answers.document.blocks import Block, Lines
from meshwright.answers.records import json_of
from meshwright.arguments import checked
from meshwright.errors import InvalidInput
from meshwright.reprs import lines_of
from meshwright.search.stop import Progress
from meshwright.validation.fit.fitting import leave_one_source_out, leave_one_source_out_coverage
from meshwright.validation.outcomes import Outcome, outcomes_of
from meshwright.validation.rows.configurations import configurations
from meshwright.validation.rows.siblings import BY_WORDS, as_known, as_strangers
from meshwright.validation.rows.table import read_rows
from meshwright.validation.score.configurations_csv import figures
from meshwright.validation.score.score import Score, score_of
from meshwright.validation.score.screen import score_screen
from meshwright.validation.score.where import row_filter, unmatched


@dataclass(frozen=True, repr=False)
class ValidateAnswer(Answer):
    """A score, from `meshwright.validate`."""

    score: Score
    outcomes: tuple[Outcome, ...]
    """What was measured and what is predicted, by configuration."""
    unmatched: tuple[str, ...] = ()
    """Where a condition holds for no row, which of its values no row has."""

    def __repr__(self) -> str:
        score = self.score
        parts = {"step time": score.step_time, "memory": score.memory}
        errors = [f"{name} {each.mape:.1%} off on average" for name, each in parts.items() if each]
        represented = f"{score.represented} of {score.rows} rows predicted"
        return lines_of(f"<ValidateAnswer: {', '.join([represented, *errors])}>")

    def to_dict(self) -> dict[str, Any]:
        """What `meshwright validate --json` prints."""
        written: dict[str, Any] = json_of(self.score)
        return written

    def blocks(self) -> tuple[Block, ...]:
        """The screen of `meshwright validate`."""
        if not self.unmatched:
            return score_screen(self.score)
        return Lines(("No row meets the condition:", *(f"- {each}" for each in self.unmatched))), *score_screen(
            self.score
        )

    def rows(self) -> list[dict[str, Any]]:
        """The configurations: seconds of a step and GiB, measured and predicted, errors as shares, and between what
        eight of ten such runs of a further source lie.
        """
        return [_cells(outcome) for outcome in self.outcomes]


@checked
def validate(
    runs: str | Path | None = None,
    *,
    where: str | None = None,
    left_out: bool = False,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> ValidateAnswer:
    """Predictions of training runs that others measured, and how far off they are.

    runs: a table of measured runs, as `meshwright.runs` writes it, else the published ones; where: a condition on its
    rows, as `dataset == 'llmfoundry'`; left_out: predict each source with constants fitted to all others, which takes
    minutes; progress: told (runs priced, in all), then of those that are left out; executor: what prices them; None:
    this process.
    Raises `InvalidInput` for a table or a condition that cannot be read, and for a table without rows.
    """
    wanted = row_filter(where) if where is not None else lambda _: True
    table = read_rows() if runs is None else as_known(read_rows(Path(runs)))
    if not table:
        raise InvalidInput(f"the table of runs {str(runs)!r} has a header alone; give it one row for each run")
    rows = [row for row in table if wanted(row)]
    priced = partial(outcomes_of, progress=progress, executor=executor)
    outcomes = priced(configurations(rows))
    if not left_out:
        missing = () if rows or where is None else tuple(unmatched(where, table))
        return ValidateAnswer(score_of(outcomes), tuple(outcomes), missing)
    published = outcomes if runs is None and where is None else priced(configurations(read_rows()))
    by_words = any(row["known_by"] == BY_WORDS for row in rows)
    strangers = priced(configurations(as_strangers(read_rows()))) if by_words else []
    judged = leave_one_source_out([*published, *strangers], published, progress)
    outcomes = judged if outcomes is published else leave_one_source_out(outcomes, published, progress)
    return ValidateAnswer(score_of(outcomes, leave_one_source_out_coverage(outcomes, judged)), tuple(outcomes))


def _cells(outcome: Outcome) -> dict[str, Any]:
    configuration, case, estimate = outcome.configuration, outcome.case, outcome.estimate
    first = configuration.rows[0]
    return {
        "id": configuration.id,
        "dataset": configuration.dataset,
        "model": first["model"],
        "accelerator": first["gpu"],
        "plan": str(case.plan) if case else None,
        **figures("step_time", "s", configuration.step_time_s, outcome),
        **figures("memory", "gib", configuration.memory_gib, outcome),
        "fitted": configuration.fits,
        "verdict": str(estimate.verdict) if estimate else None,
        "not_represented": outcome.refusal,
    }

"""Score: everything that is said of a table of measured runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from meshwright.cost.memory.fit import Verdict
from meshwright.specs.precision import read_precision
from meshwright.specs.residuals import residuals
from meshwright.validation.fit.residuals import Coverage, coverage, memory_residuals, step_time_residuals
from meshwright.validation.outcomes import KINDS, Outcome
from meshwright.validation.rows.table import UNKNOWN
from meshwright.validation.score.errors import (
    Errors,
    errors_of,
    grouped,
    mean_of_datasets,
    memory,
    memory_of,
    step_time,
)
from meshwright.validation.score.ranking import Ranking, rankings

BREAKDOWNS: dict[str, Callable[[Outcome], str]] = {
    "dataset": lambda each: each.configuration.dataset,
    "runtime": lambda each: each.framework,
    "accelerator": lambda each: each.configuration.rows[0]["gpu"] or "not named",
    "precision": lambda each: each.precision,
}


class Part(NamedTuple):
    """The errors of some of the configurations."""

    step_time: Errors | None
    memory: Errors | None


class Means(NamedTuple):
    """Means over datasets of their mean absolute errors, shares."""

    step_time: float | None
    memory: float | None


class JudgedGroup(NamedTuple):
    """Configurations whose step time is judged together: by framework, precision, dense or with experts."""

    step_time: Errors
    mean_of_datasets: float
    """Mean over datasets of their mean absolute errors, a share."""
    datasets: int


class VerdictCounts(NamedTuple):
    """Configurations by what happened and what was said of their memory."""

    oom: int
    """That ran out of memory."""
    oom_called_safe: int
    fitted: int
    fitted_called_oom: int


class Skipped(NamedTuple):
    """A row that no prediction was made for."""

    id: str
    reason: str


class Score(NamedTuple):
    """What is said of a table; its JSON has the same names, and every error is a share."""

    rows: int
    represented: int
    """Rows that a prediction was made for."""
    skipped: tuple[Skipped, ...]
    """The other rows."""
    step_time: Errors | None
    memory: Errors | None
    memory_by_kind: dict[str, Errors]
    """By what was measured."""
    memory_not_scored: int
    """Configurations that print memory without saying of what kind it is."""
    mean_of_datasets: Means
    judged_together: dict[str, JudgedGroup]
    fit: VerdictCounts
    ranking: tuple[Ranking, ...]
    by: dict[str, dict[str, Part]]
    intervals: dict[str, Coverage]
    """How many runs lie where eight of ten of a new source are said to, by what they are judged with."""
    apart: dict[str, Part]
    """Runs that their source doubts, by what it says of them; in nothing above but the rows and the fits."""


def verdict_counts(outcomes: Sequence[Outcome]) -> VerdictCounts:
    """How the verdicts compare with what happened."""
    priced = [(outcome.configuration.fits, outcome.estimate.verdict) for outcome in outcomes if outcome.estimate]
    return VerdictCounts(
        oom=sum(not fitted for fitted, _ in priced),
        oom_called_safe=sum(not fitted and verdict is Verdict.SAFE for fitted, verdict in priced),
        fitted=sum(fitted for fitted, _ in priced),
        fitted_called_oom=sum(fitted and not verdict.fits for fitted, verdict in priced),
    )


def intervals_of(outcomes: Sequence[Outcome]) -> dict[str, Coverage]:
    """By the residuals of the catalogue, which rest on the published runs."""
    times, sizes = step_time_residuals(outcomes), memory_residuals(outcomes)
    return {
        **coverage(times, lambda _, by_words: residuals("step_time", by_words)),
        **coverage(sizes, lambda _, by_words: residuals("memory", by_words)),
    }


def score_of(outcomes: Sequence[Outcome], intervals: dict[str, Coverage] | None = None) -> Score:
    """Score outcomes; what its source doubts is scored separately. intervals: those of the catalogue unless given."""
    sound, doubted = ([each for each in outcomes if each.sound is is_sound] for is_sound in (True, False))
    kinds = {kind: errors_of(sound, memory_of(kind)) for kind in KINDS}
    skipped = ((row["id"], each.refusal) for each in outcomes if each.refusal for row in each.configuration.rows)
    priced = [each.configuration for each in outcomes if each.estimate]
    return Score(
        rows=sum(len(each.configuration.rows) for each in outcomes),
        represented=sum(len(each.rows) for each in priced),
        skipped=tuple(Skipped(name, reason) for name, reason in skipped),
        step_time=errors_of(sound, step_time),
        memory=errors_of(sound, memory),
        memory_by_kind={kind: errors for kind, errors in kinds.items() if errors},
        memory_not_scored=sum(each.memory_kind == UNKNOWN for each in priced),
        mean_of_datasets=Means(mean_of_datasets(sound, step_time), mean_of_datasets(sound, memory)),
        judged_together=_judged_together(sound),
        fit=verdict_counts(outcomes),
        ranking=tuple(rankings(sound)),
        by={name: _parts(sound, key) for name, key in BREAKDOWNS.items()},
        intervals=intervals or intervals_of(outcomes),
        apart=_parts(doubted, lambda each: each.configuration.quality),
    )


def _parts(outcomes: Sequence[Outcome], key: Callable[[Outcome], str]) -> dict[str, Part]:
    groups = grouped(outcomes, key).items()
    parts = {name: Part(errors_of(each, step_time), errors_of(each, memory)) for name, each in groups}
    return {name: part for name, part in parts.items() if part.step_time or part.memory}


def judging_group(outcome: Outcome) -> str:
    """What a configuration's step time is judged with."""
    if outcome.is_moe:
        return "mixture of experts"
    peak = read_precision(outcome.precision).peak
    low = {"fp8": "fp8", "mxfp8": "mxfp8 and nvfp4", "nvfp4": "mxfp8 and nvfp4"}.get(peak)
    return f"dense, {low}" if low else f"dense, bf16 and fp16, {outcome.framework_family}"


def _judged_together(outcomes: Sequence[Outcome]) -> dict[str, JudgedGroup]:
    judged = {}
    for name, members in sorted(grouped([each for each in outcomes if each.case], judging_group).items()):
        errors, mean = errors_of(members, step_time), mean_of_datasets(members, step_time)
        if errors and mean is not None:
            datasets = {each.configuration.dataset for each in members if each.step_time}
            judged[name] = JudgedGroup(errors, mean, len(datasets))
    return judged

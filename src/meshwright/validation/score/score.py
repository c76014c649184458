"""Score: everything that is said of a table of measured runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from meshwright.cost.memory.fit import Verdict
from meshwright.specs.precision import read_precision
from meshwright.specs.residuals import residuals
from meshwright.validation.fit.residuals import Coverage, coverage, memory_residuals, step_time_residuals
from meshwright.validation.rows.table import UNKNOWN
from meshwright.validation.score.errors import (
    Errors,
    Quantity,
    errors_of,
    grouped,
    mean_of_datasets,
    memory,
    memory_of,
    step_time,
)
from meshwright.validation.score.outcomes import KINDS, Outcome
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


class JudgedGroup(NamedTuple):
    """Configurations whose step time is judged together: by framework, precision, dense or with experts."""

    name: str
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


class IntervalCoverage(NamedTuple):
    """How many runs lie where eight of ten like runs are said to."""

    step_time: Coverage
    memory: Coverage


class Score(NamedTuple):
    """What is said of a table."""

    rows: int
    represented: int
    """Rows that a prediction was made for."""
    skipped: tuple[tuple[str, str], ...]
    """Ids of the other rows, and why."""
    whole: Part
    kinds: dict[str, Errors]
    """Of memory, by what was measured."""
    means: tuple[float | None, float | None]
    """Means over datasets of their mean absolute errors: step time and memory, shares."""
    judged_together: tuple[JudgedGroup, ...]
    memory_not_scored: int
    """Configurations that print memory without saying of what kind it is."""
    verdicts: VerdictCounts
    rankings: tuple[Ranking, ...]
    by: dict[str, dict[str, Part]]
    intervals: IntervalCoverage
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


def intervals_of(outcomes: Sequence[Outcome]) -> IntervalCoverage:
    """By the residuals of the catalogue, which rest on the published runs."""
    known = residuals()
    return IntervalCoverage(
        coverage(step_time_residuals(outcomes), known["step_time"]),
        coverage(memory_residuals(outcomes), known["memory"]),
    )


def score_of(outcomes: Sequence[Outcome], intervals: IntervalCoverage | None = None) -> Score:
    """Score outcomes; what its source doubts is scored separately. intervals: those of the catalogue unless given."""
    sound = [each for each in outcomes if each.sound]
    kinds = {kind: errors_of(sound, memory_of(kind)) for kind in KINDS}
    doubted, refused = [each for each in outcomes if not each.sound], [each for each in outcomes if each.refusal]
    return Score(
        rows=sum(len(each.configuration.rows) for each in outcomes),
        represented=sum(len(each.configuration.rows) for each in outcomes if each.estimate),
        skipped=tuple((row["id"], each.refusal) for each in refused for row in each.configuration.rows),
        whole=_part(sound),
        kinds={kind: errors for kind, errors in kinds.items() if errors},
        means=(mean_of_datasets(sound, step_time), mean_of_datasets(sound, memory)),
        judged_together=tuple(_judged_together(sound)),
        memory_not_scored=sum(
            each.estimate is not None and each.configuration.memory_kind == UNKNOWN for each in outcomes
        ),
        verdicts=verdict_counts(outcomes),
        rankings=tuple(rankings(sound)),
        by={name: _parts(sound, key) for name, key in BREAKDOWNS.items()},
        intervals=intervals or intervals_of(outcomes),
        apart=_parts(doubted, lambda each: each.configuration.quality),
    )


def _part(outcomes: Sequence[Outcome]) -> Part:
    return Part(errors_of(outcomes, step_time), errors_of(outcomes, memory))


def _parts(outcomes: Sequence[Outcome], key: Callable[[Outcome], str]) -> dict[str, Part]:
    parts = {name: _part(each) for name, each in grouped(outcomes, key).items()}
    return {name: part for name, part in parts.items() if part.step_time or part.memory}


def judging_group(outcome: Outcome) -> str:
    """What a configuration's step time is judged with."""
    if outcome.is_moe:
        return "mixture of experts"
    peak = read_precision(outcome.precision).peak
    low = {"fp8": "fp8", "mxfp8": "mxfp8 and nvfp4", "nvfp4": "mxfp8 and nvfp4"}.get(peak)
    return f"dense, {low}" if low else f"dense, bf16 and fp16, {outcome.framework_family}"


def _judged_together(outcomes: Sequence[Outcome]) -> list[JudgedGroup]:
    judged = []
    timed: Quantity = step_time
    for name, members in sorted(grouped([each for each in outcomes if each.case], judging_group).items()):
        errors, mean = errors_of(members, timed), mean_of_datasets(members, timed)
        if errors and mean is not None:
            sources = len({each.configuration.dataset for each in members if each.step_time})
            judged.append(JudgedGroup(name=name, step_time=errors, mean_of_datasets=mean, datasets=sources))
    return judged

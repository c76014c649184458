"""Residuals of left-out runs: cells of like runs, what they have in common, and how many runs intervals hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from meshwright.specs.predictive import of_a_new_source, widening
from meshwright.specs.residuals import (
    EFFECTS,
    Cell,
    Likeness,
    Quantity,
    Residuals,
    Unseen,
    like,
    like_memory,
    residuals,
)
from meshwright.validation.fit.effects import effects
from meshwright.validation.outcomes import Outcome, Pair
from meshwright.validation.rows.settings import stand_ins
from meshwright.validation.rows.siblings import BY_WORDS

WORDED_EFFECTS = ("source",)
"""What the errors of rows have in common whose words alone say what their framework did: how such a row is read differs
so much by source that its runtime or accelerator, which few sources share, cannot be told from it."""
WAITING_SCALES = np.round(np.geomspace(0.1, 3.0, 41), 3)
"""Values of w0 that are tried."""


class Residual(NamedTuple):
    """One left-out run."""

    source: str
    like: Likeness
    log_ratio: float
    """ln(measured / predicted)."""
    judged: str
    """What it is judged with."""
    by_words: bool = False
    """Whether its row alone says what its framework did (`siblings`)."""
    waiting: float = 0.0
    """Share of the step that waits; 0 of memory."""


class Coverage(NamedTuple):
    """How many left-out runs lie in intervals that do not rest on their source."""

    n: int
    inside: float
    """A share of the runs; 0.8 is meant."""
    sources: int
    mean_of_sources: float
    """Mean over sources of the share of their runs."""
    standard_error: float
    """Of that mean, as the sources differ; 0 of one source."""


def step_time_residuals(outcomes: Iterable[Outcome]) -> list[Residual]:
    """Of the step times of sound runs."""
    judged = ((each, "experts" if each.is_moe else f"dense, {each.framework_family}") for each in outcomes)
    return [
        _residual(each, each.step_time, labels, name)._replace(waiting=_waiting(each))
        for each, name in judged
        if each.sound and each.step_time and (labels := likeness("step_time", each))
    ]


def memory_residuals(outcomes: Iterable[Outcome]) -> list[Residual]:
    """Of the memory of sound runs, of any kind that is predicted."""
    return [
        _residual(each, each.memory, labels, "memory")
        for each in outcomes
        if each.sound and each.memory and (labels := likeness("memory", each))
    ]


def likeness(quantity: Quantity, outcome: Outcome) -> Likeness | None:
    """What a run has in common with others; None of one that is not represented. Runs of a framework that the catalogue
    has not are none of the runtime that stands for it.
    """
    if not outcome.case:
        return None
    inputs, framework = outcome.case.inputs, outcome.framework
    labels = like(inputs) if quantity == "step_time" else like_memory(inputs, outcome.configuration.memory_kind)
    return labels._replace(family=framework, runtime=framework) if framework in stand_ins() else labels


def read_by_words(outcome: Outcome) -> bool:
    """Whether its row alone says what its framework did (`siblings`)."""
    return outcome.configuration.rows[0]["known_by"] == BY_WORDS


def interval(quantity: Quantity, outcome: Outcome) -> tuple[float, float] | None:
    """Between what eight of ten runs like it lie, by the residuals of the catalogue, s or GiB; None where nothing that
    was measured is predicted.
    """
    labels, pair = likeness(quantity, outcome), getattr(outcome, quantity)
    if labels is None or pair is None:
        return None
    known = residuals(quantity, read_by_words(outcome))
    times = widening(_waiting(outcome), known.waiting) if quantity == "step_time" else 1.0
    low, high = of_a_new_source(labels, known).widened(times).eight_of_ten
    return pair.predicted * low, pair.predicted * high


def _waiting(outcome: Outcome) -> float:
    """Share of the predicted step that waits."""
    return outcome.estimate.time.waiting if outcome.estimate else 0.0


def _residual(outcome: Outcome, pair: Pair, labels: Likeness, judged: str) -> Residual:
    return Residual(
        source=outcome.configuration.dataset,
        like=labels,
        log_ratio=float(np.log(pair.measured / pair.predicted)),
        judged=judged,
        by_words=read_by_words(outcome),
    )


def residuals_of(runs: Sequence[Residual], off_zero: bool = False) -> Residuals:
    """The cells of runs, and how much what they have in common varies; off_zero: whether runtimes and accelerators that
    none has vary even where those that some have are not seen to, as `between` has it.
    """
    waiting = waiting_scale(runs)
    cells = cells_of(runs, waiting)
    likeliest, weights = effects(cells, WORDED_EFFECTS if any(run.by_words for run in runs) else EFFECTS)
    wider = effects(cells, EFFECTS, off_zero).between
    unseen = {name: max(getattr(likeliest, name), getattr(wider, name)) for name in Unseen.model_fields}
    weighted = [cell._replace(weight=weight) for cell, weight in zip(cells, weights, strict=True)]
    return Residuals(cells=tuple(weighted), between=likeliest, unseen=Unseen(**unseen), waiting=waiting)


def waiting_scale(runs: Sequence[Residual]) -> float:
    """The share of waiting w0 of `widening` under which the errors of runs are likeliest, 1 where none waits: the least
    mean of ln(h s) + |e| / (h s), with e the error of a run, h its widening and s the mean of |e| / h; of Laplace's
    distribution, which wild runs move little. A run weighs 1 / sqrt(n) where its source has n.
    """
    if not any(run.waiting for run in runs):
        return 1.0
    counts = Counter(run.source for run in runs)
    weights = np.array([counts[run.source] ** -0.5 for run in runs]) / sum(count**0.5 for count in counts.values())
    errors, waits = (np.array([getattr(run, name) for run in runs]) for name in ("log_ratio", "waiting"))
    wider = widening(waits[:, None], WAITING_SCALES)
    sizes = np.abs(errors)[:, None] / wider
    usual = weights @ sizes
    surprise = weights @ (np.log(wider * usual) + sizes / usual)
    return float(WAITING_SCALES[int(surprise.argmin())])


def cells_of(runs: Iterable[Residual], waiting: float = 1.0) -> tuple[Cell, ...]:
    """Like runs of one source together, their errors over what `widening` says; waiting: its w0."""
    groups: dict[tuple[str, Likeness], list[float]] = defaultdict(list)
    for run in runs:
        groups[run.source, run.like].append(run.log_ratio / widening(run.waiting, waiting))
    return tuple(
        Cell(
            source=source,
            runs=len(logs),
            mean=round(float(np.mean(logs)), 4),
            spread=round(float(np.std(logs, ddof=1)), 4) if len(logs) > 1 else 0.0,
            **labels._asdict(),
        )
        for (source, labels), logs in sorted(groups.items())
    )


def coverage(runs: Sequence[Residual], known: Callable[[str, bool], Residuals]) -> dict[str, Coverage]:
    """How many runs lie in the interval of a new source, by what they are judged with; known: the residuals that the
    runs of a source are held against, of rows whose words alone are known or of others.
    """
    inside: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    of_sources: dict[tuple[str, bool], list[Residual]] = defaultdict(list)
    for run in runs:
        of_sources[run.source, run.by_words].append(run)
    for (source, by_words), mine in sorted(of_sources.items()):
        held = known(source, by_words)
        errors = {each: of_a_new_source(each, held) for each in {run.like for run in mine}}
        for run in mine:
            low, high = errors[run.like].widened(widening(run.waiting, held.waiting)).eight_of_ten
            inside[run.judged][source].append(low <= np.exp(run.log_ratio) <= high)
    return {name: counted(each) for name, each in sorted(inside.items())}


def counted(sources: Mapping[str, Sequence[bool]]) -> Coverage:
    """Of whether each run of each source lies inside."""
    every, shares = [held for each in sources.values() for held in each], [*map(np.mean, sources.values())]
    return Coverage(
        n=len(every),
        inside=float(np.mean(every)),
        sources=len(sources),
        mean_of_sources=float(np.mean(shares)),
        standard_error=float(np.std(shares, ddof=1)) / len(shares) ** 0.5 if len(shares) > 1 else 0.0,
    )


def coverage_by_others(
    runs: Sequence[Residual], published: Sequence[Residual], off_zero: bool = False
) -> dict[str, Coverage]:
    """The same, each source against the published runs of all others, read alike; off_zero: as `residuals_of` takes
    it.
    """

    def others(source: str, by_words: bool) -> Residuals:
        return residuals_of([run for run in published if run.source != source and run.by_words == by_words], off_zero)

    return coverage(runs, others)

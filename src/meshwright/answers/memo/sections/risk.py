"""Risk: the one thing that is most likely to make the recommendation wrong, and what to do then."""

from __future__ import annotations

from meshwright.answers.basis.uncertainty import step_time_interval
from meshwright.answers.memo.memo import Memo
from meshwright.answers.pace import longer
from meshwright.answers.plans.ties import most_published
from meshwright.answers.words import percent
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import MOST_CERTAIN
from meshwright.search.plan_space.constrained import satisfies
from meshwright.search.published.untested import unpublished
from meshwright.specs.residuals import without_source
from meshwright.units import format_gib, format_seconds

OF_LAYOUT = ("recompute", "recompute_layers", "micro_batch")
"""Knobs that change what a rank keeps, and not which layout it is of."""
SAVING = (*OF_LAYOUT, "zero")
"""Those that change what a rank keeps."""
Words = tuple[str, str]
"""A title and a text."""


def risk_words(memo: Memo) -> Words:
    """Memory where it may run out, else a kind of plan that no published run has, else the step time."""
    title, text = _memory(memo) or _unproven(memo) or _pace(memo)
    return f"The one risk: {title}", text


def _memory(memo: Memo) -> Words | None:
    """Where fewer than 99 in 100 such runs fit."""
    fit, best = memo.best.fit, memo.best
    if fit.probability >= MOST_CERTAIN:
        return None
    text = (
        f"{1 - fit.probability:.0%} of runs like this would run out of memory on stage {best.worst_stage}: 8 in 10 "
        f"need {format_gib(fit.least_bytes)} to {format_gib(fit.most_bytes)} of {format_gib(fit.visible_bytes)}."
    )
    return "memory", text + _way_out(memo)


def _way_out(memo: Memo) -> str:
    """Of what fits in 99 of 100 runs that which costs least: a change that keeps the layout and frees as much as such
    runs differ by, else any change of the plan or other proven plan of the search; nothing where there is none.
    """
    best, search, fit = memo.best, memo.search, memo.best.fit
    changes = [each for each in memo.sensitivity.changes if each.knob in SAVING]
    plans = [("", each) for each in (*search.best[1:], *search.other_splits)]
    safer = [each for each in (*((of.change, of.estimate) for of in changes), *plans) if _is_safer(each[1], memo)]
    if not safer:
        return ""
    kept = {of.change for of in changes if of.knob in OF_LAYOUT}
    enough = best.memory.device - (fit.most_bytes - fit.least_bytes)
    clearly = [each for each in safer if each[0] in kept and each[1].memory.device <= enough]
    change, other = min(clearly or safer, key=lambda each: each[1].step_time_s)
    slower, freed = longer(other, best), best.memory.device - other.memory.device
    step = f"{percent(abs(slower))} {'longer' if slower >= 0 else 'shorter'}"
    if change:
        return f" If this one does, {change} frees {format_gib(freed)} and makes a step {step}."
    return f" If this one does, train with `{other.plan}`: it needs {format_gib(freed)} less, and a step is {step}."


def _is_safer(other: Estimate, memo: Memo) -> bool:
    surely = other.fit.probability >= MOST_CERTAIN and bool(satisfies(other.plan, memo.inputs))
    return surely and not unpublished(other.plan, memo.inputs)


def _unproven(memo: Memo) -> Words | None:
    kinds = unpublished(memo.best.plan, memo.inputs)
    if not kinds:
        return None
    first = kinds[0]
    return "an untested kind of plan", f"No published run has {first.what}{most_published(first)}. {_range(memo)}"


def _pace(memo: Memo) -> Words:
    unseen = without_source(memo.inputs)
    text = f" No published run {' or '.join(unseen)} supports it." if unseen else ""
    return "the step time", _range(memo) + text


def _range(memo: Memo) -> str:
    best = memo.best
    interval = step_time_interval(best, memo.inputs)
    later = interval.p90 / best.step_time_s - 1
    return (
        f"In 1 of 10 runs like this a step takes more than {format_seconds(interval.p90)}, {percent(later)} longer "
        f"than predicted, and training takes longer by the same factor. The first twenty steps show it."
    )

"""Uncertainty: how far the step time and the memory of a run may be from what is predicted."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from meshwright.answers.experts.routing import RankImbalance, rank_imbalance, step_times
from meshwright.answers.records import fields_of
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.search.published.untested import unpublished
from meshwright.specs.inputs import Inputs
from meshwright.specs.predictive import of_an_unproven_kind, predictive
from meshwright.specs.residuals import ALLOCATED, GROUPS, like, measured_memory, residuals
from meshwright.units import format_gib, format_seconds

MEASURED = ("fragmentation", "communicators")
"""What the range of memory rests on beside published runs, by the keys of a runtime's sources."""
UNPROVEN = "with a kind of plan that no published run has"


class Interval(NamedTuple):
    """The step time of eight in ten like runs of a source that nobody has seen."""

    p10: float
    """Seconds."""
    p50: float
    """Seconds that half of them stay below."""
    p90: float
    """Seconds."""
    like: str
    """What a question has in common with published runs."""
    sources: dict[str, int]
    """How many sources have runs of its `group` (dense or experts), of that group with its `runtime`, and on its
    `accelerator`; 0 makes it wider."""


def step_time_interval(estimate: Estimate, inputs: Inputs, imbalance: RankImbalance | None = None) -> Interval:
    """The step time times the ratios of measured to predicted that one and nine of ten runs stay below; on a site of
    which runs were measured, by how runs of one source spread. How far kinds of plans differ adds to the spread of a
    plan of a kind that no published run has. imbalance: of the plan, where it is known.
    """
    labels, known = like(inputs), residuals("step_time")
    proven = not unpublished(estimate.plan, inputs)
    low, middle, high = _range(estimate, inputs, proven, imbalance or rank_imbalance(estimate, inputs))
    sources = {
        "group": known.sources(group=labels.group),
        "runtime": known.sources_of_label("runtime", labels),
        "accelerator": known.sources_of_label("accelerator", labels),
    }
    text = ", ".join((labels.kind, labels.runtime, labels.accelerator, *([] if proven else [UNPROVEN])))
    return Interval(p10=low, p50=middle, p90=high, like=text, sources=sources)


def _range(
    estimate: Estimate, inputs: Inputs, proven: bool, imbalance: RankImbalance | None
) -> tuple[float, float, float]:
    """Seconds of a step that one, five and nine of ten runs stay below, proven or not. Published runs route evenly: how
    unequally experts share tokens in training adds to the spread, as an error of its own.
    """
    error = predictive("step_time", like(inputs), inputs.cluster.measured_runs, estimate.time.waiting)
    error = error if proven else of_an_unproven_kind(error)
    routed = step_times(estimate, imbalance)
    logs = [
        (math.log(ratio) - error.bias, math.log(seconds / estimate.step_time_s))
        for ratio, seconds in zip(error.eight_of_ten, routed, strict=True)
    ]
    below, above = (math.hypot(*each) for each in logs)
    low, middle, high = (estimate.step_time_s * math.exp(error.bias + width) for width in (-below, 0.0, above))
    return low, middle, high


def uncertainty_entry(estimate: Estimate, inputs: Inputs, imbalance: RankImbalance | None = None) -> dict[str, Any]:
    """The interval and the probability as they stand in the plan file. imbalance: as of `step_time_interval`."""
    interval = step_time_interval(estimate, inputs, imbalance)
    return {
        "step_time_s": {"p10": interval.p10, "p90": interval.p90},
        "fits": estimate.fit.probability,
        "like": interval.like,
        "sources": interval.sources,
        "unproven": [each.what for each in unpublished(estimate.plan, inputs)],
    }


def confidence_entry(estimate: Estimate, inputs: Inputs) -> dict[str, Any]:
    """The bounds of memory as they stand in the plan file of `explain`, with their sources."""
    fit, known = estimate.fit, inputs.runtime.sources
    return fields_of(fit, "least_bytes", "expected_bytes", "most_bytes", "safe_bytes", "margin_bytes") | {
        "sources": [known[key] for key in MEASURED if key in known]
    }


def step_time_line(estimate: Estimate, inputs: Inputs) -> str:
    """The interval of the step time, the sources that it rests on, and what it would be if the plan were proven."""
    imbalance, labels = rank_imbalance(estimate, inputs), like(inputs)
    interval = step_time_interval(estimate, inputs, imbalance)
    text = f"8 in 10 runs like this take {_seconds(interval.p10, interval.p90)} a step"
    unproven = ""
    if unpublished(estimate.plan, inputs):
        low, _, high = _range(estimate, inputs, proven=True, imbalance=imbalance)
        narrower = _seconds(low, high)
        unproven = f" No published run has such a plan; if one had, the range would be {narrower}."
    if inputs.cluster.measured_runs:
        runs = inputs.cluster.measured_runs
        return f"{text}, by {runs} run{'s' * (runs > 1)} of your site and how published ones differ.{unproven}"
    counts = interval.sources
    wider = "" if counts["runtime"] and counts["accelerator"] else "; having none widens the range"
    group = (
        f"{counts['group']} for {GROUPS[labels.group]} ({counts['runtime'] or 'none'} of them with {labels.runtime})"
    )
    rest = f"{counts['accelerator'] or 'none'} on {labels.accelerator}"
    return f"{text}. Published sources: {group}, {rest}{wider}.{unproven}"


def _seconds(low: float, high: float) -> str:
    return f"{format_seconds(low)} to {format_seconds(high)}"


def margin_line(estimate: Estimate, inputs: Inputs) -> str:
    """What the verdict has to spare, and what it allows for."""
    fit = estimate.fit
    least, most, margin = format_gib(fit.least_bytes), format_gib(fit.most_bytes), format_gib(abs(fit.margin_bytes))
    risk = f"at the accepted risk of {inputs.job.risk:.0%}"
    spare = {
        Verdict.SAFE: f"{risk} {margin} stay free",
        Verdict.AT_RISK: f"{risk} {margin} are missing",
        Verdict.OUT_OF_MEMORY: f"even the least is {format_gib(fit.least_bytes - fit.visible_bytes)} too much",
    }[estimate.verdict]
    return f"8 in 10 runs like this need {least} to {most} there; {spare}. {_memory_sources(inputs)}"


def _memory_sources(inputs: Inputs) -> str:
    """What the interval of memory rests on."""
    measured, runtime, margins = measured_memory(inputs), inputs.runtime, inputs.runtime.memory
    known = residuals("memory")
    total, rest = known.sources(group=measured), ""
    if measured == ALLOCATED:
        own = f"{known.sources(group=measured, family=runtime.family)} of the {runtime.family} family"
        rest = f" fragmentation from {margins.fragmentation_likely:.1%} to {margins.fragmentation_safe:.1%},"
    else:
        own = f"{known.sources(group=measured, runtime=runtime.framework) or 'none'} with {runtime.id}"
    return (
        f"The range covers the errors in {measured} memory of {total} sources ({own}),{rest} and "
        f"communicators of up to {1 + margins.communicator_uncertainty:g} times the estimate."
    )

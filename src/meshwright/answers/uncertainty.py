"""Uncertainty: how far the step time and the memory of a run may be from what is predicted."""

from __future__ import annotations

from typing import Any, NamedTuple

from meshwright.answers.records import fields_of
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.specs.inputs import Inputs
from meshwright.specs.residuals import WIDER, chosen, like, residuals
from meshwright.units import format_gib, format_seconds

MEASURED = ("fragmentation", "communicators")
"""What the bounds of memory rest on, by the keys under which a runtime's data give their sources."""


class Interval(NamedTuple):
    """The step time of eight in ten similar runs."""

    p10: float
    """Seconds."""
    p90: float
    """Seconds."""
    runs: int
    """Whose residuals it rests on."""
    sources: int
    """Of like runs; 0: there are none, all runs stand for them, and it is wider."""
    like: str
    """What kind of runs they would be."""


def step_time_interval(estimate: Estimate, inputs: Inputs) -> Interval:
    """The step time times the ratio of measured to predicted that one and nine of ten left-out like runs stay below;
    on a site of which runs were measured, that of runs beside others of their own source.
    """
    kind = like(inputs)
    quantity = "step_time_of_a_measured_site" if inputs.cluster.measured_runs else "step_time"
    known, sources = chosen(residuals()[quantity], kind)
    low, high = (estimate.step_time_s * share for share in known.eight_of_ten)
    return Interval(p10=low, p90=high, runs=known.runs, sources=sources, like=kind)


def uncertainty_entry(estimate: Estimate, inputs: Inputs) -> dict[str, Any]:
    """The interval and the probability as they stand in the plan file."""
    interval = step_time_interval(estimate, inputs)
    return {
        "step_time_s": {"p10": interval.p10, "p90": interval.p90},
        "fits": estimate.fit.probability,
        "like": interval.like,
        "like_runs": interval.runs if interval.sources else 0,
        "sources": interval.sources,
    }


def confidence_entry(estimate: Estimate, inputs: Inputs) -> dict[str, Any]:
    """The bounds of memory as they stand in the plan file of `explain`, with their sources."""
    fit, known = estimate.fit, inputs.runtime.sources
    return fields_of(fit, "least_bytes", "most_bytes", "margin_bytes") | {
        "sources": [known[key] for key in MEASURED if key in known]
    }


def step_time_line(estimate: Estimate, inputs: Inputs) -> str:
    """The interval of the step time, and the runs that it rests on."""
    interval = step_time_interval(estimate, inputs)
    low, high = format_seconds(interval.p10), format_seconds(interval.p90)
    rests = f"by {interval.runs} similar published runs from {interval.sources} sources ({interval.like})"
    if interval.sources == 1:
        rests = f"by {interval.runs} similar published runs from one source, averaged with all runs ({interval.like})"
    if not interval.sources:
        rests = f"{WIDER:g} times the spread of all {interval.runs} published runs, because none is similar"
    return f"8 in 10 such runs take {low} to {high} a step, {rests}."


def margin_line(estimate: Estimate, inputs: Inputs) -> str:
    """What the verdict has to spare, and what it allows for."""
    fit, margins = estimate.fit, inputs.runtime.memory
    least, most, margin = format_gib(fit.least_bytes), format_gib(fit.most_bytes), format_gib(abs(fit.margin_bytes))
    over = format_gib(fit.most_bytes - fit.visible_bytes)
    spare = {
        Verdict.SAFE: f"At worst it needs {most}, which leaves {margin} free.",
        Verdict.AT_RISK: f"At best it needs {least}, which fits; at worst {most}, {over} too much.",
        Verdict.OUT_OF_MEMORY: f"Even at best it needs {least}, {margin} too much.",
    }[estimate.verdict]
    return (
        f"{spare} Best and worst: fragmentation from {margins.fragmentation_likely:.1%} to "
        f"{margins.fragmentation_safe:.1%}, communicators up to {1 + margins.communicator_uncertainty:g} times the "
        "estimate. The probability also covers errors in the size of tensors."
    )

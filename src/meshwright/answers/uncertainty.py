"""Uncertainty: where the step times of like runs lie, and how likely a plan fits, by residuals of published runs."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from rich.text import Text

from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.components import Components
from meshwright.specs.inputs import Inputs
from meshwright.specs.residuals import WIDER, chosen, like, like_memory, residuals
from meshwright.units import format_seconds

SURE = 0.01
"""No probability is nearer to 0 or 1 than the residuals of a hundred runs can tell."""
DRAWS = (np.arange(100) + 0.5) / 100


class Interval(NamedTuple):
    """Where the step time of eight of ten like runs lies."""

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
    return Interval(low, high, known.runs, sources, kind)


def fit_probability(memory: Components, inputs: Inputs) -> float:
    """The share of like runs that would fit on the accelerator: allocated memory times the ratio of theirs, with
    fragmentation and communicators from the least to the most that the runtime's data say.

    memory: of one stage, bytes. Returns a share, 0.01 to 0.99.
    """
    known, _ = chosen(residuals()["memory"], like_memory(inputs))
    margins = inputs.runtime.memory
    ratios = np.array([known.at(float(share)) for share in DRAWS])
    fragmentations = (margins.fragmentation_likely, margins.fragmentation, margins.fragmentation_safe)
    rest = float(memory.device - memory.reserved - memory.communicators)
    sizes = [
        memory.allocated * ratios * (1 + fragmentation) + rest + memory.communicators * (1 + more)
        for fragmentation, more in product(fragmentations, (0.0, margins.communicator_uncertainty))
    ]
    fitting = np.array(sizes) <= inputs.cluster.accelerator.visible_memory_bytes
    return float(np.clip(fitting.mean(), SURE, 1 - SURE))


def uncertainty_entry(estimate: Estimate, inputs: Inputs) -> dict[str, Any]:
    """The interval and the probability as they stand in the plan file."""
    interval = step_time_interval(estimate, inputs)
    return {
        "step_time_s": {"p10": interval.p10, "p90": interval.p90},
        "fits": fit_probability(estimate.memory, inputs),
        "like": interval.like,
        "like_runs": interval.runs if interval.sources else 0,
        "sources": interval.sources,
    }


def uncertainty_line(estimate: Estimate, inputs: Inputs) -> Text:
    """The interval, the runs that it rests on, and the probability that the plan fits."""
    interval, fits = step_time_interval(estimate, inputs), fit_probability(estimate.memory, inputs)
    low, high = format_seconds(interval.p10), format_seconds(interval.p90)
    sources = "one source and all others" if interval.sources == 1 else f"{interval.sources} sources"
    rests = f"as {interval.runs} like runs of {sources} lie ({interval.like})"
    if not interval.sources:
        rests = f"{WIDER:g} times as wide as all {interval.runs} published runs lie, for want of like ones"
    return Text(f"8 of 10 such steps take {low} to {high}, {rests}; it fits with a probability of {fits:.0%}.")

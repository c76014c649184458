"""Fully sharded plans against 3D ones: the sentences under the ranking of the runtimes, and their JSON."""

from __future__ import annotations

from typing import Any

from meshwright.cost.memory.fit import Verdict
from meshwright.search.crossover import Crossover
from meshwright.search.families import Contender, Family
from meshwright.specs.scale import network_levels
from meshwright.units import format_bandwidth, format_seconds


def crossover_lines(crossing: Crossover) -> list[str]:
    """Which family is faster at the cluster's own bandwidth between nodes, and at which bandwidth the other one is."""
    fastest, other = crossing.fastest, crossing.other
    at = f"At {format_bandwidth(crossing.bandwidth)} per GPU between nodes, **{fastest.family}** is fastest: "
    if other:
        best = f"{_named(fastest)}; the best {other.family} plan is {_named(other)}."
        return [at + best, _change_line(crossing, other)]
    missing = next(family for family in Family if family != fastest.family)
    return [f"{at}{_named(fastest)}. No {missing} plan fits as safely, however fast the links."]


def crossover_entry(crossing: Crossover) -> dict[str, Any]:
    """The same as JSON: bandwidths per accelerator, one direction, in bytes/s; plans with their step time."""
    change = crossing.change
    return {
        "bandwidth": crossing.bandwidth,
        "lowest_bandwidth": crossing.lowest,
        "highest_bandwidth": crossing.highest,
        "fastest": _entry(crossing.fastest),
        "other": _entry(crossing.other) if crossing.other else None,
        "change": {
            "factor": change.factor,
            "bandwidth": change.bandwidth,
            "overtaking": _entry(change.overtaking),
            "overtaken": _entry(change.overtaken),
        }
        if change
        else None,
    }


def _change_line(crossing: Crossover, other: Contender) -> str:
    change = crossing.change
    if change is None:
        return f"No bandwidth from {_rounded(crossing.lowest)} to {_rounded(crossing.highest)} changes that."
    side = "Above" if change.factor > 1 else "Below"
    alike = ", all links between nodes alike" if len(network_levels(other.inputs.cluster)) > 1 else ""
    text = (
        f"{side} **about {_rounded(change.bandwidth)}** ({change.factor:.2f} times{alike}) **{other.family}** would be "
        "faster"
    )
    return f"{text}." if _alike(change.overtaking, other) else f"{text}: {_named(change.overtaking)}."


def _alike(one: Contender, other: Contender) -> bool:
    return one.inputs.runtime == other.inputs.runtime and one.estimate.plan == other.estimate.plan


def _named(contender: Contender) -> str:
    estimate = contender.estimate
    risk = "" if estimate.verdict == Verdict.SAFE else f" ({estimate.verdict})"
    return f"{contender.inputs.runtime.id} with {estimate.plan}, {format_seconds(estimate.step_time_s)}{risk}"


def _rounded(bandwidth: float) -> str:
    """Three digits, what the search is good for."""
    return format_bandwidth(float(f"{bandwidth:.3g}"))


def _entry(contender: Contender) -> dict[str, Any]:
    return {
        "family": str(contender.family),
        "runtime": contender.inputs.runtime.id,
        "plan": contender.estimate.plan.to_dict(),
        "step_time_s": contender.estimate.step_time_s,
        "verdict": str(contender.estimate.verdict),
    }

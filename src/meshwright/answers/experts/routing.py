"""Routing: how unequally the ranks of a plan share the tokens of its experts, and what even routing would take."""

from __future__ import annotations

from typing import Any, NamedTuple

from meshwright.answers.records import fields_of
from meshwright.cost.estimate import Estimate
from meshwright.cost.flops import computed_share
from meshwright.cost.routing import hottest_over_mean
from meshwright.cost.shard import routed_tokens
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.routing import expert_spread
from meshwright.units import format_gib, format_seconds


class RankImbalance(NamedTuple):
    """Tokens of the busiest rank's experts over the mean, in one layer and micro-batch."""

    least: float
    """Less in one of ten training runs; as assumed where the job says what it is."""
    assumed: float
    """What step time and memory are for."""
    most: float
    """More in one of ten."""
    even: Estimate
    """The plan with even routing."""


def rank_imbalance(estimate: Estimate, inputs: Inputs) -> RankImbalance | None:
    """How unequal the ranks of a priced plan are; None for a model without experts."""
    if not inputs.model.is_moe:
        return None
    plan, spread = estimate.plan, expert_spread()
    assumed = least = most = _largest(plan, inputs)
    if inputs.routes_as_usual:
        least, most = (_largest(plan, inputs.with_expert_spread(each)) for each in (spread.least, spread.most))
    (even,) = estimate_each([plan], inputs.with_even_routing())
    return RankImbalance(least=least, assumed=assumed, most=most, even=even)


def _largest(plan: Plan, inputs: Inputs) -> float:
    tokens = routed_tokens(plan, inputs)
    kinds = (kind for kind in inputs.model.layer_kinds if kind.is_moe)
    return max(float(hottest_over_mean(plan, inputs, kind, tokens)) for kind in kinds)


def step_times(estimate: Estimate, imbalance: RankImbalance | None) -> tuple[float, float]:
    """Seconds of a step at the least and the most imbalance: in proportion to what it adds to even routing."""
    if imbalance is None or imbalance.assumed == 1:
        return estimate.step_time_s, estimate.step_time_s
    even = imbalance.even.step_time_s
    added = (estimate.step_time_s - even) / (imbalance.assumed - 1)
    return even + added * (imbalance.least - 1), even + added * (imbalance.most - 1)


def routing_entry(imbalance: RankImbalance | None) -> dict[str, Any]:
    """The imbalance that a plan is priced with, and its price with even routing, as they stand in a plan file."""
    if imbalance is None:
        return {}
    even = fields_of(imbalance.even, "step_time_s", "tokens_per_s_per_gpu", "mfu", "verdict")
    return {
        "routing": {
            "expert_imbalance": imbalance.assumed,
            "p10": imbalance.least,
            "p90": imbalance.most,
            "even": even | {"device_bytes": imbalance.even.memory.device, "fits": imbalance.even.fit.probability},
        }
    }


def routing_lines(estimate: Estimate, inputs: Inputs) -> list[str]:
    """One line on the imbalance of ranks and the price with even routing, or on tokens that a capacity drops; none
    where ranks are even and no token is dropped.
    """
    capacity = inputs.expert_capacity if inputs.model.is_moe else None
    if capacity and (inputs.job.expert_capacity is None or computed_share(inputs) < 1):
        return [_capacity_line(inputs, capacity)]
    imbalance = rank_imbalance(estimate, inputs)
    if imbalance is None or imbalance.assumed == 1:
        return []
    even, said = imbalance.even, "as you asked"
    if inputs.routes_as_usual:
        said = f"as is usual ({imbalance.least:.2f} to {imbalance.most:.2f} in 8 of 10 runs)"
    return [
        f"The busiest rank gets {imbalance.assumed:.2f} times the mean tokens, {said}; with even routing, as in "
        f"benchmarks: {format_seconds(even.step_time_s)} a step, {format_gib(even.memory.device)}, {even.verdict}"
    ]


def _capacity_line(inputs: Inputs, capacity: float) -> str:
    """What becomes of tokens beyond a capacity, and that MFU leaves out those that are dropped for certain."""
    why = f"as {inputs.runtime.id} does by default" if inputs.job.expert_capacity is None else "as you asked"
    takes = f"An expert takes at most {capacity:g} x its equal share of tokens; the rest are dropped, {why}"
    dropped = 1 - computed_share(inputs)
    return f"{takes}. That is at least {100 * dropped:.2g}%, which MFU does not count" if dropped else takes

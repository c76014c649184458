"""Premises: plans and clusters whose memory is too small for the model states alone, whatever else is chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn, column
from meshwright.cost.estimate import Estimate
from meshwright.cost.footprint import footprints_of
from meshwright.cost.step import estimate_plans
from meshwright.layout.groups import sharding_ranks
from meshwright.layout.legality import check
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.find import chunks
from meshwright.search.fits.least_states import whole_states
from meshwright.search.ranking.rank import order
from meshwright.specs.inputs import Inputs
from meshwright.units import format_gib

STATES = "weights, gradients and optimizer states"


@dataclass(frozen=True)
class Contradiction:
    """Model states that exceed the memory of an accelerator."""

    states_bytes: float
    """Weights, gradients and optimizer states on one accelerator."""
    visible_bytes: float
    """What a process can take of its memory."""
    ranks: int | None
    """The fewest ranks over which they would have to be divided; None: no legal plan of the cluster holds them."""
    sentence: str
    """The sentence for people."""


def plan_premise(estimate: Estimate, inputs: Inputs) -> Contradiction | None:
    """Why a plan contradicts itself: the states of its fullest stage, sharded as the plan says, exceed what is visible.

    Neither micro-batch nor recomputation enters them. What would hold them is the legal plan of the cluster that
    divides them over the fewest ranks, t p n with n those of ZeRO, priced by the planner.
    """
    stage = max(estimate.stages, key=lambda each: float(each.memory.states))
    states, visible = float(stage.memory.states), _visible(inputs)
    if states <= visible:
        return None
    least = least_divided(inputs)
    ranks = int(divided_over(Plans.of([least]))[0]) if least else None
    where = f"each accelerator of stage {stage.stage}" if estimate.plan.pp > 1 else "each accelerator"
    remedy = (
        f"shard over at least {ranks} ranks (tp x pp x ZeRO), as in {least}"
        if least
        else f"no sharding over its {inputs.cluster.num_gpus} accelerators helps either"
    )
    sentence = (
        f"impossible: {_degrees(estimate.plan)} with ZeRO {estimate.plan.zero} keeps {format_gib(states)} of "
        f"{STATES} on {where}, {states / visible:.1f} times the {format_gib(visible)} it has; a smaller micro-batch or "
        f"recomputation does not help; {remedy}"
    )
    return Contradiction(states, visible, ranks, sentence)


def cluster_premise(inputs: Inputs) -> Contradiction | None:
    """Why a cluster cannot hold a model: its states, divided over every accelerator, exceed what is visible on one."""
    ranks, visible = inputs.cluster.num_gpus, _visible(inputs)
    whole = whole_states(inputs)
    if whole <= ranks * visible:
        return None
    enough = math.ceil(whole / visible)
    sentence = (
        f"impossible: {format_gib(whole)} of {STATES}, sharded over all {ranks} accelerators, are "
        f"{format_gib(whole / ranks)} on each, {whole / ranks / visible:.1f} times the {format_gib(visible)} it has; "
        f"at least {enough} accelerators could hold them"
    )
    return Contradiction(whole / ranks, visible, enough, sentence)


def least_divided(inputs: Inputs) -> Plan | None:
    """Of the legal plans whose states alone fit on every stage, those that divide them over the fewest ranks; of these
    the best, or where none fits with its activations the leanest. None where there is none.
    """
    candidates: list[tuple[int, Plans]] = []
    for chunk in chunks(inputs):
        legal = chunk.take(check(chunk, inputs).legal)
        holding = legal.take(fullest_states(legal, inputs) <= _visible(inputs)) if len(legal) else legal
        if len(holding):
            ranks = divided_over(holding)
            candidates.append((int(ranks.min()), holding.take(ranks == ranks.min())))
    if not candidates:
        return None
    fewest = min(ranks for ranks, _ in candidates)
    estimates = estimate_plans(Plans.join(plans for ranks, plans in candidates if ranks == fewest), inputs)
    ranked = order(estimates)
    return estimates.plans[int(ranked[0] if len(ranked) else np.argmin(estimates.worst_memory.device))]


def fullest_states(plans: Plans, inputs: Inputs) -> FloatColumn:
    """Bytes of weights, gradients and optimizer states on the stage that has most of them, shape (n,)."""
    footprints = footprints_of(plans, inputs)
    return footprints.stages.largest(column(footprints.memory.states))


def divided_over(plans: Plans) -> IntColumn:
    """Ranks over which plans divide some of their states: t p n, with n those of ZeRO, where it shards; shape (n,)."""
    ranks: IntColumn = plans.tp * plans.pp * np.where(plans.zero > 0, sharding_ranks(plans), 1)
    return ranks


def _visible(inputs: Inputs) -> float:
    return inputs.cluster.accelerator.visible_memory_bytes


def _degrees(plan: Plan) -> str:
    """The degrees of a plan that are more than one: `tp 2 x dp 16`."""
    degrees = [(axis, getattr(plan, axis)) for axis in ("tp", "cp", "ep", "pp", "dp")]
    return " x ".join(f"{axis} {degree}" for axis, degree in degrees if degree > 1) or "one rank"

"""Passes: what tensor, context and expert parallelism exchange in the passes of every micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from meshwright.answers.memo.exchange import Exchange, exchange
from meshwright.cost.comms.collectives import sent_bytes
from meshwright.cost.comms.context_sent import context_traffic
from meshwright.cost.comms.crossings import crossing, layer_crossings
from meshwright.cost.comms.exchanged import exchange_traffic
from meshwright.cost.comms.group import context_group, expert_set_group, tensor_group
from meshwright.cost.comms.tensor import layer_collectives
from meshwright.cost.comms.traffic import Traffic
from meshwright.cost.element import HALF_BYTES
from meshwright.cost.estimate import Estimate
from meshwright.cost.shard import tokens
from meshwright.cost.step import estimate_plans
from meshwright.cost.unit import UnitTime
from meshwright.layout.plan import CONTEXT_EXCHANGE_NAMES, Plan
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind

UNHIDDEN = {"tensor_parallel": 0.0, "tensor_parallel_backward": 0.0, "expert": 0.0, "context": 0.0}


class Sent(NamedTuple):
    """What one rank sends for one layer and micro-batch, in words and bytes."""

    what: str
    size: float


def pass_exchanges(estimate: Estimate, inputs: Inputs) -> Iterator[Exchange]:
    """A line for either pass of every axis that a layer exchanges over.

    Bytes are the mean of the layers on the slowest stage that exchange; seconds hold its embedding's and head's too.
    """
    plan, count = estimate.plan, estimate.plan.num_microbatches
    plain = inputs.replace(runtime=inputs.runtime.replace(overlap=inputs.runtime.overlap.replace(**UNHIDDEN)))
    exposed, whole = (_slowest(estimate, given) for given in (inputs, plain))
    layers = _layers(estimate, inputs)
    for axis, group, sent in (
        ("tensor", tensor_group(plan, inputs), _tensor),
        ("context", context_group(plan, inputs), _context),
        ("expert", expert_set_group(plan, inputs), _expert),
    ):
        taking = [(number, sent(plan, inputs, kind)) for kind, number in layers if axis != "expert" or kind.is_moe]
        if group.ranks == 1 or not taking:
            continue
        numbers = sum(number for number, _ in taking)
        for index, way in enumerate(("forward", "backward")):
            size = sum(number * both[index].size for number, both in taking) / numbers
            seconds, waited = (
                count * float(getattr(getattr(time, f"exposed_{way}"), axis)) for time in (whole, exposed)
            )
            what = f"{way}: {taking[-1][1][index].what}"
            yield exchange(f"{axis} parallel", what, group, inputs, size, numbers * count, seconds, waited)


def _slowest(estimate: Estimate, inputs: Inputs) -> UnitTime:
    """Seconds of one micro-batch on the estimate's slowest stage."""
    time = estimate_plans(Plans.of([estimate.plan]), inputs, keep_all_stages=True).stage_time
    return time.rows(np.array(estimate.slowest_stage))


def _layers(estimate: Estimate, inputs: Inputs) -> list[tuple[LayerKind, int]]:
    """The kinds of layers on the slowest stage, and how many of each."""
    stages = estimate_plans(Plans.of([estimate.plan]), inputs, keep_all_stages=True).stages
    counts = stages.layers[estimate.slowest_stage]
    return [(kind, int(count)) for kind, count in zip(inputs.model.layer_kinds, counts, strict=True) if count]


def _tensor(plan: Plan, inputs: Inputs, kind: LayerKind) -> tuple[Sent, Sent]:
    counts, crossed = layer_collectives(plan, inputs, kind), layer_crossings(plan, inputs, kind)
    whole = 1.0 * HALF_BYTES * tokens(plan, inputs) * inputs.model.hidden_size
    reduction = "reduce-scatter" if plan.sp else "all-reduce"
    entered = float(crossing(plan, inputs).enter)
    narrower = float(crossed.each.enter) / entered if entered else 1.0
    gathered = narrower * float(sent_bytes("all_gather", whole, plan.tp))
    reduced = float(sent_bytes("reduce_scatter" if plan.sp else "all_reduce", whole, plan.tp))
    backward, again = counts.backward, counts.recompute
    gathers = int(backward.gathers + counts.regathers + again.gathers + counts.expansions)
    forth = _words(int(counts.forward.gathers), int(counts.forward.reductions), reduction)
    back = _words(gathers, int(backward.reductions + again.reductions), reduction)
    return (
        Sent(forth, counts.forward.gathers * gathered + counts.forward.reductions * reduced),
        Sent(back, gathers * gathered + (backward.reductions + again.reductions) * reduced),
    )


def _words(gathers: int, reductions: int, reduction: str) -> str:
    counted = ((gathers, "all-gather"), (reductions, reduction))
    return ", ".join(f"{count} {name}" for count, name in counted if count) or "nothing"


def _context(plan: Plan, inputs: Inputs, kind: LayerKind) -> tuple[Sent, Sent]:
    sent, name = context_traffic(plan, inputs, kind), CONTEXT_EXCHANGE_NAMES[plan.context_exchange].replace("_", "-")
    return Sent(f"{name} of keys and values", _total(sent.forward)), Sent(
        f"{name} of keys, values and their gradients", _total(sent.backward)
    )


def _expert(plan: Plan, inputs: Inputs, kind: LayerKind) -> tuple[Sent, Sent]:
    dispatched = _total(exchange_traffic(plan, inputs, kind))
    forward, backward = (
        dispatched * (HALF_BYTES + width) / inputs.dispatch_bytes[0] for width in inputs.dispatch_bytes
    )
    name = inputs.runtime.communication.dispatcher.replace("_", "-")
    return Sent(f"{name} dispatch and combine of tokens", forward), Sent(f"{name} of their gradients", backward)


def _total(traffic: Traffic) -> float:
    return float(traffic.inside + sum(traffic.across))

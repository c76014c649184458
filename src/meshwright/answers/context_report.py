"""The context exchange of one plan: what a layer sends, over which link, and what the step waits for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from meshwright.answers.document.blocks import Block, Heading, Lines
from meshwright.answers.placed import link_of, placement_words, sent_over, sent_words
from meshwright.answers.records import json_of
from meshwright.cost.comms.group import axis_group
from meshwright.cost.estimate import Estimate
from meshwright.cost.messages import layer_messages
from meshwright.layout.plan import CONTEXT_EXCHANGE_NAMES, Plan
from meshwright.specs.inputs import Inputs
from meshwright.units import format_seconds


@dataclass(frozen=True)
class ContextLayers:
    """The layers of one kind, for one micro-batch on one rank."""

    kind: str
    layers: int
    """Of the whole model."""
    forward_bytes: dict[str, float]
    """By link: what one rank sends forward."""
    backward_bytes: dict[str, float]
    forward_s: float
    """Seconds of the exchange forward, as if nothing hid it."""
    backward_s: float
    exposed_forward_s: float
    """Of these, what the layer waits for."""
    exposed_backward_s: float


def context_layers(plan: Plan, inputs: Inputs) -> Iterator[ContextLayers]:
    """What context parallelism exchanges, per kind of layer; nothing where cp is 1."""
    if plan.cp == 1:
        return
    for kind, count in zip(inputs.model.layer_kinds, inputs.layers_per_kind, strict=True):
        rows = [row for row in layer_messages(plan, inputs, kind) if row.part == "cp"]
        forward, backward = ([row for row in rows if row.phase == phase] for phase in ("forward", "backward"))
        yield ContextLayers(
            kind=kind.name,
            layers=count,
            forward_bytes=sent_over(forward, inputs.cluster),
            backward_bytes=sent_over(backward, inputs.cluster),
            forward_s=sum(row.seconds for row in forward),
            backward_s=sum(row.seconds for row in backward),
            exposed_forward_s=sum(row.exposed_s for row in forward),
            exposed_backward_s=sum(row.exposed_s for row in backward),
        )


def context_entry(estimate: Estimate, inputs: Inputs) -> dict[str, Any]:
    """The context exchange as it stands in the plan file of `explain`."""
    plan = estimate.plan
    return {
        "exchange": CONTEXT_EXCHANGE_NAMES[plan.context_exchange],
        "link": link_of(axis_group("cp", plan, inputs), inputs.cluster).name,
        "layers": json_of(list(context_layers(plan, inputs))),
        "exposed_s": estimate.time.exposed_cp_s,
    }


def context_section(estimate: Estimate, inputs: Inputs) -> tuple[Block, ...]:
    """One line on the ranks that share a sequence, and one for each kind of layer on what they send."""
    plan = estimate.plan
    placed = placement_words("cp", axis_group("cp", plan, inputs), inputs.cluster)
    exchange = CONTEXT_EXCHANGE_NAMES[plan.context_exchange].replace("_", "-")
    exposed = format_seconds(estimate.time.exposed_cp_s)
    lines = [_line(layers) for layers in context_layers(plan, inputs)]
    return Heading("Context exchange", 3), Lines((f"{exchange}, {placed}; {exposed} a step exposed", *lines))


def _line(layers: ContextLayers) -> str:
    """`32 layers (dense), each micro-batch: forward 8.0 MiB over nvlink in 50 us (10 us exposed), backward ...`."""
    passes = (
        ("forward", layers.forward_bytes, layers.forward_s, layers.exposed_forward_s),
        ("backward", layers.backward_bytes, layers.backward_s, layers.exposed_backward_s),
    )
    told = (
        f"{name} a rank sends {sent_words(sent)} in {format_seconds(whole)} ({format_seconds(exposed)} exposed)"
        for name, sent, whole, exposed in passes
    )
    return f"{layers.layers} layers ({layers.kind}), each, per micro-batch: {', '.join(told)}"

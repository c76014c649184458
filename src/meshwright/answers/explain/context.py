"""The context exchange of one plan: what a layer sends, over which link, and what the step waits for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from meshwright.answers.document.blocks import Block, Heading, Lines
from meshwright.answers.links import placement_of, placement_words, sent_over, sent_words
from meshwright.cost.estimate import Estimate
from meshwright.cost.messages import layer_messages
from meshwright.layout.plan import Plan
from meshwright.specs.choices import CONTEXT_EXCHANGE_NAMES
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


@dataclass(frozen=True)
class ContextReport:
    """The context exchange of one plan."""

    exchange: str
    link: str
    """The outermost links that it crosses."""
    layers: tuple[ContextLayers, ...]
    exposed_s: float
    """Seconds that a step waits for it."""


def context_report(estimate: Estimate, inputs: Inputs) -> ContextReport | None:
    """The context exchange of a priced plan; None where cp is 1."""
    plan = estimate.plan
    if plan.cp == 1:
        return None
    return ContextReport(
        exchange=CONTEXT_EXCHANGE_NAMES[plan.context_exchange],
        link=placement_of("cp", plan, inputs).link,
        layers=tuple(context_layers(plan, inputs)),
        exposed_s=estimate.time.exposed_cp_s,
    )


def context_layers(plan: Plan, inputs: Inputs) -> Iterator[ContextLayers]:
    """What context parallelism exchanges, per kind of layer."""
    for kind, count in zip(inputs.model.layer_kinds, inputs.layers_per_kind, strict=True):
        rows = [row for row in layer_messages(plan, inputs, kind) if row.part == "cp"]
        forward = [row for row in rows if row.phase == "forward"]
        backward = [row for row in rows if row.phase in ("recompute", "backward")]
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


def context_section(report: ContextReport, plan: Plan, inputs: Inputs) -> tuple[Block, ...]:
    """One line on the ranks that share a sequence, and one for each kind of layer on what they send."""
    placed = placement_words(placement_of("cp", plan, inputs), inputs.cluster)
    exposed = f"{format_seconds(report.exposed_s)} exposed per step"
    head = f"{report.exchange.replace('_', '-')}, {placed}; {exposed}"
    return Heading("Context exchange", 3), Lines((head, *map(_line, report.layers)))


def _line(layers: ContextLayers) -> str:
    """`32 layers (dense), each micro-batch: forward 8.0 MiB over nvlink in 50 us (10 us exposed), backward ...`."""
    passes = (
        ("forward", layers.forward_bytes, layers.forward_s, layers.exposed_forward_s),
        ("backward", layers.backward_bytes, layers.backward_s, layers.exposed_backward_s),
    )
    sent = (
        f"{name} {sent_words(sizes)} in {format_seconds(whole)} ({format_seconds(exposed)} exposed)"
        for name, sizes, whole, exposed in passes
    )
    return f"{layers.layers} layers ({layers.kind}), sent by a rank per layer and micro-batch: {', '.join(sent)}"

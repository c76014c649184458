"""Layer parts: the price of one layer, from its router to its host, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from meshwright.arrays import Floats, where
from meshwright.cost.comms.exchange import Exchange, Message, message_traffic
from meshwright.cost.comms.experts import RESULTS
from meshwright.cost.compute.host import issue_time
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.parts import TimedKernels
from meshwright.cost.unit import layer_exchanges, layer_unit_time
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


class PartPass(NamedTuple):
    """One part of a layer in one pass of one micro-batch; each scalar or array (n,)."""

    seconds: Floats
    """That it adds to the pass."""
    alone_s: Floats
    """Seconds that it takes, whatever runs beside it; of the host, to issue the pass."""
    bytes: Floats
    """That its element-wise kernels read and write, or that one rank sends."""


class PartTime(NamedTuple):
    """One part of a layer."""

    forward: PartPass
    backward: PartPass
    """With what is computed and sent again."""


class LayerPartTimes(NamedTuple):
    """All parts of one layer for one micro-batch, in the order of its forward pass."""

    attention: PartTime
    """With norms and residual sums."""
    router: PartTime
    permute: PartTime
    dispatch: PartTime
    """Tokens to their experts; backward the gradients of the results."""
    experts: PartTime
    """Products of routed experts, with their activation and what quantises them."""
    combine: PartTime
    """Results back; backward the gradients of the tokens."""
    unpermute: PartTime
    feed_forward: PartTime
    """The shared experts, or the block of a dense layer."""
    others: PartTime
    """Communication of the tensor and context axes."""
    host: PartTime
    """What the device waits for it."""


def layer_part_times(plan: Layout, inputs: Inputs, kind: LayerKind) -> LayerPartTimes:
    """What each part of one layer of a kind takes for one micro-batch; the seconds add up to `layer_unit_time`.

    What an exchange exposes is shared out by the seconds of its messages. plan: scalar or array (n,). Returns seconds
    and bytes. Source: `layer_time`, `layer_exchanges`, `issue_time`, which price the step.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> plan, kind = Plan(dp=8, ep=8), MIXTRAL.model.layer_kinds[0]
    >>> parts = layer_part_times(plan, MIXTRAL, kind)
    >>> unit = layer_unit_time(plan, MIXTRAL, kind)
    >>> bool(abs(sum(part.forward.seconds for part in parts) - unit.forward_total - unit.host_forward) < 1e-9)
    True
    """
    layer, unit, issue = (
        layer_time(plan, inputs, kind),
        layer_unit_time(plan, inputs, kind),
        issue_time(plan, inputs, kind),
    )
    exchanges = layer_exchanges(plan, inputs, kind, layer)
    parts = zip(layer.forward_parts.each, layer.backward_parts.each, layer.recompute_parts.each, strict=True)
    attention, feed_forward, router, permute, experts, unpermute = (_computed(*part) for part in parts)

    def exchanged(chosen: Callable[[Exchange, Message], bool]) -> PartTime:
        forward, backward = (
            _sent((each for each in exchanges if (each.phase == "forward") == first), chosen, plan, inputs)
            for first in (True, False)
        )
        return PartTime(forward, backward)

    return LayerPartTimes(
        attention=attention,
        router=router,
        permute=permute,
        dispatch=exchanged(lambda exchange, message: exchange.axis == "ep" and message.content != RESULTS),
        experts=experts,
        combine=exchanged(lambda exchange, message: exchange.axis == "ep" and message.content == RESULTS),
        unpermute=unpermute,
        feed_forward=feed_forward,
        others=exchanged(lambda exchange, _: exchange.axis != "ep"),
        host=PartTime(
            PartPass(unit.host_forward, issue.forward, 0.0), PartPass(unit.host_backward, issue.backward, 0.0)
        ),
    )


def _computed(forward: TimedKernels, backward: TimedKernels, again: TimedKernels) -> PartTime:
    seconds, both = forward.work.total, backward.work.total + again.work.total
    return PartTime(
        PartPass(seconds, seconds, forward.moved_bytes),
        PartPass(both, both, backward.moved_bytes + again.moved_bytes),
    )


def _sent(
    exchanges: Iterable[Exchange], chosen: Callable[[Exchange, Message], bool], plan: Layout, inputs: Inputs
) -> PartPass:
    """What the chosen messages of some exchanges take together."""
    seconds: Floats = 0.0
    alone: Floats = 0.0
    sent: Floats = 0.0
    for exchange in exchanges:
        whole = exchange.seconds
        exposed = exchange.exposed(inputs) / where(whole > 0, whole, 1.0)
        for message in exchange.messages:
            if chosen(exchange, message):
                traffic, part = message_traffic(message, plan, inputs), message.times * message.seconds
                seconds = seconds + exposed * part
                alone = alone + exchange.times * part
                sent = sent + exchange.times * message.times * (traffic.inside + sum(traffic.across))
    return PartPass(seconds, alone, sent)

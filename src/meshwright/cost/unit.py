"""Unit times: what one layer, the embedding and the head take for one micro-batch."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, larger, some
from meshwright.cost.batch_overlap import overlap_share, overlaps_micro_batches, unpaired_share
from meshwright.cost.comms.context import context_exchanges
from meshwright.cost.comms.ends import embedding_exchanges, head_exchanges, prediction_exchanges
from meshwright.cost.comms.exchange import Exchange, exposed_seconds
from meshwright.cost.comms.experts import expert_exchanges
from meshwright.cost.comms.tensor import layer_tensor_exchanges, tensor_region
from meshwright.cost.compute.accumulation import gradient_sum_bytes
from meshwright.cost.compute.ends import EndTime, embedding_time, head_time, prediction_time
from meshwright.cost.compute.host import issue_time
from meshwright.cost.compute.layer import LINEAR_SHAPE, LayerTime, layer_time
from meshwright.cost.compute.work import Work
from meshwright.cost.offloaded_layers import waits_for_copies
from meshwright.cost.shapes import PIPELINE, Pipelines, Shapes, alone, distinct_shapes, on_shapes
from meshwright.distinct import combined, distinct_rows
from meshwright.layout.plans import Layout, Plans, without_recompute
from meshwright.schedules.pipeline import PassTimes
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind

SHAPE = ("tp", "sp", "cp", "context_exchange", "ep", "etp", "micro_batch", "recompute", "recompute_modules")
"""The columns of a plan on which the cost of one layer depends."""


class Exposed(NamedTuple):
    """Seconds of communication that compute does not hide, by axis; each scalar or array (n,)."""

    tensor: Floats = 0.0
    context: Floats = 0.0
    expert: Floats = 0.0

    @property
    def total(self) -> Floats:
        """All axes together, seconds."""
        return self.tensor + self.context + self.expert


AXES = ("tp", "cp", "ep")
"""The parts of exchanges, in the order of the fields of `Exposed`."""


class UnitTime(NamedTuple):
    """Seconds of one piece of the model for one micro-batch; each scalar or array (n,)."""

    forward: Work
    backward: Work
    """With what is computed again."""
    exposed_forward: Exposed
    exposed_backward: Exposed
    host_forward: Floats = 0.0
    """The device waits for the host: to issue work, or for activations on their way there or back."""
    host_backward: Floats = 0.0
    weight_gradient: Floats = 0.0
    """Of the backward pass, the products that make gradients of weights, which a schedule may put off."""

    @property
    def passes(self) -> PassTimes:
        """Forward, input gradient with all that comes with it, and weight gradient; with the host."""
        forward, backward = self.with_host
        return PassTimes(forward, backward - self.weight_gradient, self.weight_gradient)

    @property
    def with_host(self) -> tuple[Floats, Floats]:
        """Seconds of the forward and of the backward pass, with the host."""
        return self.forward_total + self.host_forward, self.backward_total + self.host_backward

    @property
    def host(self) -> Floats:
        """Seconds that the device waits for the host in both passes."""
        return self.host_forward + self.host_backward

    @property
    def forward_total(self) -> Floats:
        """Seconds of the forward pass, without the host."""
        return self.forward.total + self.exposed_forward.total

    @property
    def backward_total(self) -> Floats:
        """Seconds of the backward pass, without the host."""
        return self.backward.total + self.exposed_backward.total

    @property
    def total(self) -> Floats:
        """Seconds of both passes."""
        return self.forward_total + self.backward_total + self.host

    def plus(self, other: UnitTime) -> UnitTime:
        """The time of two pieces one after the other."""
        return combined(operator.add, self, other)


class UnitTimes(NamedTuple):
    """The times of every piece of the model."""

    layers: tuple[UnitTime, ...]
    """Per layer kind."""
    layers_not_recomputed: tuple[UnitTime, ...]
    """The same of layers that full recomputation leaves out; none where it leaves out none."""
    embedding: UnitTime
    head: UnitTime
    """With those of multi-token prediction, and what it computes ahead of its transformer layers."""


def micro_batch_shapes(plans: Plans, inputs: Inputs, pipelines: Pipelines) -> Shapes:
    """The distinct shapes of one micro-batch: the columns of `SHAPE`, the axes that the rank order numbers before tp,
    pipeline and micro-batches where exchanges of experts overlap, and the stage of ZeRO where what the host issues,
    what adds up gradients or what adapters cast depends on it. plans: shape (n,); pipelines: theirs. Returns plans of
    the shapes, and the row of each plan.

    >>> from meshwright.cost.shapes import pipelines_of
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> plans = Plans.of([Plan(tp=2, pp=2), Plan(tp=2, pp=4)])  # their stages share the shape of a micro-batch
    >>> len(micro_batch_shapes(plans, LLAMA, pipelines_of(plans, LLAMA, keep_all_stages=False)[0]).plans)
    1
    """
    fields, distinct = shape_fields(inputs), pipelines.plans
    if "zero" in fields:
        least = 2 if gradient_sum_bytes(inputs) or inputs.freezes_weights else inputs.runtime.host.hooks_from
        distinct = replace(distinct, zero=np.where(distinct.zero >= least, distinct.zero, 0))
    # What follows from pipelines is told apart of these, (p,); the rest of each plan, (n,).
    alike = [name for name in fields if name in PIPELINE and name != "num_microbatches"]
    shared = distinct_shapes(distinct, alike)
    own = {name: getattr(plans, name) for name in fields if name not in alike}
    (shape, *columns), of_plan = distinct_rows(shared.of_plan.take(pipelines.of_plan), *own.values())
    of_pipeline = {name: getattr(shared.plans, name)[shape] for name in alike}
    return Shapes(Plans.filled(of_pipeline | dict(zip(own, columns, strict=True)), plans.chunkings), of_plan)


def shape_fields(inputs: Inputs) -> tuple[str, ...]:
    """The names of the columns by which `micro_batch_shapes` tells shapes apart. Source: `micro_batch_shapes`.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> shape_fields(LLAMA) == SHAPE
    True
    """
    order = inputs.runtime.plans.rank_order
    pipeline = ("pp", "vpp", "schedule", "num_microbatches") if overlap_share(inputs) else ()
    host, chunks = inputs.runtime.host, ("vpp",) if inputs.runtime.activations.offloaded_modules else ()
    hooks = host.hooks_s + inputs.model.is_moe * host.host_s_per_gathered_expert.total
    sharding = ("zero",) if hooks or gradient_sum_bytes(inputs) or inputs.freezes_weights else ()
    return tuple(dict.fromkeys((*SHAPE, *pipeline, *chunks, *sharding, *order[: order.index("tp")])))


def unit_times(shapes: Plans, inputs: Inputs, *, some_not_recomputed: bool) -> UnitTimes:
    """The times of every piece of the model.

    shapes: of `micro_batch_shapes`, columns (k,); some_not_recomputed: whether full recomputation leaves out layers of
    any plan. Returns seconds of one micro-batch, shape (k,). Source: `layer_time`, `embedding_time`, `head_time`,
    `prediction_time`.
    """
    each = alone(shapes)
    embedding, head = on_shapes(lambda ends: _ends(ends, inputs), each, *_end_fields(inputs))
    return UnitTimes(
        layers=_layers(each, inputs),
        layers_not_recomputed=_layers(without_recompute(each), inputs) if some_not_recomputed else (),
        embedding=embedding,
        head=head,
    )


def _end_fields(inputs: Inputs) -> tuple[str, ...]:
    """The columns on which the ends depend."""
    order = inputs.runtime.plans.rank_order
    sums = ("zero",) if gradient_sum_bytes(inputs) else ()
    return tuple(dict.fromkeys((*LINEAR_SHAPE, *sums, *order[: order.index("tp")])))


def _ends(shapes: Layout, inputs: Inputs) -> tuple[UnitTime, UnitTime]:
    """The embedding; and the head, with multi-token prediction."""
    embedding, head = embedding_time(shapes, inputs), head_time(shapes, inputs)
    if not (some(shapes.tp > 1) or inputs.mtp_layers):
        return _end(embedding, (), inputs), _end(head, (), inputs)
    region = tensor_region(shapes, inputs)
    ending = _end(head, head_exchanges(region, shapes, inputs, head), inputs)
    if inputs.mtp_layers:
        ahead = _end(prediction_time(shapes, inputs), prediction_exchanges(region, shapes, inputs), inputs)
        ending = ending.plus(combined(lambda part: part * inputs.mtp_layers, ahead.plus(ending)))
    return _end(embedding, embedding_exchanges(region, inputs), inputs), ending


def _layers(shapes: Layout, inputs: Inputs) -> tuple[UnitTime, ...]:
    """Of every kind; a dense one takes as long however the experts of others are divided."""
    dense = [name for name in shape_fields(inputs) if name not in ("ep", "etp")]
    return tuple(
        on_shapes(partial(layer_unit_time, inputs=inputs, kind=kind), shapes, *dense)
        if inputs.model.is_moe and not kind.is_moe
        else layer_unit_time(shapes, inputs, kind)
        for kind in inputs.model.layer_kinds
    )


def layer_exchanges(plan: Layout, inputs: Inputs, kind: LayerKind, layer: LayerTime) -> tuple[Exchange, ...]:
    """What the ranks of all axes send each other for one layer and micro-batch.

    plan: scalar or array (n,); layer: its compute, for the windows, seconds. Returns bytes and seconds. Source:
    `layer_tensor_exchanges`, `context_exchanges`, `expert_exchanges`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> len(layer_exchanges(Plan(tp=8), LLAMA, kind, layer_time(Plan(tp=8), LLAMA, kind))) > 0
    True
    """
    return tuple(chain.from_iterable(make(plan, inputs, kind, layer) for make in _EXCHANGES.values()))


_EXCHANGES = {"tp": layer_tensor_exchanges, "cp": context_exchanges, "ep": expert_exchanges}
"""By the axis that must have more than one rank; beside ep it may be etp."""


def exposed(exchanges: Iterable[Exchange], inputs: Inputs) -> tuple[Exposed, Exposed]:
    """Seconds that forward and backward wait for some exchanges, by axis; what is computed again is of backward.

    exchanges: each number scalar or array (n,). Returns seconds. Source: `exposed_seconds`.

    >>> from meshwright.cost.comms.exchange import Exchange, Message
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> message = Message("tp", "all_gather", "x", bytes=8.0, seconds=0.5)
    >>> exchanges = [Exchange("tp", phase, (message,)) for phase in ("forward", "recompute")]
    >>> forward, backward = exposed(exchanges, LLAMA)
    >>> forward.tensor, backward.tensor
    (0.5, 0.5)
    """
    forward, backward = dict[str, list[Exchange]](), dict[str, list[Exchange]]()
    for each in exchanges:
        (forward if each.phase == "forward" else backward).setdefault(each.axis, []).append(each)
    if not (forward or backward):
        return Exposed(), Exposed()
    waits = ((exposed_seconds(of[axis], inputs) if axis in of else 0.0 for axis in AXES) for of in (forward, backward))
    return Exposed(*next(waits)), Exposed(*next(waits))


def _end(time: EndTime, exchanges: tuple[Exchange, ...], inputs: Inputs) -> UnitTime:
    waits = exposed(exchanges, inputs)
    return UnitTime(time.forward, time.backward, *waits, weight_gradient=time.weight_gradient)


def layer_unit_time(plan: Layout, inputs: Inputs, kind: LayerKind) -> UnitTime:
    """The time of one layer of a kind. plan: scalar or array (n,). Returns seconds for one micro-batch.

    Source: `layer_time`, `layer_exchanges`, `issue_time`, `waits_for_copies`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> times = [layer_unit_time(Plan(tp=tp), LLAMA, kind) for tp in (1, 8)]
    >>> bool(times[0].forward.gemm > 4 * times[1].forward.gemm)
    True
    """
    layer = layer_time(plan, inputs, kind)
    # Along an axis on which no plan has more than one rank nothing takes time.
    going = [make for axis, make in _EXCHANGES.items() if axis == "ep" or some(getattr(plan, axis) > 1)]
    exchanges = chain.from_iterable(make(plan, inputs, kind, layer) for make in going)
    forward, backward = exposed(exchanges, inputs)
    time = UnitTime(
        forward=layer.forward,
        backward=layer.recompute.plus(layer.backward),
        exposed_forward=forward,
        exposed_backward=backward,
        weight_gradient=layer.weight_gradient,
    )
    time = _with_host(plan, inputs, kind, layer, time)
    there, back = waits_for_copies(plan, inputs, kind, time.with_host)
    return time._replace(host_forward=time.host_forward + there, host_backward=time.host_backward + back)


def _with_host(plan: Layout, inputs: Inputs, kind: LayerKind, layer: LayerTime, time: UnitTime) -> UnitTime:
    """The same with the seconds of each pass in which the device waits for the host.

    Forward, the host learns in every layer of experts how many tokens each has, so that it is not ahead of their
    products; while these run it issues what follows, up to the next layer's experts, so that the longer of both waits
    counts. It issues both passes together where they run side by side. Where it waits for each kernel, the device
    waits for all that it issues. Source: Megatron-LM, token_dispatcher.py, _maybe_dtoh_and_synchronize.
    """
    issue, products = issue_time(plan, inputs, kind), layer.forward_parts.routed.experts.work.total
    if not inputs.runtime.host.runs_ahead:
        return time._replace(host_forward=issue.forward, host_backward=issue.backward)
    forward = larger(larger(issue.forward - time.forward_total, issue.experts - products), 0.0)
    backward = larger(issue.backward - time.backward_total, 0.0)
    together = larger(issue.forward - time.forward_total + issue.backward - time.backward_total, 0.0) / 2
    paired = overlaps_micro_batches(plan, inputs, kind) * (1.0 - unpaired_share(plan))
    return time._replace(
        host_forward=forward + paired * (together - forward),
        host_backward=backward + paired * (together - backward),
    )

"""Messages: what the ranks of one plan send each other in a step, row by row, as the step is priced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from meshwright.arrays import column
from meshwright.cost.comms.data import tied_embedding_exchange
from meshwright.cost.comms.ends import embedding_exchanges, head_exchanges, prediction_exchanges
from meshwright.cost.comms.exchange import Exchange, message_traffic
from meshwright.cost.comms.group import Group, Traffic, axis_group
from meshwright.cost.comms.pipeline import pipeline_exchanges
from meshwright.cost.comms.sharded import gathers_weights
from meshwright.cost.comms.tensor import tensor_region
from meshwright.cost.compute.ends import head_time
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.estimate import Estimates
from meshwright.cost.unit import layer_exchanges, unit_times
from meshwright.cost.weights import layer_by_layer, once_a_step
from meshwright.distinct import gathered
from meshwright.layout.plan import Plan
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


class MessageRow(NamedTuple):
    """One kind of collective or message of one rank in one step."""

    part: str
    """Of the waterfall: tp, cp, ep, pp or dp."""
    unit: str
    """The piece of the model that it is for: a layer kind, embedding, head, prediction, stage."""
    units: float
    """How many of them there are, times the micro-batches."""
    axis: str
    """A key of `AXES`."""
    group: Group
    operation: str
    content: str
    """What it carries."""
    phase: str
    """forward, backward, recompute or step."""
    bytes: float
    """Of the whole buffer of one."""
    traffic: Traffic
    """Bytes that one rank sends each time."""
    times_a_unit: float
    """How often it goes for one unit."""
    seconds: float
    """Of all of the step, if nothing ran beside them."""
    exposed_s: float
    """Of these, what the step waits for."""

    @property
    def sent_bytes(self) -> float:
        """What one rank sends each time, over all links."""
        return float(self.traffic.inside + sum(self.traffic.across))

    @property
    def times(self) -> float:
        """How often it goes in a step."""
        return self.units * self.times_a_unit


def step_messages(priced: Estimates) -> tuple[MessageRow, ...]:
    """Every message of one step of the only plan of `priced`; what they expose adds up to its waterfall.

    Those of the passes and between stages as the stage with the most work sees them, those of weights and gradients as
    the stage that waits longest for them. priced: with all stages. Returns bytes, counts and seconds. Source: the
    exchanges of `cost.comms`.

    >>> from meshwright.cost.step import estimate_plans
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.layout.plans import Plans
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> priced = estimate_plans(Plans.of([Plan(tp=8, sp=True, num_microbatches=64)]), LLAMA, keep_all_stages=True)
    >>> sorted({row.operation for row in step_messages(priced) if row.times})
    ['all_gather', 'all_reduce', 'reduce_scatter']
    """
    slowest = int(priced.slowest[0])
    weights = (weight_messages(priced, stage) for stage in range(len(priced.stages.plan)))
    longest = max(weights, key=lambda rows: sum(row.exposed_s for row in rows))
    return (*pass_messages(priced, slowest), *_between_stages(priced, slowest), *longest)


def pass_messages(priced: Estimates, stage: int) -> tuple[MessageRow, ...]:
    """Those of the tensor, context and expert axes that one stage exchanges in a step.

    priced: with all stages; stage: its row among those of all plans. Returns bytes, counts and seconds. Source: the
    exchanges of `cost.comms`.
    """
    inputs, stages = priced.inputs, priced.stages
    plan = priced.plans[int(stages.plan[stage])]
    micro_batches, rows = plan.num_microbatches / int(stages.copies[stage]), list[MessageRow]()
    for index, kind in enumerate(inputs.model.layer_kinds):
        layers, not_recomputed = int(stages.layers[stage, index]), int(stages.layers_not_recomputed[stage, index])
        for of_them, count in (
            (plan, layers - not_recomputed),
            (replace(plan, recompute=Recompute.NONE), not_recomputed),
        ):
            if count:
                rows += layer_messages(of_them, inputs, kind, micro_batches * count)
    head, predicted, region = bool(stages.head[stage]) * micro_batches, inputs.mtp_layers, tensor_region(plan, inputs)
    ends = (
        ("embedding", embedding_exchanges(region, inputs), bool(stages.embedding[stage]) * micro_batches),
        ("head", head_exchanges(region, plan, inputs, head_time(plan, inputs)), head * (1 + predicted)),
        ("prediction", prediction_exchanges(region, plan, inputs), head * predicted),
    )
    for unit, exchanges, units in ends:
        rows += _rows(unit, exchanges, plan, inputs, units)
    return tuple(rows)


def layer_messages(plan: Plan, inputs: Inputs, kind: LayerKind, units: float = 1.0) -> tuple[MessageRow, ...]:
    """Those of one layer of a kind. plan: one plan; units: how many such layers and micro-batches there are.

    Returns bytes, counts and seconds. Source: `layer_exchanges`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> rows = layer_messages(Plan(tp=8, sp=True), LLAMA, kind)
    >>> sum(row.times for row in rows if row.phase == "forward")
    4.0
    """
    return tuple(
        _rows(kind.name, layer_exchanges(plan, inputs, kind, layer_time(plan, inputs, kind)), plan, inputs, units)
    )


def _between_stages(priced: Estimates, stage: int) -> Iterator[MessageRow]:
    work = float(column(priced.stage_time.total)[stage])
    return _rows("stage", pipeline_exchanges(priced.plans[0], priced.inputs, work), priced.plans[0], priced.inputs)


def weight_messages(priced: Estimates, stage: int) -> tuple[MessageRow, ...]:
    """Those of weights and gradients that one stage of the only plan exchanges in a step.

    priced: with all stages; stage: 0 is first. Returns bytes, counts and seconds. Source: `once_a_step`,
    `layer_by_layer`.
    """
    plan, inputs, chosen = priced.plans[0], priced.inputs, np.array([stage])
    rows = [*_rows("embedding", (tied_embedding_exchange(plan, inputs),), plan, inputs)]
    if gathers_weights(plan, inputs):
        units = unit_times(priced.shapes.plans, inputs, some_not_recomputed=False)
        exchanged = layer_by_layer(priced, units, chosen, lambda messages: messages)
    else:
        exchanged = iter([once_a_step(priced, priced.works, priced.work, lambda messages: messages)(chosen)])
    for unit, pieces, exchanges in exchanged:
        rows += _rows(unit, gathered(exchanges, np.array(0)), plan, inputs, float(np.ravel(pieces)[0]))
    return tuple(rows)


def _rows(
    unit: str, exchanges: Iterable[Exchange], plan: Plan, inputs: Inputs, units: float = 1.0
) -> Iterator[MessageRow]:
    """A row for each message that takes time; what an exchange exposes is shared out by the seconds of its messages."""
    for exchange in exchanges:
        whole, exposed = float(exchange.seconds), float(exchange.exposed(inputs))
        for each in exchange.messages:
            seconds = float(exchange.times * each.times * each.seconds)
            if not seconds * units:
                continue
            group = axis_group(each.axis, plan, inputs)
            yield MessageRow(
                part=exchange.axis,
                unit=unit,
                units=units,
                axis=each.axis,
                group=group,
                operation=each.operation,
                content=each.content,
                phase=exchange.phase,
                bytes=float(each.bytes),
                traffic=message_traffic(each, plan, inputs),
                times_a_unit=float(exchange.times * each.times),
                seconds=units * seconds,
                exposed_s=units * seconds * (exposed / float(exchange.times * whole)),
            )

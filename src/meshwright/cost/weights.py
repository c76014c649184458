"""Weights: what the stages of plans exchange of weights and gradients, once a step or layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from meshwright.arrays import IntColumn, Ints, column
from meshwright.cost.comms.data import data_exchange, data_exchanges, earlier_reductions, shard_messages
from meshwright.cost.comms.exchange import Exchange
from meshwright.cost.comms.sharded import (
    Gathers,
    end_exchanges,
    end_gathers,
    gathers_per_step,
    sharded_exchanges,
    unsharded_share,
)
from meshwright.cost.footprint import Footprints
from meshwright.cost.memory.parameters import expert_parameters, layer_parameters
from meshwright.cost.unit import UnitTime, UnitTimes
from meshwright.distinct import gathered, on_distinct
from meshwright.specs.model import LayerKind

Packing = Callable[[Any], Any]
"""What is left of the messages before they are spread over stages: all of them, or one of as many seconds."""


class StageWeights(NamedTuple):
    """What the chosen stages exchange of one piece of the model; columns of shape (chosen,)."""

    unit: str
    """A layer kind, ends, or stage: all of it."""
    pieces: Ints
    """How many of them a stage holds."""
    exchanges: tuple[Exchange, ...]


def once_a_step(
    footprints: Footprints, works: UnitTime, work: IntColumn, chosen: IntColumn, packing: Packing
) -> Iterator[StageWeights]:
    """What stages exchange whose weights are not gathered for each layer.

    footprints: plans and their stages; works: seconds of one micro-batch, of every kind of stage there is; work: the
    row of every stage among them; chosen: rows of stages, shape (chosen,); packing: of the messages before they are
    spread over stages. Returns bytes and seconds. Source: `data_exchange`, `data_exchanges`.
    """
    inputs, (pipelines, stages, _, of_stage) = footprints.inputs, footprints.pipelines
    rows, (dense, experts, ends, matrices) = pipelines.take(stages.plan), footprints.parameters
    exchange = data_exchange(rows, inputs, dense, stages.stage, experts, ends, matrices)
    forward = column(works.forward_total + works.host_forward)
    backward = column(works.backward_total + works.host_backward)
    row, reductions = work[chosen], column(earlier_reductions(footprints.plans))[footprints.stages.plan[chosen]]
    each = gathered(packing(exchange), of_stage[chosen])
    yield StageWeights("stage", 1, data_exchanges(each, inputs, forward[row], backward[row], reductions))


def layer_by_layer(
    footprints: Footprints, units: UnitTimes, chosen: IntColumn, packing: Packing
) -> Iterator[StageWeights]:
    """What stages exchange whose weights are gathered: layers beside their passes, the ends before and after them.

    footprints: plans and their stages; units: seconds of the pieces of the model; chosen: rows of stages, shape
    (chosen,); packing: of the messages before they are spread over stages. Returns bytes and seconds. Source:
    `sharded_exchanges`, `end_exchanges`.
    """
    inputs, stages, plan = footprints.inputs, footprints.stages, footprints.stages.plan[chosen]
    rows, in_flight, stage = footprints.plans.take(plan), stages.in_flight_micro_batches[chosen], stages.stage[chosen]
    ends = end_gathers(rows, inputs, in_flight, stage)
    yield StageWeights("ends", 1, _ends(footprints, footprints.pipelines.of_stage[chosen], ends, packing))
    times = gathers_per_step(rows, inputs, in_flight, stage)
    for index, (kind, unit) in enumerate(zip(inputs.model.layer_kinds, units.layers, strict=True)):
        yield StageWeights(
            kind.name, stages.layers[chosen, index], _layer(footprints, plan, times, kind, unit, packing)
        )


def _ends(footprints: Footprints, stage: IntColumn, times: Gathers, packing: Packing) -> tuple[Exchange, ...]:
    """Of embedding, final norm and head; stage: the row of every stage among those of the pipelines."""
    inputs, (pipelines, stages, *_) = footprints.inputs, footprints.pipelines
    ends = footprints.parameters.ends
    messages = on_distinct(
        lambda some: packing(shard_messages(pipelines.take(stages.plan[some]), inputs, ends[some], ends=ends[some])),
        stage,
    )
    return end_exchanges(inputs, messages, ends[stage], times)


def _layer(
    footprints: Footprints, plan: IntColumn, times: Gathers, kind: LayerKind, unit: UnitTime, packing: Packing
) -> tuple[Exchange, ...]:
    """Of one layer of a kind; plan: of every row; times: of its stage."""
    inputs, pipelines, shape = footprints.inputs, footprints.pipelines.plans, footprints.shapes.of_plan[plan]
    dense = column(layer_parameters(pipelines, inputs, kind))
    experts = column(expert_parameters(pipelines, inputs, kind))
    pipeline = footprints.pipelines.of_plan[plan]
    messages = on_distinct(
        lambda some: packing(shard_messages(pipelines.take(some), inputs, dense[some], experts[some])), pipeline
    )
    forward = column(unit.forward_total + unit.host_forward)
    backward = column(unit.backward_total + unit.host_backward)
    unsharded, weights = unsharded_share(footprints.plans.take(plan), inputs), (dense + experts)[pipeline]
    return sharded_exchanges(inputs, messages, weights, forward[shape], backward[shape], unsharded, times)

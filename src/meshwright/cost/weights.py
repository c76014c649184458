"""Weights: what the stages of plans exchange of weights and gradients, once a step or layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from meshwright.arrays import FloatColumn, Floats, IntColumn, Ints, column
from meshwright.cost.comms.data import (
    ShardMessages,
    data_exchange,
    data_exchanges,
    earlier_reductions,
    shard_messages,
)
from meshwright.cost.comms.exchange import Exchange
from meshwright.cost.comms.sharded import (
    Gathers,
    Windows,
    end_exchanges,
    end_gathers,
    gathers_per_step,
    sharded_exchanges,
    unsharded_share,
)
from meshwright.cost.footprint import Footprints
from meshwright.cost.memory.parameters import (
    gathered_end_parameters,
    gathered_layer_parameters,
    prediction_parameters,
)
from meshwright.cost.memory.stage_parameters import parted_embedding
from meshwright.cost.unit import UnitTime, UnitTimes
from meshwright.distinct import gathered, on_distinct, spread
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
    footprints: Footprints, works: UnitTime, work: IntColumn, chosen: IntColumn | slice, packing: Packing
) -> Iterator[StageWeights]:
    """What stages exchange whose weights are not gathered for each layer.

    footprints: plans and their stages; works: seconds of one micro-batch, of every kind of stage there is; work: the
    row of every stage among them; chosen: rows of stages, shape (chosen,), or all; packing: of the messages before they
    are spread over stages. Returns bytes and seconds. Source: `data_exchange`, `data_exchanges`.
    """
    inputs, weights = footprints.inputs, footprints.pipelines.weights
    dense, experts, ends, matrices, _ = footprints.held_parameters
    exchange = data_exchange(weights.plans, inputs, dense, weights.stages.stage, experts, ends, matrices)
    forward = column(works.forward_total + works.host_forward)
    backward = column(works.backward_total + works.host_backward)
    row, reductions = work[chosen], column(earlier_reductions(footprints.plans))[footprints.stages.plan[chosen]]
    each = gathered(packing(exchange), footprints.pipelines.of_weights[chosen])
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
    rows, in_flight, stage = footprints.plans.some(plan), stages.in_flight_micro_batches[chosen], stages.stage[chosen]
    times = gathers_per_step(rows, inputs, in_flight, stage)
    of_ends = times, end_gathers(rows, inputs, in_flight, stage)
    yield from _ends(footprints, units, chosen, of_ends, packing)
    for index, (kind, unit) in enumerate(zip(inputs.model.layer_kinds, units.layers, strict=True)):
        yield StageWeights(
            kind.name, stages.layers[chosen, index], _layer(footprints, plan, times, kind, unit, packing)
        )


def _ends(
    footprints: Footprints, units: UnitTimes, chosen: IntColumn, times: tuple[Gathers, Gathers], packing: Packing
) -> Iterator[StageWeights]:
    """Of embedding, final norm and head, together or apart, and of positions that are left to the root unit; times: of
    layers, and of ends that stay gathered.
    """
    inputs, (pipelines, stages, *_) = footprints.inputs, footprints.pipelines
    stage, (of_layers, of_ends) = footprints.pipelines.of_stage[chosen], times
    ends = gathered_end_parameters(pipelines, inputs)
    root, first = (stages.embedding * column(each)[stages.plan] for each in (ends.root, ends.embedding))
    last = stages.head * column(ends.head + prediction_parameters(pipelines, inputs))[stages.plan]

    def exchanged(ends: FloatColumn) -> tuple[ShardMessages, FloatColumn]:
        messages = on_distinct(
            lambda some: packing(
                shard_messages(pipelines.some(stages.plan[some]), inputs, ends[some], ends=ends[some])
            ),
            stage,
        )
        return messages, ends[stage]

    if root.any():
        yield StageWeights("positions", 1, end_exchanges(inputs, *exchanged(root), of_ends))
    if not inputs.gathers_ends_apart:
        parted, _ = parted_embedding(pipelines, stages, inputs)
        yield StageWeights("ends", 1, end_exchanges(inputs, *exchanged(first + last + parted), of_ends))
        return
    shape = footprints.shapes.of_plan[footprints.stages.plan[chosen]]
    (_, after), (forward, backward) = (_passes(units.layers[kind], shape) for kind in (0, -1))
    embedding = end_exchanges(inputs, *exchanged(first), of_layers, Windows(backward=after))
    yield StageWeights("embedding", 1, embedding)
    around = Windows(forward=forward, scatter=backward)
    yield StageWeights("head", 1, end_exchanges(inputs, *exchanged(last), of_ends, around))


def _passes(unit: UnitTime, shape: IntColumn) -> tuple[Floats, Floats]:
    """Seconds of a layer's forward and backward for one micro-batch, of every row; shape: of its micro-batch."""
    forward, backward = unit.forward_total + unit.host_forward, unit.backward_total + unit.host_backward
    return spread(forward, shape), spread(backward, shape)


def _layer(
    footprints: Footprints, plan: IntColumn, times: Gathers, kind: LayerKind, unit: UnitTime, packing: Packing
) -> tuple[Exchange, ...]:
    """Of one layer of a kind; plan: of every row; times: of its stage."""
    inputs, pipelines, shape = footprints.inputs, footprints.pipelines.plans, footprints.shapes.of_plan[plan]
    dense, experts = map(column, gathered_layer_parameters(pipelines, inputs, kind))
    pipeline = footprints.pipelines.of_plan[plan]
    messages = on_distinct(
        lambda some: packing(shard_messages(pipelines.some(some), inputs, dense[some], experts[some])), pipeline
    )
    forward, backward = _passes(unit, shape)
    unsharded, weights = unsharded_share(footprints.plans.some(plan), inputs), (dense + experts)[pipeline]
    return sharded_exchanges(inputs, messages, weights, forward, backward, unsharded, times)

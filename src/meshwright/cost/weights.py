"""Weights: what the stages of plans exchange of weights and gradients, once a step or layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, Floats, IntColumn, Ints, column, filled
from meshwright.cost.comms.data import (
    ShardMessages,
    data_exchange,
    data_exchanges,
    earlier_reductions,
    shard_messages,
)
from meshwright.cost.comms.exchange import Exchange
from meshwright.cost.comms.host_copies import host_copies
from meshwright.cost.comms.sharded import (
    NOTHING,
    Windows,
    end_exchanges,
    end_gathers,
    gathers_per_step,
    sharded_exchanges,
    unsharded_share,
)
from meshwright.cost.footprint import Footprints
from meshwright.cost.memory.adapter_parameters import gathered_adapter_parameters
from meshwright.cost.memory.parameters import (
    gathered_end_parameters,
    gathered_layer_parameters,
    prediction_parameters,
)
from meshwright.cost.memory.stage_parameters import parted_embedding
from meshwright.cost.shapes import alone
from meshwright.cost.unit import UnitTime, UnitTimes
from meshwright.distinct import distinct_rows, gathered, spread
from meshwright.layout.groups import expert_sharding_ranks, sharding_ranks
from meshwright.layout.plans import Layout, of_rows
from meshwright.layout.stages import Stages
from meshwright.specs.inputs import Inputs

Packing = Callable[[Any], Any]
"""What is left of the messages before they are spread over stages: all of them, or one of as many seconds."""


class StageWeights(NamedTuple):
    """What the chosen stages exchange of one piece of the model; columns of shape (chosen,)."""

    unit: str
    """A layer kind, ends, or stage: all of it."""
    pieces: Ints
    """How many of them a stage holds."""
    exchanges: tuple[Exchange, ...]


class _Piece(NamedTuple):
    """Parameters of a piece of the model that is gathered as one, counts, scalar or of every stage, shape (k,)."""

    dense: Floats
    """Without routed experts."""
    experts: Floats = 0.0
    ends: Floats = 0.0
    """Of `dense`, those of embedding and head."""
    adapters: Floats = 0.0
    """Of `dense`, those of adapters."""

    def reduced(self, inputs: Inputs) -> Floats:
        """Those whose gradients are reduced: all, or those of adapters."""
        return self.adapters if inputs.freezes_weights else self.dense + self.experts

    def owned(self, plans: Layout) -> Floats:
        """Those that a rank stores, scalar or shape (k,)."""
        return self.dense / sharding_ranks(plans) + self.experts / expert_sharding_ranks(plans)


def once_a_step(
    footprints: Footprints, works: UnitTime, work: IntColumn, packing: Packing
) -> Callable[[IntColumn | slice], StageWeights]:
    """What stages exchange whose weights are not gathered for each layer, of the rows of stages that are asked for.

    footprints: plans and their stages; works: seconds of one micro-batch, of every kind of stage there is; work: the
    row of every stage among them; packing: of the messages before they are spread over stages. Returns bytes and
    seconds of chosen rows, shape (chosen,). Source: `data_exchange`, `data_exchanges`.
    """
    inputs, weights, of_stage = footprints.inputs, footprints.pipelines.weights, footprints.pipelines.of_stage
    held, stage = footprints.held_parameters, weights.stages.stage
    in_half = held.trained if inputs.freezes_weights else held.ends
    exchange = data_exchange(weights.each, inputs, held.trained, stage, held.trained_experts, in_half, held.matrices)
    exchange = packing(exchange)
    forward, backward = map(column, works.with_host)
    reductions, plan = column(earlier_reductions(footprints.plans)), footprints.stages.plan

    def of_rows(chosen: IntColumn | slice) -> StageWeights:
        row, each = work[chosen], gathered(exchange, weights.of_stage.take(of_stage[chosen]))
        windows = forward.take(row), backward.take(row)
        return StageWeights("stage", 1, data_exchanges(each, inputs, *windows, reductions.take(plan[chosen])))

    return of_rows


def layer_by_layer(
    footprints: Footprints, units: UnitTimes, chosen: IntColumn, packing: Packing
) -> Iterator[StageWeights]:
    """What stages exchange whose weights are gathered: layers beside their passes, the ends before and after them.

    footprints: plans and their stages; units: seconds of the pieces of the model; chosen: rows of stages, shape
    (chosen,); packing: of the messages before they are spread over stages. Returns bytes and seconds. Source:
    `sharded_exchanges`, `end_exchanges`, `host_copies`.
    """
    inputs, plan, of_stage = footprints.inputs, footprints.stages.plan[chosen], footprints.pipelines.of_stage[chosen]
    rows, stages = of_rows(alone(footprints.plans), plan), footprints.pipelines.stages.some(of_stage)
    times = gathers_per_step(rows, inputs, stages.in_flight_micro_batches, stages.stage)
    of_ends = end_gathers(rows, inputs, stages.in_flight_micro_batches, stages.stage)
    # Parameters of the distinct stages, (k,), and messages of every chosen one.
    (own,), like = distinct_rows(of_stage)
    held = footprints.pipelines.stages.apart(own)
    plans = of_rows(footprints.pipelines.each, footprints.pipelines.stages.plan.take(own))
    ends = _ends(plans, held, inputs)
    layers = [_Piece(*gathered_layer_parameters(plans, inputs, kind)) for kind in inputs.model.layer_kinds]
    if inputs.freezes_weights:
        adapters = (gathered_adapter_parameters(plans, inputs, kind) for kind in inputs.model.layer_kinds)
        layers = [layer._replace(adapters=count) for layer, count in zip(layers, adapters, strict=True)]
    pieces = [*(_Piece(each, ends=each) for each in ends.values()), *layers]
    messages = _messages(plans, inputs, pieces, like, len(own), packing)
    # What may hide them, and the exchanges.
    shape, unsharded = footprints.shapes.of_plan[plan], unsharded_share(rows, inputs)
    passes = [_passes(unit, shape) for unit in units.layers]
    around = {
        "embedding": Windows(backward=passes[0][1]),
        "head": Windows(forward=passes[-1][0], scatter=passes[-1][1]),
    }
    for name, parameters in ends.items():
        often, windows = times if name == "embedding" else of_ends, around.get(name, NOTHING)
        whole = parameters[like]
        reduced = whole * (not inputs.freezes_weights)
        owned = spread(_Piece(parameters).owned(plans), like)
        exchanges = end_exchanges(inputs, next(messages), whole, reduced, often, windows)
        copies = host_copies(rows, inputs, owned, often, windows)
        yield StageWeights(name, 1, (*exchanges, *copies))
    for index, (kind, layer) in enumerate(zip(inputs.model.layer_kinds, layers, strict=True)):
        counts = spread(layer.dense + layer.experts, like), spread(layer.reduced(inputs), like)
        exchanges = sharded_exchanges(inputs, next(messages), *counts, *passes[index], unsharded, times)
        (forward, backward), owned = passes[index], spread(layer.owned(plans), like)
        copies = host_copies(rows, inputs, owned, times, Windows(forward, backward, backward), unsharded)
        yield StageWeights(kind.name, stages.layers[:, index], (*exchanges, *copies))


def _ends(plans: Layout, stages: Stages, inputs: Inputs) -> dict[str, FloatColumn]:
    """Parameters of embedding, final norm and head, together or apart, and of positions that are left to the root unit,
    of every stage, shape (k,).
    """
    ends = gathered_end_parameters(plans, inputs)
    root, first = (stages.embedding * spread(each, stages.plan) for each in (ends.root, ends.embedding))
    last = stages.head * spread(ends.head + prediction_parameters(plans, inputs), stages.plan)
    positions = {"positions": root} if root.any() else {}
    if inputs.gathers_ends_apart:
        return positions | {"embedding": first, "head": last}
    parted, _ = parted_embedding(plans, stages, inputs)
    return positions | {"ends": first + last + parted}


def _messages(
    plans: Layout, inputs: Inputs, pieces: list[_Piece], like: IntColumn, count: int, packing: Packing
) -> Iterator[ShardMessages]:
    """Of some pieces of the model, asked at once; like: of every row its stage, of `count` distinct ones."""
    parts = (np.concatenate([filled(part, count) for part in parts]) for parts in zip(*pieces, strict=True))
    messages = packing(shard_messages(of_rows(plans, np.tile(np.arange(count), len(pieces))), inputs, *parts))
    return (gathered(messages, like + place * count) for place in range(len(pieces)))


def _passes(unit: UnitTime, shape: IntColumn) -> tuple[Floats, Floats]:
    """Seconds of a layer's forward and backward for one micro-batch, of every row; shape: of its micro-batch."""
    forward, backward = unit.with_host
    return spread(forward, shape), spread(backward, shape)

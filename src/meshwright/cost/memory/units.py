"""Units: the parameters that are gathered and reduced together, whole and as the fullest rank stores them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, Floats, IntColumn, Ints
from meshwright.cost.memory.parameters import (
    EndParameters,
    end_parameters,
    expert_parameters,
    layer_parameters,
    prediction_parameters,
    sharded_end_parameters,
    sharded_expert_parameters,
    sharded_layer_parameters,
    splits_experts,
)
from meshwright.layout.groups import expert_sharding_ranks, sharding_ranks
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages
from meshwright.specs.inputs import Inputs


class Units(NamedTuple):
    """Parameters on one rank of every stage; counts, shape (r,)."""

    all: FloatColumn
    layer: FloatColumn
    """Of the largest layer that the stage holds."""
    last_chunk: FloatColumn
    """Of the layers of the chunk that works backward first."""
    embedding: FloatColumn
    head: FloatColumn
    """Final norm and head."""
    split_experts: FloatColumn
    """Of the largest layer's routed experts, those that are divided by rows, not dealt out whole."""

    def of_chunks(self, count: Floats, chunks: IntColumn) -> FloatColumn:
        """Of the layers of some chunks, the last one first, of which the others are taken as alike; shape (r,)."""
        others = (self.all - self.ends - self.last_chunk) / np.maximum(chunks - 1, 1)
        held: FloatColumn = np.clip(count, 0, 1) * self.last_chunk + np.maximum(count - 1, 0) * others
        return held

    @property
    def ends(self) -> FloatColumn:
        """Of both ends, counts, shape (r,)."""
        return self.embedding + self.head


def stage_units(plans: Plans, stages: Stages, inputs: Inputs) -> tuple[Units, Units]:
    """The units of every stage, whole and as the fullest rank stores them.

    Routed experts are divided over the ranks that hold the same ones, all else over the sharding group; nothing is
    where a plan shards no weights. stages: of the plans, shape (r,). Returns counts, shape (r,).
    """
    shards = np.where(plans.zero > 1, sharding_ranks(plans), 1)
    holders = np.where(plans.zero > 1, expert_sharding_ranks(plans), 1)
    kinds, predicted = inputs.model.layer_kinds, prediction_parameters(plans, inputs)
    whole = [layer_parameters(plans, inputs, kind) + expert_parameters(plans, inputs, kind) for kind in kinds]
    stored = [
        sharded_layer_parameters(plans, inputs, kind, shards) + sharded_expert_parameters(plans, inputs, kind, holders)
        for kind in kinds
    ]
    split = [
        expert_parameters(plans, inputs, kind) * splits_experts(plans, inputs, kind, holders) * 1.0 for kind in kinds
    ]
    return (
        _units(stages, whole, end_parameters(plans, inputs), predicted, split),
        _units(stages, stored, sharded_end_parameters(plans, inputs, shards), predicted / shards, split),
    )


def _units(stages: Stages, layers: list[Ints], ends: EndParameters, predicted: Ints, split: list[Ints]) -> Units:
    plan = stages.plan
    embedding: FloatColumn = stages.embedding * ends.embedding[plan] * 1.0
    head: FloatColumn = stages.head * (ends.head + predicted)[plan] * 1.0
    every = embedding + head
    largest, last_chunk, by_rows = np.zeros((3, len(plan)))
    for kind, count in enumerate(layers):
        every = every + stages.layers[:, kind] * count[plan]
        largest = np.maximum(largest, (stages.layers[:, kind] > 0) * count[plan])
        last_chunk = last_chunk + stages.last_chunk_layers[:, kind] * count[plan]
        by_rows = np.maximum(by_rows, (stages.layers[:, kind] > 0) * split[kind][plan])
    return Units(all=every, layer=largest, last_chunk=last_chunk, embedding=embedding, head=head, split_experts=by_rows)

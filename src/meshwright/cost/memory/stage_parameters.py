"""Parameters of every stage: on one rank, and by the units that are gathered and reduced together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, Floats, IntColumn, Ints, Numbers, column, larger, where
from meshwright.cost.memory.adapter_parameters import adapter_parameters
from meshwright.cost.memory.parameters import (
    EndParameters,
    end_parameters,
    expert_parameters,
    layer_parameters,
    parted_embedding_parameters,
    prediction_parameters,
    product_parameters,
    sharded_end_parameters,
    sharded_expert_parameters,
    sharded_layer_parameters,
    splits_experts,
)
from meshwright.cost.shard import dense_block
from meshwright.distinct import spread
from meshwright.layout.groups import expert_sharding_ranks, sharding_ranks
from meshwright.layout.plans import Layout
from meshwright.layout.stages import Stages
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.packed import packed_parameters


class StageParameters(NamedTuple):
    """Parameters on one rank of every stage, before data parallelism; counts, shape (r,)."""

    dense: FloatColumn
    """Everything that all ranks of the data-parallel group hold."""
    experts: FloatColumn
    """Routed experts, which fewer ranks hold alike."""
    ends: FloatColumn
    """Of the dense ones, those of embedding, final norm and head."""
    matrices: IntColumn
    """Weights of linear layers, embedding and head that the dense ones are."""
    embedding: FloatColumn
    """Of the ends, those of the embedding."""
    head: FloatColumn
    """And those of the head."""
    trained: FloatColumn
    """Of the dense ones, those that the optimizer updates: all, or those of adapters."""
    trained_experts: FloatColumn
    """Of the routed experts likewise: all, or none beside adapters."""


def stage_parameters(plans: Layout, stages: Stages, inputs: Inputs) -> StageParameters:
    """Parameters on one rank of every stage, shape (r,).

    stages: of the plans. Returns counts. Source: `layer_parameters`, `expert_parameters`, `end_parameters`.

    >>> from meshwright.cost.shapes import pipelines_of
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.layout.plans import Plans
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> pipelines, _ = pipelines_of(Plans.of([Plan(pp=2)]), LLAMA, keep_all_stages=True)
    >>> counts = stage_parameters(pipelines.plans, pipelines.stages, LLAMA)
    >>> round(float(counts.dense.sum()) / 1e9, 2)  # billion, of both stages
    8.03
    """
    counts, kinds = (*end_parameters(plans, inputs), prediction_parameters(plans, inputs)), inputs.model.layer_kinds
    embedding, head, predicted = (spread(count, stages.plan) for count in counts)
    first: FloatColumn = stages.embedding * embedding
    last: FloatColumn = stages.head * head
    ends = first + (last + stages.head * predicted)
    dense = _sum(stages.layers, (layer_parameters(plans, inputs, kind) for kind in kinds), stages, ends)
    experts = 0 * ends
    if inputs.model.is_moe:
        experts = _sum(stages.layers, (expert_parameters(plans, inputs, kind) for kind in kinds), stages, experts)
    matrices = stages.layers @ np.array([_layer_matrices(inputs, kind) for kind in kinds])
    matrices = matrices + stages.embedding + (0 if inputs.model.tied_embeddings else stages.head)
    return StageParameters(
        dense=dense,
        experts=experts,
        ends=ends,
        matrices=matrices,
        embedding=first,
        head=last,
        trained=stage_adapters(plans, stages, inputs, 1) if inputs.freezes_weights else dense,
        trained_experts=experts * (not inputs.freezes_weights),
    )


def stage_adapters(plans: Layout, stages: Stages, inputs: Inputs, ranks: Ints) -> FloatColumn:
    """Parameters of the adapters of every stage on the fullest of the ranks that divide them, shape (r,).

    stages: of the plans; ranks: counts, scalar or shape (n,). Returns counts. Source: `adapter_parameters`.

    >>> from meshwright.cost.shapes import pipelines_of
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.layout.plans import Plans
    >>> from meshwright.specs.reading.examples import LLAMA_LORA
    >>> pipelines, _ = pipelines_of(Plans.of([Plan()]), LLAMA_LORA, keep_all_stages=True)
    >>> float(stage_adapters(pipelines.plans, pipelines.stages, LLAMA_LORA, 1).sum())
    41943040.0
    """
    counts = (adapter_parameters(plans, inputs, kind, ranks) for kind in inputs.model.layer_kinds)
    return _sum(stages.layers, counts, stages, np.zeros(len(stages.plan)))


def _layer_matrices(inputs: Inputs, kind: LayerKind) -> int:
    """Queries, keys and values together or apart, the output's; up, gate and down of a dense or shared block."""
    block, latent = dense_block(kind), kind.attention.latent
    into = 1 if inputs.fuses_qkv(kind.attention) else 3
    if latent is not None:
        into = 2 + 2 * (latent.query_rank is not None)
    gate = bool(block and block.gated and not inputs.runtime.kernels.fused_gate)
    return into + 1 + (2 + gate if block else 0)


class Units(NamedTuple):
    """Parameters on one rank of every stage; counts, shape (r,)."""

    all: FloatColumn
    adapters: FloatColumn
    """Of these, those of adapters beside frozen weights."""
    layer: FloatColumn
    """Of the largest layer that the stage holds."""
    last_chunk: FloatColumn
    """Of the layers of the chunk that works backward first."""
    first_chunk: FloatColumn
    """Of those of the chunk that works backward last."""
    chunk_between: FloatColumn
    """Of those of a chunk between the two, all of which are taken as alike."""
    embedding: FloatColumn
    head: FloatColumn
    """Final norm and head."""
    split_experts: FloatColumn
    """Of the largest layer's routed experts, those that are divided by rows, not dealt out whole."""
    product: FloatColumn
    """Of one layer's last product."""
    packed: FloatColumn
    """Weights that are stored in 4 bits, four of which are one of the others; every rank holds the scales of all."""

    def of_chunks(self, count: Floats, chunks: IntColumn) -> FloatColumn:
        """Of the layers of some chunks, the last one first. count: of chunks that a rank has, `chunks`. Returns counts,
        shape (r,).
        """
        between = _within(count - 1, np.maximum(chunks - 2, 0)) * self.chunk_between
        layers = _within(count, 1) * self.last_chunk + between
        layers = layers + _within(count - chunks + 1, 1) * (chunks > 1) * self.first_chunk
        return column(layers)

    def largest_chunk(self, chunks: IntColumn) -> FloatColumn:
        """Of the layers of the largest chunk, likewise."""
        several = np.maximum(self.last_chunk, np.maximum(self.first_chunk, self.chunk_between))
        largest: FloatColumn = np.where(chunks > 1, several, self.all - self.ends)
        return largest

    def trained(self, inputs: Inputs) -> FloatColumn:
        """Those that the optimizer updates, counts, shape (r,): all, or those of adapters."""
        return self.adapters if inputs.freezes_weights else self.all

    @property
    def ends(self) -> FloatColumn:
        """Of both ends, counts, shape (r,)."""
        return self.embedding + self.head


def _within(count: Floats, most: Ints) -> Floats:
    """A count from 0 to the most; `np.clip` takes three times as long for few rows."""
    return np.minimum(np.maximum(count, 0), most)


def stage_units(plans: Layout, stages: Stages, inputs: Inputs) -> tuple[Units, Units]:
    """The units of every stage, whole and as the fullest rank stores them.

    Routed experts are divided over the ranks that hold the same ones, all else over the sharding group; nothing is
    where a plan shards no weights. What is gathered of experts that the ranks do not divide evenly is padded.
    stages: of the plans, shape (r,). Returns counts, shape (r,). Source: `sharded_layer_parameters`,
    `sharded_expert_parameters`.
    """
    shards = where(plans.zero > 1, sharding_ranks(plans), 1)
    holders = where(plans.zero > 1, expert_sharding_ranks(plans), 1)
    kinds, predicted = inputs.model.layer_kinds, prediction_parameters(plans, inputs)
    experts = [sharded_expert_parameters(plans, inputs, kind, holders) for kind in kinds]
    dense = [sharded_layer_parameters(plans, inputs, kind, shards) for kind in kinds]
    stored = [rest + routed for rest, routed in zip(dense, experts, strict=True)]
    whole: list[Floats] = [
        1.0 * layer_parameters(plans, inputs, kind) + holders * routed
        for kind, routed in zip(kinds, experts, strict=True)
    ]
    split = [
        expert_parameters(plans, inputs, kind) * splits_experts(plans, inputs, kind, holders) * 1.0 for kind in kinds
    ]
    product = largest_layer(stages, [product_parameters(plans, inputs, kind) for kind in kinds])
    chunks = spread(plans.vpp, stages.plan)
    units = _units(stages, chunks, stored, sharded_end_parameters(plans, inputs, shards), predicted / shards, split)
    if inputs.freezes_weights:
        packed = stages.layers @ np.array([1.0 * packed_parameters(inputs.model, kind) for kind in kinds])
        adapters = stage_adapters(plans, stages, inputs, shards)
        units = units._replace(adapters=adapters, packed=packed * inputs.packs_weights)
    gathered = _units(stages, chunks, whole, _gathered_ends(plans, inputs), 1.0 * predicted, split)
    return gathered._replace(product=product), units


def _gathered_ends(plans: Layout, inputs: Inputs) -> EndParameters:
    """The ends as a rank gathers them: its share of the vocabulary, or all of it."""
    ends = end_parameters(plans, inputs)
    if not inputs.runtime.sharding.gathers_whole_ends:
        return ends
    return EndParameters(*(plans.tp * each for each in ends))


def parted_embedding(plans: Layout, stages: Stages, inputs: Inputs) -> tuple[FloatColumn, FloatColumn]:
    """`parted_embedding_parameters` of every stage with both ends, whole and as the fullest rank stores them.

    stages: of the plans, shape (r,). Returns counts, shape (r,).
    """
    shards = where(plans.zero > 1, sharding_ranks(plans), 1)
    both = stages.embedding & stages.head
    whole, stored = (both * spread(parted_embedding_parameters(plans, inputs, n), stages.plan) for n in (1, shards))
    return whole, stored


def _units(
    stages: Stages,
    chunks: Ints,
    layers: list[Floats],
    ends: EndParameters,
    predicted: Floats,
    split: list[Floats],
) -> Units:
    embedding: FloatColumn = stages.embedding * spread(ends.embedding, stages.plan)
    head: FloatColumn = stages.head * spread(ends.head + predicted, stages.plan)
    every = _sum(stages.layers, layers, stages, embedding + head)
    last, first = (
        _sum(of_chunk, layers, stages, 0 * head) for of_chunk in (stages.last_chunk_layers, stages.first_chunk_layers)
    )
    return Units(
        all=every,
        adapters=0 * embedding,
        layer=largest_layer(stages, layers),
        last_chunk=last,
        first_chunk=first,
        chunk_between=(every - (embedding + head) - last - first) / larger(chunks - 2, 1),
        embedding=embedding,
        head=head,
        split_experts=largest_layer(stages, split),
        product=0 * embedding,
        packed=0 * embedding,
    )


def _sum(layers: IntColumn, counts: Iterable[Numbers], stages: Stages, ends: FloatColumn) -> FloatColumn:
    """The ends and all layers of every stage; layers: of each kind, shape (r, kinds); counts: of one of each, (n,)."""
    whole = ends
    for kind, count in enumerate(counts):
        whole = whole + layers[:, kind] * spread(1.0 * count, stages.plan)
    return whole


def largest_layer(stages: Stages, counts: Iterable[Numbers]) -> FloatColumn:
    """The most that one layer of every stage has, of the kinds that the stage holds.

    counts: of one layer of each kind, shape (n,). Returns counts, shape (r,). Source: by definition.
    """
    largest: FloatColumn = np.zeros(len(stages.plan))
    for kind, count in enumerate(counts):
        largest = np.maximum(largest, (stages.layers[:, kind] > 0) * spread(1.0 * count, stages.plan))
    return largest

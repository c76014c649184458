"""Splits: how many layers each pipeline chunk holds, as every runtime divides them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Mlp, Model
from meshwright.specs.weights import Weight, embedding_weights, head_weights, layer_weights


class PipelineSplit(NamedTuple):
    """What decides the layers of every chunk beside the model: fields of a plan."""

    pp: int
    vpp: int
    embedding_as_layer: bool = False
    head_as_layer: bool = False
    first_stage_layers: int = 0
    last_stage_layers: int = 0
    chunk_layers: tuple[int, ...] = ()


RUNTIME_SPLIT = PipelineSplit._field_defaults
"""The fields of a plan that leaves its layers to the runtime."""


def layers_of_chunks(inputs: Inputs, pipeline: Plan | PipelineSplit) -> IntColumn:
    """Layers of every chunk in the order of the model: what the plan spells out, else as the runtime splits.

    Where a plan names the layers of the first or the last rank, the ranks between share the others alike, and every
    rank its own over its chunks (Megatron-LM, transformer_block.py, get_num_layers_to_build). For layers of multi-token
    prediction `outer_fewer` leaves room unless an end counts as a layer. Returns counts, shape (pp x vpp,).
    """
    return split_layers(inputs.model, inputs.runtime.pipeline.stage_split, inputs.mtp_layers, pipeline)


def split_layers(model: Model, rule: str, mtp_layers: int, pipeline: Plan | PipelineSplit) -> IntColumn:
    """The same of a model; rule: of the runtime; mtp_layers: of multi-token prediction, a count. Returns counts."""
    if pipeline.chunk_layers:
        return np.array(pipeline.chunk_layers)
    if pipeline.first_stage_layers or pipeline.last_stage_layers:
        return _between_ends(model.num_layers, pipeline)
    ends, chunks = (pipeline.embedding_as_layer, pipeline.head_as_layer), pipeline.pp * pipeline.vpp
    counted = model.num_layers + sum(ends)
    if rule in _WEIGHTS:
        split, weights_of = _WEIGHTS[rule]
        weights = weights_of(model)
        weights[[0, -1]] += ends
        return split(weights, np.array([0, *[1] * model.num_layers, 0]), chunks)
    if rule == "front":
        sizes = front(counted, chunks)
    elif rule == "back":
        sizes = back(counted, pipeline.pp, pipeline.vpp)
    else:
        sizes = outer_fewer(counted, chunks, 0 if any(ends) else mtp_layers)
    sizes[[0, -1]] -= ends
    return sizes


@lru_cache(maxsize=64)
def layers_before(model: Model) -> IntColumn:
    """Layers of each kind before every layer, and in all of them, shape (L + 1, kinds). Every pipeline asks for it."""
    kinds = np.zeros((model.num_layers + 1, len(model.layer_kinds)), dtype=np.int64)
    kinds[1 + np.arange(model.num_layers), list(model.layer_pattern)] = 1
    return kinds.cumsum(axis=0)


def layers_of_blocks(inputs: Inputs, pipeline: Plan | PipelineSplit) -> IntColumn:
    """Layers of each kind of every block of a pipeline, in the order of the model, shape (pp x vpp, kinds)."""
    before = layers_before(inputs.model)
    ends = np.cumsum(layers_of_chunks(inputs, pipeline))
    return np.diff(before[ends], axis=0, prepend=0)


def outer_fewer(layers: int, chunks: int, mtp_layers: int = 0) -> IntColumn:
    """Alike, or some one fewer: the ones too many are left out of the last chunk, the first, the last but one and so
    on, as the head makes the last stage slower, and activations in flight make the first one larger. A layer of
    multi-token prediction counts as two, itself and its head, as far as the last chunk can give them up: the layouts of
    DeepSeek-V3 over 4, 8, 16 and 32 chunks in Megatron-Bridge.

    layers: to split, those that stand for the ends included; chunks: at most as many; mtp_layers: of multi-token
    prediction; counts. Returns counts.

    >>> outer_fewer(61, 8).tolist(), outer_fewer(61, 8, mtp_layers=1).tolist()
    ([7, 8, 8, 8, 8, 8, 7, 7], [8, 8, 8, 8, 8, 8, 8, 5])
    """
    splits = ((_alike(layers + count, chunks), count) for count in range(2 * mtp_layers, -1, -1))
    sizes, counted = next((sizes, count) for sizes, count in splits if sizes[-1] >= count)
    sizes[-1] -= counted
    return sizes


def _alike(layers: int, chunks: int) -> IntColumn:
    most = -(-layers // chunks)
    forth, back = np.arange(chunks), np.arange(chunks)[::-1]
    outermost_first = np.lexsort((forth < back, np.minimum(forth, back)))
    sizes: IntColumn = np.full(chunks, most)
    sizes[outermost_first[: most * chunks - layers]] -= 1
    return sizes


def front(layers: int, chunks: int) -> IntColumn:
    """Alike, or the first ones one more (torchtitan, distributed/pipeline_parallel.py,
    generate_llm_fqn_per_model_part). layers: to split, the ends that count included; chunks: counts. Returns counts.

    >>> front(82, 8).tolist()
    [11, 11, 10, 10, 10, 10, 10, 10]
    """
    return layers // chunks + (np.arange(chunks) < layers % chunks)


def back(layers: int, stages: int, rounds: int) -> IntColumn:
    """Every round of chunks alike; in a round the last stages hold one more (InternEvo, partition_uniform).

    layers: a multiple of the rounds; stages: of one round; rounds: chunks a stage; counts. Returns counts.

    >>> back(62, 4, 2).tolist()
    [7, 8, 8, 8, 7, 8, 8, 8]
    """
    per_round = layers // rounds
    return np.tile(per_round // stages + (np.arange(stages) >= stages - per_round % stages), rounds)


def crossing(weights: FloatColumn, is_layer: IntColumn, chunks: int) -> IntColumn:
    """A chunk takes blocks until their weights cross its share of the whole (nanotron, models/base.py, build_model).

    weights: of every block in the order of the model; is_layer: 1 for layers, 0 for the ends; both shape (n,); chunks:
    count. Returns the layers of every chunk.
    """
    sums = np.cumsum(weights)
    shares, owner = sums[-1] * (np.arange(chunks) + 1) / chunks, np.zeros(len(weights), dtype=np.int64)
    for block in range(1, len(weights)):
        owner[block] = owner[block - 1] + (sums[block - 1] > shares[owner[block - 1]])
    return np.bincount(owner, is_layer, minlength=chunks).astype(np.int64)


def balanced(weights: FloatColumn, is_layer: IntColumn, chunks: int) -> IntColumn:
    """The split whose heaviest and lightest chunk differ least, chunk by chunk; of equal ones the last chunk is the
    smallest (DeepSpeed, runtime/utils.py, partition_balanced).

    weights, is_layer, chunks and what it returns: as in `crossing`.
    """
    count = len(weights)
    if count <= chunks:
        return np.bincount(np.arange(count), is_layer, minlength=chunks).astype(np.int64)
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    part = np.where(np.tri(count + 1, k=-1, dtype=bool), sums[:, None] - sums[None, :], np.inf)
    heaviest, lightest = np.full(count + 1, np.inf), np.full(count + 1, np.inf)
    heaviest[0] = 0.0
    cuts = []
    for _ in range(chunks):
        most, least = np.maximum(heaviest, part), np.minimum(lightest, part)
        spread = np.where(np.isinf(most), np.inf, most - np.where(np.isinf(most), 0.0, least))
        cut = count - np.argmin(spread[:, ::-1], axis=1)
        heaviest, lightest = most[np.arange(count + 1), cut], least[np.arange(count + 1), cut]
        cuts.append(cut)
    borders = [count]
    for cut in reversed(cuts):
        borders.append(int(cut[borders[-1]]))
    layers = np.concatenate([[0], np.cumsum(is_layer)])
    return np.diff(layers[borders[::-1]])


def _between_ends(layers: int, pipeline: Plan | PipelineSplit) -> IntColumn:
    first, last, stages = pipeline.first_stage_layers, pipeline.last_stage_layers, pipeline.pp
    between = max(stages - (first > 0) - (last > 0), 1)
    per_rank = np.full(stages, (layers - first - last) // between)
    per_rank[0], per_rank[-1] = first or per_rank[0], last or per_rank[-1]
    return np.tile(per_rank // pipeline.vpp, pipeline.vpp)


def _layers(model: Model) -> FloatColumn:
    """Every layer weighs 1, the ends nothing unless they count as layers."""
    return np.array([0.0, *[1.0] * model.num_layers, 0.0])


def _parameters(model: Model) -> FloatColumn:
    """Every block weighs what it has of parameters."""
    kinds = [_elements(layer_weights(model, kind)) for kind in model.layer_kinds]
    layers = [kinds[kind] for kind in model.layer_pattern]
    ends = _elements(embedding_weights(model)), _elements(head_weights(model))
    return np.array([ends[0], *layers, ends[1]], dtype=float)


def _matrix_products(model: Model) -> FloatColumn:
    """nanotron's get_block_compute_costs: square attention weights, a gated block, the head; nothing else."""
    hidden, layers = model.hidden_size, []
    for kind in (model.layer_kinds[index] for index in model.layer_pattern):
        block = kind.feed_forward
        width = block.ffn_size if isinstance(block, Mlp) else block.ffn_size * block.active
        layers.append(4.0 * hidden * hidden + 3.0 * width * hidden)
    return np.array([0.0, *layers, float(model.vocab_size * hidden)])


def _elements(weights: Sequence[Weight]) -> int:
    return sum(weight.elements for weight in weights)


_WEIGHTS = {
    "matrix_products": (crossing, _matrix_products),
    "balanced_layers": (balanced, _layers),
    "balanced_parameters": (balanced, _parameters),
}
"""How a split by weights cuts the blocks, and what every one of them weighs."""

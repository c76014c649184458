"""Dummy gradients: what autograd is handed where products add to whole gradients themselves."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import FloatColumn, Ints
from meshwright.cost.routing import routed_experts
from meshwright.cost.shard import vocabulary_rows
from meshwright.layout.plans import Layout, of_rows
from meshwright.layout.stages import Stages
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import HALF_BYTES
from meshwright.specs.weights import Weight

APART = ("norms", "router")
"""Parts whose gradients reach autograd as they are."""


def dummy_gradient_bytes(plans: Layout, stages: Stages, inputs: Inputs) -> FloatColumn:
    """One 2-byte tensor for every shape of a weight on a stage, whatever the number of its layers.

    2 (sum of the matrices of one layer of each kind, one expert of all, / t) + 2 (head / t) where the runtime's
    products add to whole gradients: autograd is handed a tensor of the weight's shape that nobody reads, and which is
    kept for the next weight of that shape; of frozen weights none, but of adapters. stages: of the plans, shape (r,).
    Returns bytes, shape (r,). Source: Megatron-LM, core/tensor_parallel/layers.py
    (LinearWithGradAccumulationAndAsyncCommunication.backward); TransformerEngine, module/base.py (get_dummy_wgrad).
    Against torch's max_memory_allocated of 8 B200 (SimuMax): 0.5 % on average for dense models, 2.2 % without.
    """
    rows = of_rows(plans, stages.plan)
    elements: FloatColumn = np.zeros(len(stages.plan))
    fused = inputs.runtime.kernels.gradient_accumulation == "fused"
    if not (inputs.runtime.storage.dummy_gradients and fused):
        return elements
    kinds: dict[tuple[str, int], tuple[Weight, list[int]]] = {}
    for index, kind in enumerate(inputs.model.layer_kinds):
        for weight in _matrices(inputs, kind):
            kinds.setdefault((weight.name, weight.elements), (weight, []))[1].append(index)
    # Of the weights that the same kinds of layers have, together.
    sizes: dict[tuple[int, ...], Ints] = {}
    for weight, indices in kinds.values():
        own = _one(weight, inputs, indices[0]) // _ranks(weight, rows)
        sizes[tuple(indices)] = sizes.get(tuple(indices), 0) + own
    for held, size in sizes.items():
        elements = elements + (stages.layers[:, [*held]] > 0).any(axis=1) * size
    trains_head = not inputs.freezes_weights
    head = trains_head * stages.head * vocabulary_rows(rows, inputs).head * inputs.model.hidden_size
    return HALF_BYTES * (elements + head)


def _matrices(inputs: Inputs, kind: LayerKind) -> list[Weight]:
    """Weights of a layer that have gradients and are no vectors."""
    weights = inputs.layer_weights(kind)
    trained = [weight for weight in weights if weight.part == "adapters"] if inputs.freezes_weights else weights
    return [weight for weight in trained if weight.rows is not None and weight.part not in APART]


def _one(weight: Weight, inputs: Inputs, kind: int) -> int:
    """Elements of a weight; of routed experts those of one."""
    if weight.part != "experts":
        return weight.elements
    return weight.elements // routed_experts(inputs.model.layer_kinds[kind]).count


def _ranks(weight: Weight, rows: Layout) -> Ints:
    """Ranks that a weight is divided among."""
    return rows.etp if weight.part == "experts" else rows.tp if weight.split != "none" else 1

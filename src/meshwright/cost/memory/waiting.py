"""What a layer keeps when its input gradient is done and its weight gradients are put off."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats
from meshwright.cost.compute.experts import expert_shard
from meshwright.cost.compute.products import Linear
from meshwright.cost.compute.projections import projections
from meshwright.cost.element import HALF_BYTES
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.shard import layer_shard
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


def waiting_bytes(plan: Layout, inputs: Inputs, kind: LayerKind) -> Floats:
    """Bytes of one layer and micro-batch until its weight gradients are computed: of every linear layer its input and
    the gradient of its output, 2 bytes an element.

    A GPT layer on one rank keeps 32 s b h. plan: scalar or array (n,). Returns bytes. Source: Qi et al.,
    arXiv:2401.10241, section 3.1 (M_W); sail-sg/zero-bubble-pipeline-parallelism@47c2c7a00a15,
    megatron/core/weight_grad_store.py (put).
    """
    linears = projections(inputs, kind, layer_shard(plan, inputs, kind))
    every = (*linears.down, *linears.attention, linears.output, *linears.feed_forward)
    kept = sum(_elements(each) for each in every)
    if kind.is_moe:
        shard, hidden = expert_shard(plan, inputs, kind), inputs.model.hidden_size
        kept = kept + shard.rows * (2 * hidden + shard.width + shard.ffn)
    return 1.0 * HALF_BYTES * kept


def waiting_share(plan: Layout, inputs: Inputs) -> Floats:
    """What the layers of the model keep for their weight gradients over what they save after forward, at most 1.

    plan: scalar or array (n,). Returns a share. Source: `waiting_bytes`, `layer_memory`.
    """
    kinds = [*zip(inputs.layers_per_kind, inputs.model.layer_kinds, strict=True)]
    waiting = sum(layers * waiting_bytes(plan, inputs, kind) for layers, kind in kinds)
    saved = sum(layers * layer_memory(plan, inputs, kind).saved for layers, kind in kinds)
    return np.minimum(waiting / saved, 1.0)


def _elements(linear: Linear) -> Floats:
    return linear.rows * (linear.features + linear.outputs)

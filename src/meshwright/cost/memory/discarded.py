"""Discarded: saved tensors that selective recomputation does not keep."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.cost.compute.experts import expert_shard
from meshwright.cost.memory.saved import Saved, expanded_bytes, norm_outputs, product_bytes
from meshwright.cost.repeated import repeated_parts
from meshwright.cost.shard import Shard
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


def discarded_bytes(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard, saved: Saved) -> Floats:
    """Saved bytes of one layer that selective recomputation leaves to backward.

    core_attn: the core's own. layernorm: outputs of norms that are kernels of their own. mla_up_proj: queries, keys,
    values and the normed compressed widths, of which those before their norms stay. moe_act: the routed rows' product.
    mlp and shared_experts: gate, up and product, and what feeds them but the block's input, which in a dense layer is
    the norm's; moe: those of the shared expert, and everything of the router and the routed rows.
    shard: sizes on the rank; saved: everything that the layer keeps, bytes; plan: scalar or array (n,). Returns bytes.
    Source: Megatron-LM, transformer_config.py `recompute_modules`; tensor_parallel/random.py CheckpointWithoutOutput.
    """
    repeated, outputs = repeated_parts(plan, kind), norm_outputs(inputs, kind, shard)
    product = 0.0
    if kind.is_moe:
        experts = expert_shard(plan, inputs, kind)
        product = experts.rows * experts.ffn * product_bytes(inputs, kind.feed_forward.gated)
    return (
        _where(repeated.core, saved.core)
        + _where(repeated.expansion, expanded_bytes(inputs, kind, shard))
        + _where(repeated.attention_norm, outputs.attention)
        + _where(repeated.block_norm + repeated.block, outputs.block)
        + _where(repeated.block_norm, outputs.router)
        + _where(repeated.block, saved.feed_forward)
        + np.where(np.greater(repeated.experts, 0), saved.experts, _where(repeated.activation, product))
    )


def _where(times: Ints, size: Floats) -> Floats:
    """A size where something is computed again once or more, else nothing."""
    return np.where(np.greater(times, 0), size, 0.0)

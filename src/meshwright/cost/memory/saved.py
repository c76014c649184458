"""Saved tensors: what the parts of one layer keep from forward to backward, for one micro-batch."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Floats
from meshwright.cost.compute.experts import expert_shard
from meshwright.cost.element import FP32_BYTES, HALF_BYTES
from meshwright.cost.expert_rows import routed_experts
from meshwright.cost.shard import Shard, dense_block
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind

DROPOUT_MASKS = 2
ROUTER_BYTES = 2 * FP32_BYTES + 1
"""Per token and expert: logits and scores in fp32, and the map of who goes where."""
CHOICE_BYTES = FP32_BYTES + 8
"""Per token and chosen expert: its weight and its index."""


class Saved(NamedTuple):
    """Bytes of one layer, by part; each scalar or array (n,)."""

    norms: Floats
    """Inputs and outputs of the layer's norms."""
    attention: Floats
    """Projections of latent attention, queries, keys, values and the core's output."""
    core: Floats
    """What only the attention core keeps."""
    feed_forward: Floats
    """Of the dense or shared block."""
    experts: Floats


def norm_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Inputs and outputs of the norms, dropout masks, and what else the runtime's norms and rotary positions keep.

    An output is the next product's input: whole where the runtime keeps it gathered, in the recipe's format; a router
    reads it in 2 bytes beside that. shard: sizes on the rank. Returns bytes. Source: `layer_memory`.
    """
    hidden, runtime, recipe = inputs.model.hidden_size, inputs.runtime, inputs.recipe
    fed = shard.residual_tokens if runtime.regathers_inputs else shard.tokens
    read = (1 if kind.parallel_residual else kind.norms) * shard.residual_tokens
    kept = hidden * (HALF_BYTES * read + recipe.saved_bytes * (min(kind.norms, 2) - kind.is_moe) * fed)
    if kind.is_moe:
        shared = recipe.saved_bytes * fed if recipe.quantises and dense_block(kind) else 0.0
        kept = kept + hidden * (HALF_BYTES * shard.residual_tokens + shared)
    if runtime.dropout:
        kept = kept + DROPOUT_MASKS * hidden * shard.residual_tokens
    if inputs.model.norm == "rms":
        kept = kept + runtime.traffic.rms_norm_kept * hidden * kind.norms * shard.residual_tokens
    return kept + (_statistic_bytes(inputs, kind, shard) if runtime.keeps_statistics else 0.0)


def attention_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Queries, keys, values and the core's output, and in latent attention the compressed widths around their norms.

    shard: sizes on the rank. Returns bytes. Source: `layer_memory`; Megatron-LM, multi_latent_attention.py.
    """
    recipe, latent = inputs.recipe, kind.attention.latent
    width = shard.query + shard.key + shard.value + shard.core
    if kind.attention.qk_norm != "none":
        width = width + shard.query + shard.key
    kept = HALF_BYTES * shard.tokens * width
    if recipe.quantises:
        kept = kept + recipe.saved_bytes * shard.tokens * shard.core
    if latent is None:
        return 1.0 * kept
    compressed = (latent.query_rank or 0) + latent.kv_rank
    before = HALF_BYTES * (compressed + latent.rope_head_dim)
    return kept + shard.residual_tokens * (before + recipe.saved_bytes * compressed)


def core_bytes(inputs: Inputs, shard: Shard) -> Floats:
    """What only the attention core keeps: 4 bytes of log-sum-exp per head, or the scores.

    shard: sizes on the rank. Returns bytes.
    """
    if inputs.runtime.attention_kernel != "eager":
        return 1.0 * FP32_BYTES * shard.tokens * shard.heads
    scores = 1.0 * shard.tokens * shard.heads * inputs.job.sequence_length
    return scores * inputs.runtime.score_bytes


def feed_forward_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Gate and up, and the product that is the down layer's input, of the dense or shared block.

    shard: sizes on the rank. Returns bytes. Source: `layer_memory`.
    """
    block = dense_block(kind)
    if block is None:
        return 0.0 * shard.tokens
    return 1.0 * shard.tokens * shard.ffn * _inner_bytes(inputs, block.gated)


def expert_bytes(plan: Layout, inputs: Inputs, kind: LayerKind) -> Floats:
    """The router's scores and choices, and of every routed row its input, gate and up, and product.

    plan: scalar or array (n,). Returns bytes; 0 for a dense layer. Source: Megatron-LM, core/transformer/moe,
    router.py and experts.py (the chosen experts' weights are applied inside the activation: no output is kept).
    """
    if not kind.is_moe:
        return 0.0 * plan.tp
    block, shard = routed_experts(kind), expert_shard(plan, inputs, kind)
    router = shard.tokens * (ROUTER_BYTES * block.count + CHOICE_BYTES * block.active)
    row = inputs.recipe.saved_bytes * inputs.model.hidden_size + _inner_bytes(inputs, block.gated) * shard.ffn
    return router + shard.rows * row


def _inner_bytes(inputs: Inputs, gated: bool) -> float:
    """Per element of the FFN: gate and up, what an unfused activation keeps, and the product."""
    unfused = gated and not inputs.runtime.fused_activation
    return HALF_BYTES * ((2 if gated else 1) + unfused) + inputs.recipe.saved_bytes


def _statistic_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Reciprocal deviations of the norms, and the rotary tables of one sequence."""
    tables = 0 if inputs.model.learned_positions else inputs.job.sequence_length * kind.attention.head_dim
    return 1.0 * FP32_BYTES * (kind.norms * shard.residual_tokens + tables)

"""The linear layers of one transformer layer on one rank."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.cost.compute.products import Linear
from meshwright.cost.shard import Shard, dense_block
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


class Projections(NamedTuple):
    """The linear layers that every token passes through."""

    down: tuple[Linear, ...]
    """Of latent attention, from the hidden size to the compressed widths; whole on every rank."""
    attention: tuple[Linear, ...]
    """Into the attention core, column-parallel."""
    output: Linear
    """Out of it, row-parallel."""
    feed_forward: tuple[Linear, ...]
    """Of the dense or shared block: up (with the gate), and down; none where there is no such block."""


def projections(inputs: Inputs, kind: LayerKind, shard: Shard) -> Projections:
    """The linear layers of one layer of a kind.

    Ordinary attention projects queries, keys and values in one product. Latent attention compresses to r_q and
    r_kv + d_rope elements a token (where queries are compressed) and expands to a d_qk and a (d_nope + d_v).
    shard: sizes on the rank. Returns elements. Source: DeepSeek-V2, arXiv:2405.04434, section 2.1; Megatron-LM,
    core/transformer/multi_latent_attention.py (down projections are not divided by t, their rows are by sp).
    """
    hidden, block = inputs.model.hidden_size, dense_block(kind)
    output = Linear(shard.tokens, hidden, shard.core)
    down, attention = _into_attention(hidden, kind, shard)
    if block is None:
        return Projections(down=down, attention=attention, output=output, feed_forward=())
    width = (2 if block.gated else 1) * shard.ffn
    return Projections(
        down=down,
        attention=attention,
        output=output,
        feed_forward=(Linear(shard.tokens, width, hidden), Linear(shard.tokens, hidden, shard.ffn)),
    )


def _into_attention(hidden: int, kind: LayerKind, shard: Shard) -> tuple[tuple[Linear, ...], tuple[Linear, ...]]:
    latent, rows = kind.attention.latent, shard.tokens
    if latent is None:
        return (), (Linear(rows, shard.qkv, hidden),)
    compressed = latent.kv_rank + latent.rope_head_dim
    expanded = shard.key - shard.heads * latent.rope_head_dim + shard.value
    down: tuple[Linear, ...] = (Linear(shard.residual_tokens, compressed, hidden),)
    keys = Linear(rows, expanded, latent.kv_rank)
    if latent.query_rank is None:
        return down, (Linear(rows, shard.query, hidden), keys)
    down = (Linear(shard.residual_tokens, latent.query_rank, hidden), *down)
    return down, (Linear(rows, shard.query, latent.query_rank), keys)

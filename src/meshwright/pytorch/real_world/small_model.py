"""The small model: the kinds of layers of a model at sizes that train in a second."""

from __future__ import annotations

from collections import Counter
from typing import Any

from meshwright.specs.model import Attention, Experts, LayerKind, Mlp, Model

HIDDEN, FFN, VOCABULARY, POSITIONS, WINDOW = 64, 128, 256, 64, 16
EXPERTS, ACTIVE = 4, 2


def small_model(model: Model, layers: int, tp: int) -> Model:
    """The model with that many layers, each of its kinds among them, in their order and alike but for their sizes.

    layers: a count, no fewer than kinds; tp: the ranks that query, key and value heads divide by.
    """
    return model.replace(
        name=f"{model.name}, shrunken",
        hidden_size=HIDDEN,
        vocab_size=VOCABULARY,
        layer_kinds=tuple(_small_kind(kind, tp) for kind in model.layer_kinds),
        layer_pattern=_pattern(model.layer_pattern, layers),
        learned_positions=POSITIONS if model.learned_positions else 0,
        mtp_layers=0,
    )


def _pattern(pattern: tuple[int, ...], layers: int) -> tuple[int, ...]:
    """One layer of every kind, in the order in which kinds begin; the others are of the most frequent kind."""
    kinds = list(dict.fromkeys(pattern))
    usual = Counter(pattern).most_common(1)[0][0]
    place = kinds.index(usual)
    return (*kinds[:place], *(usual,) * (layers - len(kinds) + 1), *kinds[place + 1 :])


def _small_kind(kind: LayerKind, tp: int) -> LayerKind:
    block = kind.feed_forward
    small = block.replace(ffn_size=FFN) if isinstance(block, Mlp) else _small_experts(block)
    return kind.replace(attention=_small_attention(kind.attention, tp), feed_forward=small)


def _small_experts(block: Experts) -> Experts:
    return block.replace(
        count=EXPERTS,
        active=min(block.active, ACTIVE),
        groups=1,
        active_groups=1,
        ffn_size=FFN,
        shared_ffn_size=FFN if block.shared_ffn_size else 0,
    )


def _small_attention(shape: Attention, tp: int) -> Attention:
    heads = max(4, 2 * tp)
    width = HIDDEN // heads
    sizes: dict[str, Any] = {
        "heads": heads,
        "kv_heads": heads if shape.kv_heads == shape.heads else heads // 2,
        "head_dim": width,
        "value_head_dim": width,
        "window": WINDOW if shape.window else None,
    }
    if shape.latent:
        rank = HIDDEN // 2 if shape.latent.query_rank else None
        sizes["latent"] = shape.latent.replace(query_rank=rank, kv_rank=HIDDEN // 2, rope_head_dim=width // 2)
    return shape.replace(**sizes)

"""Weights: every weight tensor of a model, by part, its shape, and which dimension tensor parallelism splits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from meshwright.specs.model import Attention, Experts, LatentAttention, LayerKind, Mlp, Model

Part = Literal[
    "embedding",
    "positions",
    "attention",
    "mlp",
    "experts",
    "shared_experts",
    "router",
    "norms",
    "head",
    "prediction",
    "adapters",
]
Split = Literal["heads", "kv_heads", "ffn", "hidden", "vocab", "rank", "none"]


class Weight(NamedTuple):
    """One weight tensor (or several alike)."""

    part: Part
    name: str
    elements: int
    """Parameters in it, before any split."""
    split: Split = "none"
    """The dimension that tensor parallelism divides; `none`: every rank holds all of it."""
    active: int | None = None
    """Parameters that one token passes through; None: all."""
    tensors: int = 1
    """How many of one shape there are."""
    rows: int | None = None
    """First dimension of each; None: each is a vector."""
    split_rows: bool = True
    """Tensor parallelism divides the first dimension; else another one."""


@lru_cache(maxsize=512)
def layer_weights(model: Model, kind: LayerKind, fused_projections: bool = False) -> tuple[Weight, ...]:
    """The weights of one layer of a kind; fused: queries, keys and values have one weight. A pricing asks six times."""
    return (
        *_attention(model.hidden_size, kind.attention, fused_projections),
        *_feed_forward(model.hidden_size, kind.feed_forward),
        _norms("layer norms", model, kind.norms),
    )


@lru_cache(maxsize=512)
def embedding_weights(model: Model) -> tuple[Weight, ...]:
    """The weights in front of the first layer."""
    hidden, rows = model.hidden_size, model.vocab_size
    weights = [Weight("embedding", "token embedding", rows * hidden, split="vocab", rows=rows)]
    if rows := model.learned_positions:
        weights.append(Weight("positions", "positions", rows * hidden, rows=rows))
    return tuple(weights)


@lru_cache(maxsize=512)
def head_weights(model: Model) -> tuple[Weight, ...]:
    """The weights behind the last layer; a tied head adds none of its own."""
    weights, rows = [_norms("final norm", model, 1)], model.vocab_size
    if not model.tied_embeddings:
        weights.append(Weight("head", "output head", rows * model.hidden_size, split="vocab", rows=rows))
    if model.head_bias:
        weights.append(Weight("head", "output head bias", model.vocab_size, split="vocab"))
    return tuple(weights)


def mtp_weights(model: Model) -> list[Weight]:
    """The weights of one layer of multi-token prediction beside those of its transformer layer, which is one of the
    last kind: norms of the embedding, the hidden states and the output, and the projection of both inputs.

    Embedding and head are those of the model. Source: DeepSeek-V3, arXiv:2412.19437, section 2.2; Megatron-LM,
    core/transformer/multi_token_prediction.py.
    """
    hidden = model.hidden_size
    projection = Weight("prediction", "projection", 2 * hidden * hidden, split="hidden", rows=hidden)
    return [projection, _norms("norms of multi-token prediction", model, 3)]


def model_weights(model: Model) -> Iterator[tuple[int, Weight]]:
    """Every weight with the number of times that it stands in the model."""
    for weight in (*embedding_weights(model), *head_weights(model)):
        yield 1, weight
    for kind, count in zip(model.layer_kinds, model.layers_per_kind, strict=True):
        for weight in layer_weights(model, kind):
            yield count, weight


def parameters_by_part(model: Model) -> dict[str, int]:
    """Parameters of each part, exact; they add up to the model."""
    parts: dict[str, int] = {}
    for count, weight in model_weights(model):
        parts[weight.part] = parts.get(weight.part, 0) + count * weight.elements
    return parts


@lru_cache(maxsize=512)
def parameter_count(model: Model) -> int:
    """All parameters; a tied head counts once."""
    return sum(count * weight.elements for count, weight in model_weights(model))


def active_parameter_count(model: Model) -> int:
    """Parameters that one token passes through: all, less the routed experts that it does not visit."""
    return sum(
        count * (weight.elements if weight.active is None else weight.active) for count, weight in model_weights(model)
    )


def _norms(name: str, model: Model, count: int) -> Weight:
    vectors = count * (2 if model.norm == "layer" else 1)
    return Weight("norms", name, vectors * model.hidden_size, tensors=vectors)


def _attention(hidden: int, attention: Attention, fused: bool) -> Iterator[Weight]:
    heads, kv_heads = attention.heads, attention.kv_heads
    query, key, value = heads * attention.head_dim, kv_heads * attention.head_dim, kv_heads * attention.value_head_dim
    output = heads * attention.value_head_dim
    if attention.latent:
        yield from _latent_projections(hidden, attention, attention.latent)
    else:
        bias = 1 if attention.qkv_bias else 0
        if fused:
            rows = query + key + value
            yield Weight("attention", "query, key and value", rows * (hidden + bias), split="heads", rows=rows)
        else:
            yield Weight("attention", "query", query * (hidden + bias), split="heads", rows=query)
            yield Weight(
                "attention", "key and value", (key + value) * (hidden + bias), split="kv_heads", tensors=2, rows=key
            )
        if attention.qk_norm == "head":
            yield Weight("attention", "query and key norms", 2 * attention.head_dim, tensors=2)
        if attention.qk_norm == "width":
            yield Weight("attention", "query norm", query, split="heads")
            yield Weight("attention", "key norm", key, split="kv_heads")
    if attention.sinks:
        yield Weight("attention", "sinks", heads, split="heads")
    yield Weight("attention", "output", output * hidden, split="heads", rows=hidden, split_rows=False)
    if attention.output_bias:
        yield Weight("attention", "output bias", hidden)


def _latent_projections(hidden: int, attention: Attention, latent: LatentAttention) -> Iterator[Weight]:
    query = attention.heads * attention.head_dim
    key_and_value = attention.heads * (attention.head_dim - latent.rope_head_dim + attention.value_head_dim)
    bias = 1 if attention.qkv_bias else 0
    if latent.query_rank is None:
        yield Weight("attention", "query", query * hidden, split="heads", rows=query)
    else:
        rank = latent.query_rank
        yield Weight("attention", "query down", rank * (hidden + bias), rows=rank)
        yield Weight("attention", "query norm", rank)
        yield Weight("attention", "query up", query * rank, split="heads", rows=query)
    width = latent.kv_rank + latent.rope_head_dim
    yield Weight("attention", "key and value down", width * (hidden + bias), rows=width)
    yield Weight("attention", "key and value norm", latent.kv_rank)
    yield Weight("attention", "key and value up", key_and_value * latent.kv_rank, split="heads", rows=key_and_value)


def _feed_forward(hidden: int, block: Mlp | Experts) -> Iterator[Weight]:
    if isinstance(block, Mlp):
        yield from _mlp("mlp", hidden, block.ffn_size, block.gated, block.bias)
        return
    expert = sum(weight.elements for weight in _mlp("mlp", hidden, block.ffn_size, block.gated, block.bias))
    yield Weight("router", "router", block.count * (hidden + (1 if block.router_bias else 0)), rows=block.count)
    active = block.active * expert
    yield Weight("experts", "routed experts", block.count * expert, split="ffn", active=active, rows=block.count)
    if block.shared_ffn_size:
        yield from _mlp("shared_experts", hidden, block.shared_ffn_size, block.gated, bias=False)
    if block.shared_gate:
        yield Weight("shared_experts", "shared expert gate", hidden, rows=1)


def _mlp(part: Part, hidden: int, ffn: int, gated: bool, bias: bool) -> Iterator[Weight]:
    inputs = 2 if gated else 1
    yield Weight(part, "up", inputs * ffn * (hidden + (1 if bias else 0)), split="ffn", tensors=inputs, rows=ffn)
    yield Weight(part, "down", ffn * hidden, split="ffn", rows=hidden, split_rows=False)
    if bias:
        yield Weight(part, "down bias", hidden)

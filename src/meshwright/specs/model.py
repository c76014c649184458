"""Model: a transformer's architecture, as layer kinds and the order in which they stand."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from meshwright.specs.base import Spec

Size = Annotated[int, Field(ge=0)]


class LatentAttention(Spec):
    """Low-rank projections of multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1)."""

    query_rank: PositiveInt | None
    """Width of the compressed query; None: the query is projected directly."""
    kv_rank: PositiveInt
    """Width of the compressed keys and values."""
    rope_head_dim: PositiveInt
    """Part of each head's query and key that carries the rotary position; the key's part is shared by all heads."""


class Attention(Spec):
    """Self-attention of one layer kind."""

    heads: PositiveInt
    """Query heads."""
    kv_heads: PositiveInt
    """Key and value heads; equal to `heads` without grouped queries."""
    head_dim: PositiveInt
    """Width of one query and key head."""
    value_head_dim: PositiveInt
    """Width of one value head."""
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: Literal["none", "head", "width"] = "none"
    """RMS norm of queries and keys: over each head's width, or over the whole projected width."""
    sinks: bool = False
    """One learned softmax sink per query head."""
    window: PositiveInt | None = None
    """Tokens that one query sees (sliding window); None: all before it."""
    latent: LatentAttention | None = None

    @model_validator(mode="after")
    def _grouped(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} must be a multiple of kv_heads {self.kv_heads}")
        if self.latent and self.latent.rope_head_dim >= self.head_dim:
            raise ValueError(f"rope_head_dim {self.latent.rope_head_dim} must be smaller than head_dim {self.head_dim}")
        return self


class Mlp(Spec):
    """A dense feed-forward block."""

    ffn_size: PositiveInt
    gated: bool = True
    """Three matrices (gate, up, down) instead of two."""
    bias: bool = False
    activation: Literal["silu", "gelu", "relu", "relu2"] = "silu"


class Experts(Spec):
    """A mixture-of-experts feed-forward block."""

    count: PositiveInt
    """Routed experts."""
    active: PositiveInt
    """Routed experts that each token visits (top-k)."""
    ffn_size: PositiveInt
    """FFN size of one routed expert."""
    gated: bool = True
    bias: bool = False
    """Biases on the matrices of the experts."""
    router_bias: bool = False
    shared_ffn_size: Size = 0
    """FFN size of the shared expert; 0: there is none."""
    shared_gate: bool = False
    """A learned scalar gate (hidden size to 1) on the shared expert."""
    activation: Literal["silu", "gelu", "relu", "relu2"] = "silu"

    @model_validator(mode="after")
    def _top_k(self) -> Self:
        if self.active > self.count:
            raise ValueError(f"active {self.active} experts per token cannot exceed count {self.count}")
        return self


class LayerKind(Spec):
    """What one kind of transformer layer consists of."""

    name: str
    attention: Attention
    feed_forward: Mlp | Experts
    norms: PositiveInt = 2
    """Norms over the hidden size in one layer: 1 parallel with one norm, 2 usual, 4 with post-norms (Gemma)."""
    parallel_residual: bool = False
    """Attention and feed-forward read the same input (GPT-NeoX, Falcon)."""

    @property
    def is_moe(self) -> bool:
        """Whether the feed-forward block is a mixture of experts."""
        return isinstance(self.feed_forward, Experts)


class Model(Spec):
    """A decoder-only transformer: what it is made of, with no word on how it is split."""

    name: str
    family: str
    """The Hugging Face `model_type`, or `native` for Meshwright's own form."""
    hidden_size: PositiveInt
    vocab_size: PositiveInt
    layer_kinds: Annotated[tuple[LayerKind, ...], Field(min_length=1)]
    layer_pattern: Annotated[tuple[Size, ...], Field(min_length=1)]
    """For each layer, in order, the index of its kind."""
    tied_embeddings: bool = False
    """The output head is the embedding matrix."""
    head_bias: bool = False
    norm: Literal["rms", "layer"] = "rms"
    """`rms`: one weight vector; `layer`: weight and bias."""
    learned_positions: Size = 0
    """Rows of a learned position embedding; 0: rotary or none."""
    assumptions: tuple[str, ...] = ()
    """What had to be assumed while reading it, for the user's eyes."""

    @model_validator(mode="after")
    def _pattern(self) -> Self:
        unknown = sorted({index for index in self.layer_pattern if index >= len(self.layer_kinds)})
        if unknown:
            raise ValueError(f"layer_pattern names kinds {unknown}, but there are {len(self.layer_kinds)} layer_kinds")
        return self

    @cached_property
    def num_layers(self) -> int:
        """Transformer layers."""
        return len(self.layer_pattern)

    @cached_property
    def layers_per_kind(self) -> tuple[int, ...]:
        """How many layers there are of each kind."""
        return tuple(self.layer_pattern.count(index) for index in range(len(self.layer_kinds)))

    @property
    def is_moe(self) -> bool:
        """Whether any layer is a mixture of experts."""
        return any(kind.is_moe for kind in self.layer_kinds)

    @property
    def is_latent(self) -> bool:
        """Whether any layer has multi-head latent attention."""
        return any(kind.attention.latent for kind in self.layer_kinds)

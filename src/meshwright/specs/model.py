"""Model: a transformer's architecture, as layer kinds and the order in which they stand."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from meshwright.specs.base import Spec

MAX_LAYERS = 2_000
"""More are refused: no model has a tenth of them, and a mistyped file would take minutes and fill the memory."""
MAX_SIZE = 2**31 - 1
"""More heads, widths, experts or rows than any model has; products of two still fit in 64 bits."""
PositiveInt = Annotated[int, Field(gt=0, le=MAX_SIZE, strict=True)]
Size = Annotated[int, Field(ge=0, le=MAX_SIZE, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
QueryKeyNorm = Literal["none", "head", "width"]


class LatentAttention(Spec):
    """Low-rank projections of multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1)."""

    query_rank: PositiveInt | None = None
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
    qkv_bias: Flag = False
    output_bias: Flag = False
    fused_qkv: Flag = False
    """Queries, keys and values are one matrix in the model's own implementation, whatever the runtime does."""
    qk_norm: QueryKeyNorm = "none"
    """RMS norm of queries and keys: over each head's width, or over the whole projected width."""
    sinks: Flag = False
    """One learned softmax sink per query head."""
    softcap: Flag = False
    """Scores are capped by a tanh before the softmax (Gemma 2)."""
    scaled_rotary: Flag = False
    """Rotary positions are multiplied by a factor other than 1 (YaRN, arXiv:2309.00071, section 3.4)."""
    window: PositiveInt | None = None
    """Tokens that one query sees (sliding window); None: all before it."""
    latent: LatentAttention | None = None

    @model_validator(mode="after")
    def _grouped(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} must be a multiple of kv_heads {self.kv_heads}")
        if self.latent and self.heads != self.kv_heads:
            raise ValueError(f"latent attention has as many kv_heads ({self.kv_heads}) as heads ({self.heads})")
        if self.latent and self.latent.rope_head_dim >= self.head_dim:
            raise ValueError(f"rope_head_dim {self.latent.rope_head_dim} must be smaller than head_dim {self.head_dim}")
        return self

    def window_over(self, sequence: int) -> int | None:
        """The window over sequences of so many tokens; None where every query sees all before it.

        >>> attention = Attention(heads=8, kv_heads=8, head_dim=64, value_head_dim=64, window=4096)
        >>> attention.window_over(4096), attention.window_over(4097)
        (None, 4096)
        """
        return self.window if self.window is not None and self.window < sequence else None


class Mlp(Spec):
    """A dense feed-forward block."""

    ffn_size: PositiveInt
    gated: Flag = True
    """Three matrices (gate, up, down) instead of two."""
    bias: Flag = False
    activation: Literal["silu", "gelu", "gelu_new", "relu", "relu2"] = "silu"


class Experts(Spec):
    """A mixture-of-experts feed-forward block."""

    count: PositiveInt
    """Routed experts."""
    active: PositiveInt
    """Routed experts that each token visits (top-k)."""
    groups: PositiveInt = 1
    """Equal groups of neighbouring routed experts of which a token is limited to some (node-limited routing)."""
    active_groups: PositiveInt = 1
    """Groups in which the experts of one token lie; as many as `groups`: it is not limited."""
    ffn_size: PositiveInt
    """FFN size of one routed expert."""
    gated: Flag = True
    bias: Flag = False
    """Biases on the matrices of the experts."""
    router_bias: Flag = False
    shared_ffn_size: Size = 0
    """FFN size of the shared expert; 0: there is none."""
    shared_gate: Flag = False
    """A learned scalar gate (hidden size to 1) on the shared expert."""
    activation: Literal["silu", "gelu", "gelu_new", "relu", "relu2"] = "silu"
    clamped: Flag = False
    """Gate and up are clamped, and one is added to up, before the activation (`swiglu_limit` of gpt-oss)."""

    @model_validator(mode="after")
    def _top_k(self) -> Self:
        if self.active > self.count:
            raise ValueError(f"active {self.active} experts per token cannot exceed count {self.count}")
        if self.count % self.groups:
            raise ValueError(f"count {self.count} of experts must be a multiple of groups {self.groups}")
        if self.active_groups > self.groups:
            raise ValueError(f"active_groups {self.active_groups} cannot exceed groups {self.groups}")
        within = self.active_groups * self.count // self.groups
        if self.active > within:
            raise ValueError(
                f"active {self.active} experts per token cannot exceed the {within} of {self.active_groups} groups"
            )
        return self


class LayerKind(Spec):
    """What one kind of transformer layer consists of."""

    name: str
    attention: Attention
    feed_forward: Mlp | Experts
    norms: PositiveInt = 2
    """Norms over the hidden size in one layer: 1 parallel with one norm, 2 usual, 4 with post-norms (Gemma)."""
    parallel_residual: Flag = False
    """Attention and feed-forward read the same input (GPT-NeoX, Falcon)."""

    @cached_property
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
    layer_pattern: Annotated[tuple[Size, ...], Field(min_length=1, max_length=MAX_LAYERS)]
    """For each layer, in order, the index of its kind."""
    tied_embeddings: Flag = False
    """The output head is the embedding matrix."""
    head_bias: Flag = False
    head_softcap: Flag = False
    """Logits are capped by a tanh (Gemma 2)."""
    norm: Literal["rms", "layer"] = "rms"
    """`rms`: one weight vector; `layer`: weight and bias."""
    learned_positions: Size = 0
    """Rows of a learned position embedding; 0: rotary or none."""
    mtp_layers: Annotated[int, Field(ge=0, le=MAX_LAYERS, strict=True)] = 0
    """Layers of multi-token prediction that it was trained with, behind the others and no part of them; a run that
    trains them adds `mtp_weights` to the model's."""
    config_values: dict[str, str | bool | int | float] = {}
    """What its config.json says that changes neither memory nor time, for launch files (`huggingface.values`)."""
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

    @cached_property
    def mixtures(self) -> tuple[Experts, ...]:
        """The mixtures of experts of the layer kinds that have one."""
        return tuple(kind.feed_forward for kind in self.layer_kinds if isinstance(kind.feed_forward, Experts))

    @cached_property
    def is_moe(self) -> bool:
        """Whether any layer is a mixture of experts."""
        return bool(self.mixtures)

    @cached_property
    def modifies_scores(self) -> bool:
        """Whether attention adds sinks to its scores or caps them, in any layer."""
        return any(kind.attention.sinks or kind.attention.softcap for kind in self.layer_kinds)

    @cached_property
    def gates_with_gelu(self) -> bool:
        """Whether blocks are gated by GELU, in any layer."""
        return any(kind.feed_forward.gated and kind.feed_forward.activation == "gelu" for kind in self.layer_kinds)

    def has_heads_up_to(self, widest: int, multiple: int) -> bool:
        """Whether no head of attention is wider than that many elements, and all are a multiple of so many."""
        return max(self.head_sizes) <= widest and not any(head % multiple for head in self.head_sizes)

    @cached_property
    def head_sizes(self) -> tuple[int, ...]:
        """Elements of heads of queries and of values, each size once."""
        attention = (kind.attention for kind in self.layer_kinds)
        return tuple(sorted({head for each in attention for head in (each.head_dim, each.value_head_dim)}))

    def over(self, sequence: int) -> Self:
        """The model as it runs sequences of so many tokens: without windows that are as long."""
        kinds = tuple(
            kind.replace(attention=kind.attention.replace(window=kind.attention.window_over(sequence)))
            for kind in self.layer_kinds
        )
        return self if kinds == self.layer_kinds else self.replace(layer_kinds=kinds)

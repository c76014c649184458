"""The Qwen families: dense and mixture of experts, Qwen2 to Qwen3."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from meshwright.specs.reading.huggingface.keys import Count, CountOrZero, Flag, spelled
from meshwright.specs.reading.huggingface.traits import AttentionBias, Routed, Windowed, at_most


class _Sliding(Windowed):
    """`sliding_window` counts only with `use_sliding_window`."""

    use_sliding_window: Flag = False
    sliding_window: CountOrZero | None = 4096

    def window_size(self) -> int | None:
        """The window in tokens, None unless `use_sliding_window`."""
        return (self.sliding_window or None) if self.use_sliding_window else None

    @model_validator(mode="after")
    def _window_in_use(self) -> Self:
        if self.use_sliding_window and self.sliding_window == 0:
            raise ValueError("use_sliding_window is true, but sliding_window is 0")
        return self


class Qwen2(_Sliding):
    """Qwen2 and Qwen2.5, arXiv:2412.15115: biases on queries, keys and values alone."""

    config_class = "Qwen2Config"
    num_key_value_heads: Count | None = 32
    max_window_layers: CountOrZero = 28

    def slides(self, layer: int) -> bool:
        """Layers from `max_window_layers` on."""
        return self.window_size() is not None and layer >= self.max_window_layers

    def attention_details(self) -> dict[str, Any]:
        """Biases that no key switches off."""
        return {"qkv_bias": True}


class Qwen3(AttentionBias, Qwen2):
    """Qwen3, arXiv:2505.09388: head size of its own, norms on queries and keys."""

    config_class = "Qwen3Config"
    noted = ("tie_word_embeddings", "head_dim", "num_key_value_heads")
    qk_norm = "head"
    head_dim: Count = 128


class _Mixture(Routed):
    """Which layers are mixtures: `mlp_only_layers` and `decoder_sparse_step`."""

    num_experts: CountOrZero = Field(validation_alias=spelled("num_experts", "num_local_experts"))
    num_experts_per_tok: Count
    moe_intermediate_size: Count
    decoder_sparse_step: Count = 1
    mlp_only_layers: list[CountOrZero] | None = None

    def is_moe(self, layer: int) -> bool:
        """Every `decoder_sparse_step`-th layer that is not in `mlp_only_layers`."""
        sparse = (layer + 1) % self.decoder_sparse_step == 0
        return self.num_experts > 0 and sparse and layer not in (self.mlp_only_layers or ())

    def routed(self) -> tuple[int, int, int]:
        """The sizes of the mixture."""
        return self.num_experts, self.num_experts_per_tok, self.moe_intermediate_size

    _at_most_all = field_validator("num_experts_per_tok")(at_most("num_experts"))


class Qwen2Moe(_Mixture, _Sliding):
    """Qwen1.5-MoE and Qwen2-MoE, arXiv:2407.10671: a shared expert behind a gate."""

    config_class = "Qwen2MoeConfig"
    num_key_value_heads: Count | None = 16
    max_window_layers: CountOrZero = 28
    qkv_bias: Flag = True
    shared_expert_intermediate_size: Count

    def slides(self, layer: int) -> bool:
        """Every second layer below `max_window_layers`, as its transformers class has it."""
        return self.window_size() is not None and layer % 2 == 0 and layer < self.max_window_layers

    def attention_details(self) -> dict[str, Any]:
        """Biases on queries, keys and values."""
        return {"qkv_bias": self.qkv_bias}

    def expert_details(self) -> dict[str, Any]:
        """The shared expert."""
        return {"shared_ffn_size": self.shared_expert_intermediate_size, "shared_gate": True}


class Qwen3Moe(_Mixture, AttentionBias, _Sliding):
    """Qwen3-MoE, arXiv:2505.09388: no shared expert."""

    config_class = "Qwen3MoeConfig"
    qk_norm = "head"
    num_key_value_heads: Count | None = 4
    head_dim: Count
    shared_expert_intermediate_size: CountOrZero = 0

    def not_modelled(self) -> list[str]:
        """Shared experts, which the transformers class does not build."""
        return ["shared experts (shared_expert_intermediate_size)"] if self.shared_expert_intermediate_size else []


class Qwen3VlText(Qwen3):
    """The language model of Qwen3-VL: Qwen3 without windows."""

    config_class = "Qwen3VLTextConfig"

    def window_size(self) -> int | None:
        """None: the class has no windows."""
        return None


class Qwen3VlMoeText(Qwen3Moe):
    """The language model of Qwen3-VL-MoE: Qwen3-MoE without windows."""

    config_class = "Qwen3VLMoeTextConfig"
    num_key_value_heads: Count | None = 16

    def window_size(self) -> int | None:
        """None: the class has no windows."""
        return None

"""Mixtures of experts in every layer: Mixtral, MiniMax-M2, gpt-oss."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from meshwright.specs.reading.huggingface.keys import Count, CountOrZero, Flag, spelled
from meshwright.specs.reading.huggingface.traits import AttentionBias, Routed, Windowed, at_most


class _AllMixture(Routed, Windowed):
    """`intermediate_size` is the size of one expert."""

    num_local_experts: Count = Field(validation_alias=spelled("num_local_experts", "num_experts"))
    num_experts_per_tok: Count = Field(validation_alias=spelled("num_experts_per_tok", "experts_per_token"))

    def is_moe(self, layer: int) -> bool:
        """Every layer."""
        del layer
        return True

    def routed(self) -> tuple[int, int, int]:
        """The sizes of the mixture."""
        return self.num_local_experts, self.num_experts_per_tok, self.intermediate_size

    _at_most_all = field_validator("num_experts_per_tok")(at_most("num_local_experts"))


class Mixtral(_AllMixture):
    """Mixtral, arXiv:2401.04088."""

    config_class = "MixtralConfig"
    noted = ("tie_word_embeddings", "num_key_value_heads")
    num_key_value_heads: Count | None = 8


class MiniMaxM2(_AllMixture):
    """MiniMax-M2 to M2.7: norms over the whole width of queries and keys."""

    config_class = "MiniMaxM2Config"
    noted = ("tie_word_embeddings", "head_dim", "num_key_value_heads")
    qk_norm = "width"
    num_key_value_heads: Count = 8
    head_dim: Count = 128
    use_qk_norm: Flag = True
    qk_norm_type: str = "per_layer"
    shared_intermediate_size: CountOrZero = 0
    attn_type_list: list[CountOrZero] | None = None

    def slides(self, layer: int) -> bool:
        """None does: the transformers class has no windows."""
        del layer
        return False

    def not_modelled(self) -> list[str]:
        """Switches of the MiniMax files that the transformers class does not build."""
        switches = []
        if not self.use_qk_norm or self.qk_norm_type != "per_layer":
            switches.append(f"query and key norms {self.qk_norm_type!r} (use_qk_norm, qk_norm_type)")
        if self.shared_intermediate_size:
            switches.append("shared experts (shared_intermediate_size)")
        if any(kind != 1 for kind in self.attn_type_list or ()):
            switches.append("linear attention layers (attn_type_list)")
        return switches


class GptOss(AttentionBias, _AllMixture):
    """gpt-oss, arXiv:2508.10925: sinks, biases everywhere, a window in every second layer."""

    config_class = "GptOssConfig"
    noted = ("tie_word_embeddings", "head_dim", "num_key_value_heads", "sliding_window")
    sinks = True
    num_key_value_heads: Count | None = 8
    head_dim: Count = 64
    attention_bias: Flag = True
    sliding_window: Count | None = 128
    rope_scaling: dict[str, Any] | None = Field(
        {"rope_type": "yarn", "factor": 32.0}, validation_alias=spelled("rope_parameters", "rope_scaling")
    )

    def slides(self, layer: int) -> bool:
        """The first layer and every second one after it."""
        return layer % 2 == 0

    def expert_details(self) -> dict[str, Any]:
        """Biases on experts and router, and a clamp before the activation (`swiglu_limit`)."""
        return {"bias": True, "router_bias": True, "clamped": True}

"""Hy3 of Tencent: grouped queries, one dense layer first, shared experts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from meshwright.specs.reading.huggingface.families.deepseek import SharedMixture
from meshwright.specs.reading.huggingface.keys import Count, CountOrZero, Flag, spelled
from meshwright.specs.reading.huggingface.traits import AttentionBias, one_per_layer


class HyV3(AttentionBias, SharedMixture):
    """Hy3, huggingface.co/tencent/Hy3: norms on queries and keys of every head."""

    config_class = "HYV3Config"
    noted = ("tie_word_embeddings", "num_key_value_heads", "head_dim")
    qk_norm = "head"
    num_key_value_heads: Count = 8
    head_dim: Count = 128
    n_routed_experts: Count = Field(192, validation_alias=spelled("num_experts", "num_local_experts"))
    n_shared_experts: CountOrZero | None = Field(1, validation_alias=spelled("num_shared_experts"))
    n_group: Count | None = None
    topk_group: Count | None = None
    num_experts_per_tok: Count = 8
    moe_intermediate_size: Count = 1536
    first_k_dense_replace: CountOrZero = 1
    mlp_layer_types: list[Literal["dense", "sparse"]] | None = None
    mlp_bias: Flag = False

    _one_per_layer = field_validator("mlp_layer_types")(one_per_layer)

    def is_moe(self, layer: int) -> bool:
        """As `mlp_layer_types` says, or all but the first."""
        return self.mlp_layer_types[layer] == "sparse" if self.mlp_layer_types else super().is_moe(layer)

    def not_modelled(self) -> list[str]:
        """Biases on dense blocks and shared experts."""
        return ["biases on dense blocks and shared experts (mlp_bias)"] if self.mlp_bias else []

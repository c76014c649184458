"""DeepSeek-V2 and -V3: latent attention, dense layers first, shared experts; Kimi-K2 has the same shape."""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from meshwright.specs.model import Attention, LatentAttention
from meshwright.specs.reading.huggingface.keys import Count, CountOrZero, Flag, spelled
from meshwright.specs.reading.huggingface.traits import PlainHeads, Routed, at_most


class SharedMixture(Routed):
    """Dense layers first, then mixtures with shared experts, whose tokens may be limited to groups of experts."""

    n_routed_experts: Count = Field(validation_alias=spelled("n_routed_experts", "num_local_experts", "num_experts"))
    n_shared_experts: CountOrZero | None
    n_group: Count | None = 8
    topk_group: Count | None = 4
    num_experts_per_tok: Count
    moe_intermediate_size: Count
    first_k_dense_replace: CountOrZero

    _at_most_all = field_validator("num_experts_per_tok")(at_most("n_routed_experts"))
    _at_most_groups = field_validator("topk_group")(at_most("n_group"))

    @field_validator("n_group")
    @classmethod
    def _equal_groups(cls, value: int | None, info: ValidationInfo) -> int | None:
        experts = info.data.get("n_routed_experts")
        if value and experts and experts % value:
            raise ValueError(f"must divide n_routed_experts {experts}")
        return value

    def is_moe(self, layer: int) -> bool:
        """From `first_k_dense_replace` on."""
        return layer >= self.first_k_dense_replace

    def routed(self) -> tuple[int, int, int]:
        """The sizes of the mixture."""
        return self.n_routed_experts, self.num_experts_per_tok, self.moe_intermediate_size

    def expert_details(self) -> dict[str, Any]:
        """Shared experts, which are one block of their summed size, and the groups that a token is limited to."""
        details = {"shared_ffn_size": (self.n_shared_experts or 0) * self.moe_intermediate_size}
        if not self.limits_groups() or self.n_group is None or self.topk_group is None:
            return details
        return details | {"groups": self.n_group, "active_groups": self.topk_group}

    def limits_groups(self) -> bool:
        """Whether the experts of one token lie in some groups alone."""
        return True


class DeepseekV3(PlainHeads, SharedMixture):
    """DeepSeek-V3, arXiv:2412.19437; the file's `head_dim` and `num_key_value_heads` are not the attention's."""

    config_class = "DeepseekV3Config"
    attention_bias: Flag = False
    q_lora_rank: Count | None
    kv_lora_rank: Count
    qk_nope_head_dim: Count
    qk_rope_head_dim: Count
    v_head_dim: Count
    moe_layer_freq: Count = 1

    def is_moe(self, layer: int) -> bool:
        """From `first_k_dense_replace` on, every `moe_layer_freq`-th layer."""
        return super().is_moe(layer) and layer % self.moe_layer_freq == 0

    def attention(self, window: int | None) -> Attention:
        """Multi-head latent attention."""
        return Attention(
            heads=self.num_attention_heads,
            kv_heads=self.num_attention_heads,
            head_dim=self.qk_nope_head_dim + self.qk_rope_head_dim,
            value_head_dim=self.v_head_dim,
            qkv_bias=self.attention_bias,
            output_bias=self.attention_bias,
            window=window,
            latent=LatentAttention(
                query_rank=self.q_lora_rank, kv_rank=self.kv_lora_rank, rope_head_dim=self.qk_rope_head_dim
            ),
        )

    def assumptions(self) -> list[str]:
        """A layer frequency that the transformers class does not know."""
        taken = super().assumptions()
        if self.moe_layer_freq != 1:
            taken.append(
                f"moe_layer_freq {self.moe_layer_freq} is read as in DeepSeek's own code: layers whose index it "
                f"divides are mixtures; {self.config_class} of transformers ignores it"
            )
        return taken


class DeepseekV2(DeepseekV3):
    """DeepSeek-V2, arXiv:2405.04434."""

    config_class = "DeepseekV2Config"
    mlp_bias: Flag = False
    n_group: Count | None = None
    topk_group: Count | None = None
    topk_method: str | None = "greedy"

    def limits_groups(self) -> bool:
        """Of its two methods one does."""
        return self.topk_method == "group_limited_greedy"

    def not_modelled(self) -> list[str]:
        """Biases on the shared experts."""
        return ["biases on dense blocks and shared experts (mlp_bias)"] if self.mlp_bias else []

"""GLM-4.5 to 4.7: grouped queries, dense layers first, shared experts."""

from __future__ import annotations

from typing import Any

from meshwright.specs.model import Attention
from meshwright.specs.reading.huggingface.families.deepseek import SharedMixture
from meshwright.specs.reading.huggingface.keys import Count, Flag


class Glm4Moe(SharedMixture):
    """GLM-4.5, arXiv:2508.06471: biases on queries, keys and values alone, norms on queries and keys by a switch."""

    config_class = "Glm4MoeConfig"
    noted = ("tie_word_embeddings", "num_key_value_heads")
    num_key_value_heads: Count = 8
    attention_bias: Flag = False
    use_qk_norm: Flag = False
    n_group: Count | None = 1
    topk_group: Count | None = 1

    def attention(self, window: int | None) -> Attention:
        """Grouped queries."""
        return super().attention(window).replace(qk_norm="head" if self.use_qk_norm else "none")

    def attention_details(self) -> dict[str, Any]:
        """Biases that the output has none of."""
        return {"qkv_bias": self.attention_bias}

"""Gemma 2 and 3: four norms per layer, tied embeddings, windows in most layers."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from meshwright.specs.reading.huggingface.keys import Activation, Count, Flag, spelled
from meshwright.specs.reading.huggingface.traits import AttentionBias, Windowed


class Gemma2(AttentionBias, Windowed):
    """Gemma 2, arXiv:2408.00118."""

    config_class = "Gemma2Config"
    noted: ClassVar[tuple[str, ...]] = ("tie_word_embeddings", "head_dim", "num_key_value_heads", "sliding_window")
    num_key_value_heads: Count = 4
    head_dim: Count = 256
    hidden_act: Activation = Field("gelu", validation_alias=spelled("hidden_activation"))
    tie_word_embeddings: Flag = True
    sliding_window: Count | None = 4096
    attn_logit_softcapping: float | None = 50.0
    final_logit_softcapping: float | None = 30.0
    use_bidirectional_attention: Flag | None = None

    def slides(self, layer: int) -> bool:
        """The first layer and every second one after it."""
        return layer % 2 == 0

    def attention_details(self) -> dict[str, Any]:
        """Biases, and whether scores are capped."""
        return super().attention_details() | {"softcap": self.attn_logit_softcapping is not None}

    def head_details(self) -> dict[str, Any]:
        """Whether logits are capped."""
        return {"head_softcap": self.final_logit_softcapping is not None}

    def layer_details(self) -> dict[str, Any]:
        """Norms before and after attention and feed-forward."""
        return {"norms": 4}

    def not_modelled(self) -> list[str]:
        """Attention to later tokens."""
        return (
            ["attention that is not causal (use_bidirectional_attention)"] if self.use_bidirectional_attention else []
        )


class Gemma3Text(Gemma2):
    """Gemma 3, arXiv:2503.19786: the published multimodal files leave most sizes to the class."""

    config_class = "Gemma3TextConfig"
    noted = (
        "tie_word_embeddings",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "vocab_size",
        "sliding_window",
    )
    qk_norm = "head"
    attn_logit_softcapping: float | None = None
    final_logit_softcapping: float | None = None
    num_attention_heads: Count = 8
    vocab_size: Count = 262_208
    sliding_window_pattern: Count = 6

    def slides(self, layer: int) -> bool:
        """All but every sixth layer."""
        return (layer + 1) % self.sliding_window_pattern != 0

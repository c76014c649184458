"""Decoders with LayerNorm and two-matrix blocks: GPT-2, GPT-NeoX, Falcon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from meshwright.specs.reading.huggingface.keys import Activation, Count, Flag, Layers, spelled
from meshwright.specs.reading.huggingface.traits import AttentionBias, PlainHeads


class _LayerNormed(PlainHeads):
    norm = "layer"
    gated = False
    hidden_act: Activation = "gelu"


class _FourTimes(_LayerNormed):
    """A feed-forward block four times as wide as the layer unless the file says otherwise."""

    width_key: ClassVar[str]

    @classmethod
    def prepared(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """The config with the width filled in."""
        prepared = super().prepared(config)
        hidden = next((prepared[key] for key in cls.spellings()["hidden_size"] if key in prepared), None)
        width = 4 * hidden if isinstance(hidden, int | float) and 0 < hidden < math.inf else 1
        return {cls.width_key: width} | prepared


class Gpt2(_FourTimes):
    """GPT-2: learned positions, biases everywhere, tied embeddings."""

    config_class = "GPT2Config"
    width_key = "n_inner"
    hidden_size: Count = Field(validation_alias=spelled("n_embd", "hidden_size"))
    num_hidden_layers: Layers = Field(validation_alias=spelled("n_layer", "num_hidden_layers"))
    num_attention_heads: Count = Field(validation_alias=spelled("n_head", "num_attention_heads"))
    intermediate_size: Count = Field(validation_alias=spelled("n_inner"))
    hidden_act: Activation = Field("gelu_new", validation_alias=spelled("activation_function"))
    n_positions: Count = Field(validation_alias=spelled("n_positions", "max_position_embeddings"))
    tie_word_embeddings: Flag = True
    add_cross_attention: Flag = False

    def attention_details(self) -> dict[str, Any]:
        """Biases on all four projections, of which the first three are one matrix (`c_attn`)."""
        return {"qkv_bias": True, "output_bias": True, "fused_qkv": True}

    def mlp_details(self) -> dict[str, Any]:
        """Biases on both matrices."""
        return {"bias": True}

    def learned_positions(self) -> int:
        """`n_positions` rows."""
        return self.n_positions

    def not_modelled(self) -> list[str]:
        """An encoder to attend to."""
        return ["cross-attention (add_cross_attention)"] if self.add_cross_attention else []


class GptNeoX(AttentionBias, _LayerNormed):
    """GPT-NeoX, arXiv:2204.06745, and Pythia: attention and block side by side, each behind a norm."""

    config_class = "GPTNeoXConfig"
    attention_bias: Flag = True
    use_parallel_residual: Flag = True

    def mlp_details(self) -> dict[str, Any]:
        """Biases on both matrices."""
        return {"bias": True}

    def layer_details(self) -> dict[str, Any]:
        """Two norms, parallel or not."""
        return {"parallel_residual": self.use_parallel_residual}


class Falcon(_FourTimes):
    """Falcon, arXiv:2311.16867: `num_kv_heads` counts in the new decoder architecture alone."""

    config_class = "FalconConfig"
    width_key = "ffn_hidden_size"
    hidden_size: Count = Field(validation_alias=spelled("hidden_size", "n_embed"))
    intermediate_size: Count = Field(validation_alias=spelled("ffn_hidden_size"))
    hidden_act: Activation = Field("gelu", validation_alias=spelled("activation"))
    new_decoder_architecture: Flag = False
    multi_query: Flag = True
    num_kv_heads: Count | None = None
    parallel_attn: Flag = True
    num_ln_in_parallel_attn: Literal[1, 2] | None = None
    bias: Flag = False
    alibi: Flag = False
    tie_word_embeddings: Flag = True

    @field_validator("num_kv_heads")
    @classmethod
    def _fits(cls, value: int | None, info: ValidationInfo) -> int | None:
        heads = info.data.get("num_attention_heads")
        if value is None or not heads:
            return value
        if info.data.get("new_decoder_architecture") and heads % value:
            raise ValueError(f"must divide num_attention_heads {heads}")
        if not (info.data.get("new_decoder_architecture") or info.data.get("multi_query")) and heads != value:
            raise ValueError(f"must equal num_attention_heads {heads} without new_decoder_architecture or multi_query")
        return value

    def kv_heads(self) -> int:
        """Key and value heads."""
        if self.new_decoder_architecture:
            return self.num_kv_heads or self.num_attention_heads
        return 1 if self.multi_query else self.num_attention_heads

    def attention_details(self) -> dict[str, Any]:
        """One bias switch for all matrices."""
        return {"qkv_bias": self.bias, "output_bias": self.bias}

    def mlp_details(self) -> dict[str, Any]:
        """One bias switch for all matrices."""
        return {"bias": self.bias}

    def layer_details(self) -> dict[str, Any]:
        """One norm for both parallel blocks, or one for each."""
        norms = self.num_ln_in_parallel_attn or (2 if self.new_decoder_architecture else 1)
        return {
            "norms": norms if self.parallel_attn else 2,
            "parallel_residual": self.parallel_attn or self.new_decoder_architecture,
        }

    def assumptions(self) -> list[str]:
        """Key and value heads where they count; linear position biases are planned like rotary positions."""
        taken = super().assumptions()
        if self.new_decoder_architecture and "num_kv_heads" not in self.model_fields_set:
            taken.append(self._default_taken("num_kv_heads"))
        return [*taken, "alibi is planned like rotary positions: its bias is free"] if self.alibi else taken

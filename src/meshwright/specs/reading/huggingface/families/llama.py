"""Dense decoders of the Llama shape: Llama, Mistral, Phi-3."""

from __future__ import annotations

from typing import Any

from meshwright.specs.reading.huggingface.decoder import Decoder
from meshwright.specs.reading.huggingface.keys import Count, Flag
from meshwright.specs.reading.huggingface.traits import AttentionBias, Windowed


class Llama(AttentionBias, Decoder):
    """Llama 1 to 3.3, arXiv:2302.13971 and arXiv:2407.21783."""

    config_class = "LlamaConfig"
    mlp_bias: Flag = False

    def mlp_details(self) -> dict[str, Any]:
        """Biases on the three matrices."""
        return {"bias": self.mlp_bias}


class Mistral(Windowed):
    """Mistral 7B, arXiv:2310.06825: a file without `sliding_window` has the window of v0.1."""

    config_class = "MistralConfig"
    noted = ("tie_word_embeddings", "sliding_window", "num_key_value_heads")
    num_key_value_heads: Count | None = 8
    sliding_window: Count | None = 4096


class Phi3(Windowed):
    """Phi-3 and Phi-4, arXiv:2404.14219: the fused matrices hold the same weights."""

    config_class = "Phi3Config"

"""A config.json of small sizes, which tests of its keys change."""

from __future__ import annotations

SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
    "tie_word_embeddings": False,
}
LLAMA = {"model_type": "llama"} | SIZES

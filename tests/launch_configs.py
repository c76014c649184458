"""What config.json files of Llama 3.1 and DeepSeek-V3 hold and no price rests on."""

from __future__ import annotations

from typing import Any

LLAMA_31: dict[str, Any] = {
    "rope_theta": 500000.0,
    "rms_norm_eps": 1e-05,
    "initializer_range": 0.02,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0},
}
DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "routed_scaling_factor": 2.5,
    "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0},
}
TINY_LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
"""One that trains on a CPU in seconds."""

"""Families: what the models of a name consist of, beyond the sizes that a row prints; every table with its sources."""

from __future__ import annotations

from typing import Any, NamedTuple


class Family(NamedTuple):
    """What the models of one family consist of, beyond the sizes that a row prints."""

    begins: str
    """How the names of its models begin; the first family that matches counts."""
    mlp: dict[str, Any]
    attention: dict[str, Any]
    model: dict[str, Any]
    source: str
    learned_positions: bool = False
    """It learns one embedding for each position of the sequence; else positions are rotary."""
    runtime: str = ""
    """Of rows alone whose `runtime_detail` holds this."""
    shared_expert: bool = False
    """Every token visits one expert more, as wide as the others."""


SILU = {"gated": True, "activation": "silu"}
BIASED_GELU = {"gated": False, "activation": "gelu", "bias": True}
BIASES = {"qkv_bias": True, "output_bias": True}
LAYER_NORM = {"norm": "layer", "tied_embeddings": True}
FAMILIES = (
    Family("Nemotron4", {"gated": False, "activation": "relu2"}, {}, {}, "arXiv:2402.16819"),
    Family(
        "Nemotron3",
        {"gated": False, "activation": "relu2"},
        {},
        {},
        "assumed as Nemotron4; printed sizes agree to 3.3 %",
    ),
    Family(
        "GPT-", BIASED_GELU, {}, {"norm": "layer"}, "printed sizes: both ends count", runtime="Megatron-Core r0.8.0"
    ),
    Family("GPT", BIASED_GELU, {}, LAYER_NORM, "Megatron-LM, GPTModel", True),
    Family("MPT", BIASED_GELU, BIASES, LAYER_NORM, "notes of the rows; llm-foundry, models/mpt", True),
    Family("InternLM", SILU, BIASES, {}, "InternEvo, modeling_internlm.py and modules/mha.py"),
    Family("Qwen3-1.7B", SILU, {"qk_norm": "head", "head_dim": 128}, {"tied_embeddings": True}, "Qwen/Qwen3-1.7B"),
    Family("Qwen3", SILU, {"qk_norm": "head", "head_dim": 128}, {}, "Qwen/Qwen3-14B and -32B, config.json"),
    Family("Llama-3.2-1B", SILU, {}, {"tied_embeddings": True}, "meta-llama/Llama-3.2-1B, config.json"),
    Family("Llama", SILU, {}, {}, "arXiv:2307.09288 and arXiv:2407.21783"),
)

CATALOGUED = {
    "DeepSeek-V2-L4": "deepseek-v2",
    "DeepSeek-V3-16B": "deepseek-v2-lite",
    "DeepSeek-V3": "deepseek-v3",
    "GPT-OSS-120B": "gpt-oss-120b",
    "Kimi-K2": "kimi-k2",
    "Qwen3-235B-A22B": "qwen3-235b-a22b",
    "Qwen3-30B-A3B": "qwen3-30b-a3b",
}
"""Models whose latent attention, experts or windows no row prints in full, by how their names begin: the catalogue's
model with as many of its first layers as the row has. torchtitan's V3 of 16B has the sizes of V2-Lite
(arXiv:2405.04434)."""

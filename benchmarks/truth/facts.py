"""What a row leaves unsaid and its source, or the framework that ran it, does say: every table with its sources."""

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


class Said(NamedTuple):
    """Words of a row's notes, details or source, and what they mean."""

    word: str
    """In lower case."""
    meaning: str


SILU = {"gated": True, "activation": "silu"}
BIASED_GELU = {"gated": False, "activation": "gelu", "bias": True}
BIASES = {"qkv_bias": True, "output_bias": True}
LAYER_NORM = {"norm": "layer", "tied_embeddings": True}
FAMILIES = (
    Family("Nemotron4", {"gated": False, "activation": "relu2"}, {}, {}, "arXiv:2402.16819"),
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
    "DeepSeek-V3-671B": "deepseek-v3",
}
"""Models whose latent attention and shared experts no row prints, by how their names begin: the catalogue's model with
as many of its first layers as the row has. torchtitan's V3 of 16B has the sizes of V2-Lite (arXiv:2405.04434)."""

SITE_DERATE = {"simumax-part": 1.35}
"""How much slower than the catalogue's fit a site's own matrix products run, by dataset: median over the 401 large
products that MooreThreads/SimuMax@4dcaae51 measured on its B200s (a 700 W power setting is likely)."""

FRAMEWORKS = {"llm-foundry": "llm-foundry"}
"""Runtimes of the catalogue that a row names in words, beside the library that its column `runtime` gives."""

SWITCHES: dict[Said, dict[str, Any]] = {
    Said("fused cross entropy", "the cross-entropy is fused"): {"cross_entropy": "fused"},
    Said("grad_sync_dtype bf16", "gradients are kept and reduced in bf16"): {"gradient_bytes": 2},
    Said("mp mode pure", "gradients are reduced in bf16 (Composer, mixed_precision PURE)"): {"gradient_bytes": 2},
    Said("fms-fsdp", "gradients are reduced in bf16 (fms-fsdp, policies/mixed_precision.py)"): {"gradient_bytes": 2},
}
"""Behaviours of the runtime that a row's notes, details or source say differently from the catalogue."""

COMPILED = {"yes": {"elementwise": "fused"}, "no": {"elementwise": "eager"}, "": {}}
"""What the column `compiled` changes in the runtime; blank: nothing."""

LEFT_OUT = (
    Said("async tp", "asynchronous tensor parallelism is priced as the plain one"),
    Said("asynctp", "asynchronous tensor parallelism is priced as the plain one"),
    Said("chunked ce", "a cross-entropy in chunks is priced as the runtime's own"),
    Said("flexattention", "FlexAttention is priced as the runtime's own attention"),
    Said("unfused adamw", "an unfused optimizer is priced as the fused one"),
    Said("simplefsdp aot_eager", "SimpleFSDP is priced as FSDP2"),
    Said("graph_trainer", "the memory policies of graph_trainer are priced as the plain recomputation"),
    Said("power limited", "the accelerators' lower power limit is not known"),
    Said("development server", "the server's missing or slower links are not known"),
)
"""What a row says and no prediction heeds; the row is scored all the same."""

PRICED_MODULES = {"", "per-op", "core_attn"}
"""Kinds of selective recomputation, as rows name them, that a runtime's own `selective` stands for."""

"""Parameter counts equal those of the classes that transformers builds from the same file, to the last one."""

from __future__ import annotations

import json
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from meshwright.specs import catalog
from meshwright.specs.reading.huggingface.families import FAMILIES
from meshwright.specs.reading.model import read_model
from meshwright.specs.weights import parameter_count

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()

pytestmark = pytest.mark.clients("torch", "transformers")
CONFIGS = Path(__file__).parents[2] / "data" / "hf_configs"
TOWERS = ("visual.", "vision_tower.", "multi_modal_projector.", "mm_projector.", "embed_vision.")
TEXT_FILES = [
    "MiniMaxAI--MiniMax-M2.5",
    "MiniMaxAI--MiniMax-M2.7",
    "Qwen--Qwen3-0.6B",
    "Qwen--Qwen3-1.7B",
    "Qwen--Qwen3-235B-A22B",
    "Qwen--Qwen3-30B-A3B",
    "Qwen--Qwen3-32B",
    "Qwen--Qwen3-8B",
    "Qwen--Qwen3-Coder-480B-A35B-Instruct",
    "deepseek-ai--DeepSeek-R1",
    "deepseek-ai--DeepSeek-V3",
    "meta-llama--Meta-Llama-3.1-405B",
    "meta-llama--Meta-Llama-3.1-70B",
    "meta-llama--Meta-Llama-3.1-8B",
    "mistralai--Mixtral-8x22B-v0.1",
    "mistralai--Mixtral-8x7B-v0.1",
    "moonshotai--Kimi-K2-Instruct",
    "openai--gpt-oss-120b",
    "openai--gpt-oss-20b",
]
WRAPPER_FILES = [
    "Qwen--Qwen3-VL-235B-A22B-Instruct",
    "Qwen--Qwen3-VL-2B-Instruct",
    "Qwen--Qwen3-VL-30B-A3B-Instruct",
    "Qwen--Qwen3-VL-32B-Instruct",
    "Qwen--Qwen3-VL-32B-Thinking",
    "Qwen--Qwen3-VL-4B-Instruct",
    "Qwen--Qwen3-VL-8B-Instruct",
    "moonshotai--Kimi-K2.5",
]
SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
}
GPT2 = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 32, "vocab_size": 100}
FALCON = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 100}
QWEN_MOE = SIZES | {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
LATENT = SIZES | {
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 4,
    "v_head_dim": 10,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "first_k_dense_replace": 2,
}
GLM = SIZES | {
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "first_k_dense_replace": 1,
}
HY = SIZES | {"num_experts": 8, "num_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
EXPERTS = SIZES | {"num_local_experts": 4, "num_experts_per_tok": 2}
VARIANTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("llama", SIZES, {}),
    ("llama", SIZES, {"tie_word_embeddings": True, "num_key_value_heads": None}),
    ("llama", SIZES, {"attention_bias": True, "mlp_bias": True, "head_dim": 24}),
    ("mistral", SIZES, {"head_dim": 24, "sliding_window": None}),
    ("mistral", SIZES, {"tie_word_embeddings": True}),
    ("phi3", SIZES, {"sliding_window": 8}),
    ("phi3", SIZES, {"tie_word_embeddings": True, "num_key_value_heads": None}),
    ("qwen2", SIZES, {}),
    ("qwen2", SIZES, {"tie_word_embeddings": True, "use_sliding_window": True, "max_window_layers": 2}),
    ("qwen3", SIZES, {}),
    ("qwen3", SIZES, {"attention_bias": True, "head_dim": 24, "tie_word_embeddings": True}),
    ("qwen2_moe", QWEN_MOE, {"shared_expert_intermediate_size": 40}),
    ("qwen2_moe", QWEN_MOE, {"shared_expert_intermediate_size": 40, "qkv_bias": False, "decoder_sparse_step": 2}),
    ("qwen3_moe", QWEN_MOE, {"head_dim": 24}),
    ("qwen3_moe", QWEN_MOE, {"head_dim": 16, "mlp_only_layers": [0, 3], "attention_bias": True}),
    ("mixtral", EXPERTS, {}),
    ("mixtral", EXPERTS, {"head_dim": 24, "tie_word_embeddings": True}),
    ("minimax_m2", EXPERTS, {}),
    ("minimax_m2", EXPERTS, {"head_dim": 24, "tie_word_embeddings": True}),
    ("gpt_oss", EXPERTS, {"head_dim": 24}),
    ("gpt_oss", EXPERTS, {"attention_bias": False, "tie_word_embeddings": True}),
    ("deepseek_v2", LATENT, {}),
    ("deepseek_v2", LATENT, {"q_lora_rank": None, "attention_bias": True}),
    ("deepseek_v3", LATENT, {"head_dim": 4, "num_key_value_heads": 4}),
    ("deepseek_v3", LATENT, {"q_lora_rank": None, "first_k_dense_replace": 0, "tie_word_embeddings": True}),
    ("deepseek_v3", LATENT, {"attention_bias": True, "n_shared_experts": 1, "first_k_dense_replace": 9}),
    ("glm4_moe", GLM, {}),
    ("glm4_moe", GLM, {"attention_bias": True, "use_qk_norm": True, "head_dim": 24}),
    ("glm4_moe", GLM, {"n_shared_experts": 2, "first_k_dense_replace": 0, "tie_word_embeddings": True}),
    ("hy_v3", HY, {}),
    ("hy_v3", HY, {"attention_bias": True, "head_dim": 24, "tie_word_embeddings": True}),
    ("hy_v3", HY, {"num_shared_experts": 2, "mlp_layer_types": ["dense", "sparse"] * 2 + ["sparse"]}),
    ("gemma2", SIZES, {"tie_word_embeddings": True, "head_dim": 24}),
    ("gemma2", SIZES, {"attention_bias": True}),
    ("gemma3_text", SIZES, {"head_dim": 24, "sliding_window": 8}),
    ("gemma3_text", {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 7}, {}),
    ("gpt2", GPT2, {}),
    ("gpt2", GPT2, {"n_inner": 40, "tie_word_embeddings": False}),
    ("gpt_neox", SIZES, {}),
    ("gpt_neox", SIZES, {"attention_bias": False, "tie_word_embeddings": True, "use_parallel_residual": False}),
    ("falcon", FALCON, {}),
    ("falcon", FALCON, {"bias": True, "multi_query": False, "parallel_attn": False, "tie_word_embeddings": False}),
    ("falcon", FALCON, {"num_kv_heads": 4, "alibi": True}),
    ("falcon", FALCON, {"new_decoder_architecture": True, "num_kv_heads": 2, "ffn_hidden_size": 40}),
    ("falcon", FALCON, {"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1}),
]
GEMMA3_WRAPPER = {
    "model_type": "gemma3",
    "text_config": {"model_type": "gemma3_text", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 7},
    "vision_config": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16},
}


def built_by_transformers(config: dict[str, Any]) -> int:
    """Parameters of the language model that transformers builds, on no device, a tied head counted once.

    It is given a copy: it writes a rotary base into what a configuration says of scaling.
    """
    plain = {key: value for key, value in deepcopy(config).items() if key not in ("quantization_config", "auto_map")}
    if plain["model_type"] == "kimi_k2":
        plain["model_type"] = "deepseek_v3"
    wrapped = "text_config" in plain
    if wrapped:
        inner = plain["text_config"]
        plain["text_config"] = {key: value for key, value in inner.items() if key != "quantization_config"}
    auto = transformers.AutoModelForImageTextToText if wrapped else transformers.AutoModelForCausalLM
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        model = auto.from_config(transformers.AutoConfig.for_model(**plain))
    weights = model.named_parameters()
    return sum(weight.numel() for name, weight in weights if not any(tower in name for tower in TOWERS))


@pytest.mark.parametrize("name", TEXT_FILES)
def test_a_published_file_counts_as_transformers_builds_it(name: str) -> None:
    path = CONFIGS / f"{name}.json"
    assert parameter_count(read_model(path)) == built_by_transformers(json.loads(path.read_text()))


@pytest.mark.parametrize("name", WRAPPER_FILES)
def test_the_language_model_of_a_multimodal_file_counts_as_transformers_builds_it(name: str) -> None:
    path = CONFIGS / f"{name}.json"
    model = read_model(path, text_only=True)
    assert parameter_count(model) == built_by_transformers(json.loads(path.read_text()))


def test_the_language_model_of_a_gemma3_wrapper_takes_the_sizes_of_its_class() -> None:
    model = read_model(GEMMA3_WRAPPER, text_only=True)
    assert parameter_count(model) == built_by_transformers(GEMMA3_WRAPPER)
    assert "vocab_size is not in the file: 262208 is the default of Gemma3TextConfig" in model.assumptions


@pytest.mark.parametrize(("family", "sizes", "changes"), VARIANTS)
def test_a_variant_counts_as_transformers_builds_it(
    family: str, sizes: dict[str, Any], changes: dict[str, Any]
) -> None:
    config = {"model_type": family, **sizes, **changes}
    assert parameter_count(read_model(config)) == built_by_transformers(config)


@pytest.mark.parametrize(
    ("family", "sizes", "changes"),
    [
        ("qwen2", SIZES, {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 2}),
        ("qwen2", SIZES, {"sliding_window": 8, "max_window_layers": 2}),
        ("qwen3", SIZES, {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0}),
        ("qwen2_moe", QWEN_MOE, {"shared_expert_intermediate_size": 40, "use_sliding_window": True}),
        ("gemma2", SIZES, {}),
        ("gemma3_text", SIZES | {"num_hidden_layers": 13}, {}),
        ("gemma3_text", SIZES, {"sliding_window_pattern": 2}),
        ("gpt_oss", EXPERTS, {}),
        ("gpt_oss", EXPERTS, {"layer_types": ["full_attention"] * 4 + ["sliding_attention"]}),
    ],
)
def test_windows_stand_where_transformers_puts_them(family: str, sizes: Any, changes: dict[str, Any]) -> None:
    config = {"model_type": family, **sizes, **changes}
    model = read_model(config)
    kinds = [model.layer_kinds[index] for index in model.layer_pattern]
    types = ["full_attention" if kind.attention.window is None else "sliding_attention" for kind in kinds]
    assert types == transformers.AutoConfig.for_model(**config).layer_types


def test_every_family_is_compared() -> None:
    compared = {family for family, _, _ in VARIANTS}
    through_files = {"kimi_k2", "qwen3_vl_text", "qwen3_vl_moe_text"}
    assert compared | through_files == set(FAMILIES)


@pytest.mark.parametrize("name", [name for name in catalog.names("models") if "config" in catalog.load("models", name)])
def test_a_catalogue_config_counts_as_transformers_builds_it(name: str) -> None:
    config = catalog.load("models", name)["config"]
    assert parameter_count(read_model(config)) == built_by_transformers(config)

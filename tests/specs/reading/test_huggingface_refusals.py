"""Architectures that are not modelled are refused by what they are made of, never guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from meshwright.errors import NotModelled, UnknownName
from meshwright.specs.reading.huggingface.families import FAMILIES
from meshwright.specs.reading.model import read_model
from meshwright.specs.weights import parameter_count
from small_config import SIZES

CONFIGS = Path(__file__).parents[2] / "data" / "hf_configs"
MIXTURE = SIZES | {"num_local_experts": 4, "num_experts_per_tok": 2}
REFUSED = {
    "MiniMaxAI--MiniMax-M3": "block-sparse attention (sparse_attention_config)",
    "Qwen--Qwen3.5-122B-A10B": "linear attention layers (linear_num_key_heads, layer_types)",
    "Qwen--Qwen3.5-27B": "linear attention layers (linear_num_key_heads, layer_types)",
    "Qwen--Qwen3.5-35B-A3B": "linear attention layers (linear_num_key_heads, layer_types)",
    "Qwen--Qwen3.5-397B-A17B": "linear attention layers (linear_num_key_heads, layer_types)",
    "XiaomiMiMo--MiMo-7B-Base": "layers that only the code in its own repository defines",
    "XiaomiMiMo--MiMo-V2-Flash": "heads of their own in full or sliding layers (swa_num_key_value_heads)",
    "deepseek-ai--DeepSeek-V3.2": "sparse attention that an indexer selects (index_topk)",
    "deepseek-ai--DeepSeek-V4-Flash": "compressed attention (compress_ratios)",
    "deepseek-ai--DeepSeek-V4-Pro": "hyper-connections between layers (hc_mult)",
    "google--gemma-4-26B-A4B": "keys that serve as values (attention_k_eq_v)",
    "meta-llama--Llama-4-Maverick-17B-128E-Instruct": "chunked attention",
    "meta-llama--Llama-4-Scout-17B-16E-Instruct": "chunked attention",
    "moonshotai--Kimi-K3": "linear attention layers (linear_attn_config)",
    "nvidia--Llama-3_3-Nemotron-Super-49B-v1": "layers that each have a shape of their own (block_configs)",
    "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "Mamba layers (mamba_num_heads, ssm_state_size)",
    "nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": "Mamba layers (mamba_num_heads, ssm_state_size)",
    "nvidia--Nemotron-H-56B-Base-8K": "Mamba layers (mamba_num_heads, ssm_state_size)",
    "stepfun-ai--Step-3.7-Flash": "gates on the attention output",
    "zai-org--GLM-5": "sparse attention that an indexer selects (index_topk)",
    "zai-org--GLM-5.1": "sparse attention that an indexer selects (index_topk)",
    "zai-org--GLM-5.2": "sparse attention that an indexer selects (index_topk)",
}
TEXT_ONLY = {
    "Qwen--Qwen3-VL-235B-A22B-Instruct": "qwen3_vl_moe_text",
    "Qwen--Qwen3-VL-2B-Instruct": "qwen3_vl_text",
    "Qwen--Qwen3-VL-30B-A3B-Instruct": "qwen3_vl_moe_text",
    "Qwen--Qwen3-VL-32B-Instruct": "qwen3_vl_text",
    "Qwen--Qwen3-VL-32B-Thinking": "qwen3_vl_text",
    "Qwen--Qwen3-VL-4B-Instruct": "qwen3_vl_text",
    "Qwen--Qwen3-VL-8B-Instruct": "qwen3_vl_text",
    "moonshotai--Kimi-K2.5": "kimi_k2",
}


def refusal(config: Path | dict[str, Any], *, text_only: bool = False) -> str:
    with pytest.raises(NotModelled) as caught:
        read_model(config, text_only=text_only)
    return str(caught.value)


@pytest.mark.parametrize("text_only", [False, True])
@pytest.mark.parametrize(("name", "feature"), REFUSED.items())
def test_a_published_file_is_refused_by_what_is_not_modelled(name: str, feature: str, text_only: bool) -> None:
    message = refusal(CONFIGS / f"{name}.json", text_only=text_only)
    assert feature in message
    assert name in message


@pytest.mark.parametrize("name", REFUSED)
def test_its_name_is_refused_as_its_file_is(name: str) -> None:
    with pytest.raises(NotModelled, match=r"is not modelled, nor is its config\.json read: ") as caught:
        read_model(name.replace("--", "/"))
    assert str(caught.value).rpartition(": ")[2] in refusal(CONFIGS / f"{name}.json")


@pytest.mark.parametrize("name", ["llama4-scout", "Llama 4 Maverick", "glm-5.1", "nemotron-h-8b"])
def test_a_short_name_of_a_model_that_is_not_modelled_is_refused(name: str) -> None:
    with pytest.raises(NotModelled, match="is not modelled"):
        read_model(name)


@pytest.mark.parametrize("name", ["llama-40b", "llama-2-7c", "mimosa", "qwen3-5b"])
def test_other_names_that_nothing_has_are_unknown(name: str) -> None:
    with pytest.raises(UnknownName):
        read_model(name)


@pytest.mark.parametrize(("name", "inner"), TEXT_ONLY.items())
def test_a_multimodal_file_points_to_its_language_model(name: str, inner: str) -> None:
    message = refusal(CONFIGS / f"{name}.json")
    assert f"its language model ({inner}) is: plan it alone with --text-only" in message
    model = read_model(CONFIGS / f"{name}.json", text_only=True)
    assert model.family == inner
    assert "towers" in model.assumptions[0]


def test_every_published_file_is_read_or_refused() -> None:
    read = [path for path in CONFIGS.glob("*.json") if path.stem not in {*REFUSED, *TEXT_ONLY}]
    assert read
    assert [path.name for path in read if parameter_count(read_model(path)) <= 0] == []


def test_a_wrapper_whose_language_model_is_not_read_says_both() -> None:
    message = refusal(CONFIGS / "Qwen--Qwen3.5-27B.json")
    assert "qwen3_5 wraps a language model" in message
    assert "nor is its language model (qwen3_5_text): linear attention layers" in message
    message = refusal({"model_type": "idefics", "text_config": {"model_type": "opt"}})
    assert "opt is not one of the families that are read: deepseek_v2, " in message


def test_a_wrapper_ties_as_it_says_itself() -> None:
    text = {"model_type": "qwen3_vl_text", **SIZES, "tie_word_embeddings": True}
    wrapper = {"model_type": "qwen3_vl", "tie_word_embeddings": False, "text_config": text}
    assert not read_model(wrapper, text_only=True).tied_embeddings
    assert read_model({"model_type": "qwen3_vl", "text_config": text}, text_only=True).tied_embeddings


def test_an_unknown_type_names_the_nearest_and_all_that_are_read() -> None:
    with pytest.raises(UnknownName) as caught:
        read_model({"model_type": "lama", **SIZES})
    message = str(caught.value)
    assert "unknown model_type 'lama'; nearest: llama" in message
    assert all(family in message for family in FAMILIES)
    assert "native TOML file" in message
    assert message.count("qwen3_vl_moe_text") == 1


def test_a_type_that_is_near_to_none_lists_the_families_once() -> None:
    with pytest.raises(UnknownName) as caught:
        read_model({"model_type": "whisper", **SIZES})
    message = str(caught.value)
    assert "nearest" not in message
    assert message.count("gpt_neox") == 1


@pytest.mark.parametrize("text_only", [False, True])
def test_a_flat_multimodal_file_is_not_read(text_only: bool) -> None:
    message = refusal({"model_type": "qwen2_5_vl", "vision_config": {"depth": 32}, **SIZES}, text_only=text_only)
    assert "qwen2_5_vl is not read yet, not even its language model; read: deepseek_v2, " in message


@pytest.mark.parametrize(
    ("family", "sizes", "changes", "feature"),
    [
        ("gpt2", SIZES | {"n_positions": 8}, {"add_cross_attention": True}, "cross-attention (add_cross_attention)"),
        ("gemma2", SIZES, {"use_bidirectional_attention": True}, "not causal (use_bidirectional_attention)"),
        ("minimax_m2", MIXTURE, {"attn_type_list": [1, 0]}, "linear attention layers (attn_type_list)"),
        ("minimax_m2", MIXTURE, {"shared_intermediate_size": 8}, "shared experts (shared_intermediate_size)"),
        ("minimax_m2", MIXTURE, {"qk_norm_type": "per_head"}, "'per_head' (use_qk_norm, qk_norm_type)"),
        ("llama", SIZES, {"num_local_experts": 8}, "experts, which this family does not have (num_local_experts)"),
        ("qwen3", SIZES, {"num_experts": 8}, "experts, which this family does not have (num_experts)"),
        ("llama", SIZES, {"use_mamba": True}, "Mamba layers (use_mamba)"),
        ("llama", SIZES, {"is_encoder_decoder": True}, "an encoder (is_encoder_decoder)"),
        ("qwen3", SIZES, {"architectures": ["Qwen3ForMaskedLM"]}, "an encoder, Qwen3ForMaskedLM (architectures)"),
        ("llama", SIZES, {"architectures": ["LlamaBidirectionalModel"]}, "an encoder, LlamaBidirectionalModel"),
        ("bert", SIZES, {"architectures": ["BertForMaskedLM"]}, "bert is not modelled: an encoder, BertForMaskedLM"),
        (
            "qwen2",
            SIZES,
            {"layer_types": ["full_attention", "linear_attention"]},
            "linear attention layers (layer_types)",
        ),
        ("qwen2", SIZES, {"layer_types": ["chunked_attention"] * 2}, "chunked_attention layers (layer_types)"),
    ],
)
def test_an_option_that_is_not_modelled(family: str, sizes: Any, changes: dict[str, Any], feature: str) -> None:
    assert feature in refusal({"model_type": family, **sizes, **changes})


def test_more_options_that_are_not_modelled() -> None:
    qwen = SIZES | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "head_dim": 16}
    message = refusal({"model_type": "qwen3_moe", **qwen, "shared_expert_intermediate_size": 8})
    assert "shared experts (shared_expert_intermediate_size)" in message
    latent = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}
    experts = {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
    config = {"model_type": "deepseek_v2", **SIZES, **latent, **experts, "first_k_dense_replace": 1, "mlp_bias": True}
    assert "biases on dense blocks and shared experts (mlp_bias)" in refusal(config)

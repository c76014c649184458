"""What a config.json becomes: sizes, layer kinds and their order, windows, assumptions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from meshwright.errors import InvalidSpec
from meshwright.specs.model import Experts, Mlp, Model
from meshwright.specs.reading.model import read_model
from meshwright.specs.weights import (
    active_parameter_count,
    embedding_weights,
    head_weights,
    layer_weights,
    mtp_weights,
    parameter_count,
)

CONFIGS = Path(__file__).parents[2] / "data" / "hf_configs"
SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
    "tie_word_embeddings": False,
}
LATENT = SIZES | {
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 4,
    "v_head_dim": 10,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "first_k_dense_replace": 1,
}
QWEN_MOE = SIZES | {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "head_dim": 16}


def read(family: str, sizes: dict[str, Any] = SIZES, **changes: Any) -> Model:
    return read_model({"model_type": family, **sizes, **changes})


def names(model: Model) -> list[str]:
    return [model.layer_kinds[index].name for index in model.layer_pattern]


def windows(model: Model) -> list[int | None]:
    return [model.layer_kinds[index].attention.window for index in model.layer_pattern]


@pytest.mark.parametrize(
    ("name", "parameters", "active"),
    [
        ("meta-llama--Meta-Llama-3.1-8B", 8_030_261_248, 8_030_261_248),
        ("meta-llama--Meta-Llama-3.1-70B", 70_553_706_496, 70_553_706_496),
        ("meta-llama--Meta-Llama-3.1-405B", 405_853_388_800, 405_853_388_800),
        ("mistralai--Mixtral-8x7B-v0.1", 46_702_792_704, 12_879_925_248),
        ("Qwen--Qwen3-235B-A22B", 235_093_634_560, 22_190_763_520),
        ("deepseek-ai--DeepSeek-V3", 671_026_404_352, 37_552_282_624),
        ("openai--gpt-oss-120b", 116_829_156_672, 5_711_982_912),
    ],
)
def test_a_published_model_has_the_published_parameters(name: str, parameters: int, active: int) -> None:
    model = read_model(CONFIGS / f"{name}.json")
    assert (parameter_count(model), active_parameter_count(model)) == (parameters, active)
    assert model.name == name


@pytest.mark.parametrize(("name", "billions"), [("glm-4.5-air", 110), ("glm-4.5", 358)])
def test_glm_has_the_parameters_of_its_files(name: str, billions: int) -> None:
    """They hold the layer of multi-token prediction too, with an embedding and a head of its own."""
    model = read_model(name)
    last = model.layer_kinds[model.layer_pattern[-1]]
    prediction = [*mtp_weights(model), *layer_weights(model, last), *embedding_weights(model), *head_weights(model)]
    assert round(parameter_count(model) / 1e9 + sum(each.elements for each in prediction) / 1e9) == billions


def test_a_path_is_read_as_its_file() -> None:
    path = CONFIGS / "Qwen--Qwen3-0.6B.json"
    assert read_model(path) == read_model(str(path))


def test_head_size_is_what_the_file_says_and_not_hidden_over_heads() -> None:
    assert read_model(CONFIGS / "Qwen--Qwen3-0.6B.json").layer_kinds[0].attention.head_dim == 128
    assert read("llama").layer_kinds[0].attention.head_dim == 16


def test_latent_attention_takes_its_head_size_from_its_parts() -> None:
    attention = read("deepseek_v3", LATENT, head_dim=4).layer_kinds[0].attention
    assert (attention.heads, attention.kv_heads, attention.head_dim, attention.value_head_dim) == (4, 4, 16, 10)


def test_falcon_has_one_key_head_unless_its_new_architecture_gives_more() -> None:
    falcon = {key: value for key, value in SIZES.items() if key not in ("num_key_value_heads", "intermediate_size")}
    assert read("falcon", falcon, num_kv_heads=4).layer_kinds[0].attention.kv_heads == 1
    assert read("falcon", falcon, multi_query=False).layer_kinds[0].attention.kv_heads == 4
    new = read("falcon", falcon, new_decoder_architecture=True, num_kv_heads=2).layer_kinds[0]
    assert (new.attention.kv_heads, new.norms, new.parallel_residual) == (2, 2, True)


def test_intermediate_size_is_one_expert_of_mixtral_and_the_dense_layers_of_qwen() -> None:
    expert = read("mixtral", num_local_experts=4, num_experts_per_tok=2).layer_kinds[0].feed_forward
    assert isinstance(expert, Experts)
    assert expert.ffn_size == 96
    dense, moe = read("qwen3_moe", QWEN_MOE, mlp_only_layers=[0]).layer_kinds
    assert isinstance(dense.feed_forward, Mlp)
    assert isinstance(moe.feed_forward, Experts)
    assert (dense.feed_forward.ffn_size, moe.feed_forward.ffn_size) == (96, 24)


@pytest.mark.parametrize(
    ("family", "sizes", "changes", "expected"),
    [
        ("deepseek_v3", LATENT, {"first_k_dense_replace": 2}, ["dense"] * 2 + ["moe"] * 4),
        ("deepseek_v3", LATENT, {"moe_layer_freq": 2}, ["dense", "dense", "moe", "dense", "moe", "dense"]),
        ("qwen3_moe", QWEN_MOE, {"decoder_sparse_step": 2}, ["dense", "moe"] * 3),
        ("qwen3_moe", QWEN_MOE, {"mlp_only_layers": [1, 5]}, ["moe", "dense", "moe", "moe", "moe", "dense"]),
        ("gemma2", SIZES, {}, ["sliding", "full"] * 3),
        ("gemma3_text", SIZES, {}, ["sliding"] * 5 + ["full"]),
        ("mistral", SIZES, {}, ["dense"] * 6),
        (
            "qwen2_moe",
            QWEN_MOE,
            {"shared_expert_intermediate_size": 40, "use_sliding_window": True, "mlp_only_layers": [0]},
            ["dense sliding", "moe full", "moe sliding", "moe full", "moe sliding", "moe full"],
        ),
    ],
)
def test_layer_kinds_stand_in_the_order_of_the_family(
    family: str, sizes: dict[str, Any], changes: dict[str, Any], expected: list[str]
) -> None:
    model = read(family, sizes, **changes)
    assert names(model) == expected
    assert len(model.layer_kinds) == len(set(expected))


@pytest.mark.parametrize(
    ("family", "changes", "expected"),
    [
        ("mistral", {"sliding_window": 8}, [8] * 6),
        ("mistral", {"sliding_window": None}, [None] * 6),
        ("mistral", {}, [4096] * 6),
        ("phi3", {"sliding_window": 2047}, [2047] * 6),
        ("phi3", {}, [None] * 6),
        ("llama", {"sliding_window": 8}, [None] * 6),
        ("qwen2", {"sliding_window": 8, "max_window_layers": 2}, [None] * 6),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 4}, [None] * 4 + [8] * 2),
        ("gemma2", {"layer_types": ["full_attention"] * 5 + ["sliding_attention"]}, [None] * 5 + [4096]),
        ("gemma3_text", {"sliding_window": 512}, [512] * 5 + [None]),
    ],
)
def test_windows(family: str, changes: dict[str, Any], expected: list[int | None]) -> None:
    assert windows(read(family, **changes)) == expected


def test_a_shared_expert_is_as_wide_as_all_shared_experts_together() -> None:
    block = read("deepseek_v3", LATENT).layer_kinds[1].feed_forward
    assert isinstance(block, Experts)
    assert (block.shared_ffn_size, block.shared_gate) == (48, False)


def test_two_spellings_of_one_value_mean_the_same() -> None:
    gpt2 = {"vocab_size": 100, "n_positions": 8}
    short = read("gpt2", gpt2, n_embd=64, n_layer=2, n_head=4, n_inner=None)
    assert short == read("gpt2", gpt2, hidden_size=64, num_hidden_layers=2, num_attention_heads=4)
    old = {key: value for key, value in QWEN_MOE.items() if key != "num_experts"}
    assert read("qwen3_moe", QWEN_MOE) == read("qwen3_moe", old, num_local_experts=6)


def test_a_whole_float_is_a_count() -> None:
    assert read("llama", hidden_size=64.0) == read("llama")


@pytest.mark.parametrize(
    ("family", "tied"), [("llama", False), ("gemma2", True), ("gpt2", True), ("falcon", True), ("gpt_neox", False)]
)
def test_an_omitted_tie_takes_the_default_of_the_family_and_says_so(family: str, tied: bool) -> None:
    sizes = {key: value for key, value in SIZES.items() if key != "tie_word_embeddings"}
    model = read(family, sizes, n_positions=8)
    assert model.tied_embeddings is tied
    assert any(f"tie_word_embeddings is not in the file: {str(tied).lower()}" in told for told in model.assumptions)


@pytest.mark.parametrize(
    ("family", "changes", "groups"),
    [
        ("deepseek_v3", {}, (8, 4)),
        ("deepseek_v3", {"n_group": 4, "topk_group": 2}, (4, 2)),
        ("kimi_k2", {"n_group": 1, "topk_group": 1}, (1, 1)),
        ("deepseek_v3", {"n_group": None, "topk_group": None}, (1, 1)),
        ("deepseek_v2", {"n_group": 4, "topk_group": 2, "topk_method": "group_limited_greedy"}, (4, 2)),
        ("deepseek_v2", {"n_group": 4, "topk_group": 2, "topk_method": "greedy"}, (1, 1)),
        ("deepseek_v2", {}, (1, 1)),
    ],
)
def test_a_router_of_deepseek_limits_a_token_to_groups(
    family: str, changes: dict[str, Any], groups: tuple[int, int]
) -> None:
    block = read(family, LATENT, **changes).layer_kinds[1].feed_forward
    assert isinstance(block, Experts)
    assert (block.groups, block.active_groups) == groups


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"n_group": 3}, "n_group: must divide n_routed_experts 8"),
        ({"n_group": 2, "topk_group": 3}, "topk_group: cannot exceed n_group 2"),
        ({"topk_group": 1}, "active 2 experts per token cannot exceed the 1 of 1 groups"),
    ],
)
def test_groups_that_no_router_can_have_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSpec, match=said):
        read("deepseek_v3", LATENT, **changes)


@pytest.mark.parametrize("key", ["num_nextn_predict_layers", "num_mtp_layers", "num_mtp_modules"])
def test_layers_of_multi_token_prediction_are_read_and_no_part_of_the_others(key: str) -> None:
    with_mtp = read("deepseek_v3", LATENT, **{key: 1})
    assert with_mtp.mtp_layers == 1
    assert with_mtp.replace(mtp_layers=0) == read("deepseek_v3", LATENT)


def test_quantized_weights_are_told() -> None:
    told = read("llama", quantization_config={"quant_method": "fp8"}).assumptions
    assert told == ("the file's weights are fp8 (quantization_config); they are planned in the job's precision",)


def test_a_complete_file_needs_no_assumption() -> None:
    assert read_model(CONFIGS / "meta-llama--Meta-Llama-3.1-8B.json").assumptions == ()


def test_what_a_class_ignores_or_leaves_open_is_told() -> None:
    told = read("deepseek_v3", LATENT, moe_layer_freq=2).assumptions
    assert "moe_layer_freq 2 is read as in DeepSeek's own code" in told[0]
    falcon = {key: value for key, value in SIZES.items() if key != "intermediate_size"}
    assert "alibi is planned like rotary positions" in read("falcon", falcon, alibi=True).assumptions[0]


def test_absurd_sizes_are_only_numbers() -> None:
    assert parameter_count(read("gpt_neox", hidden_size=2**28)) > 2**56


@pytest.mark.parametrize(
    ("family", "class_name", "heads", "value", "told"),
    [
        ("llama", "LlamaConfig", 32, 32, "32, as many as query heads,"),
        ("phi3", "Phi3Config", 32, 32, "32, as many as query heads,"),
        ("qwen2", "Qwen2Config", 64, 32, "32"),
        ("qwen3", "Qwen3Config", 64, 32, "32"),
        ("mistral", "MistralConfig", 32, 8, "8"),
    ],
)
def test_missing_key_value_heads_are_told(family: str, class_name: str, heads: int, value: int, told: str) -> None:
    sizes = {name: size for name, size in SIZES.items() if name != "num_key_value_heads"}
    model = read(family, sizes, hidden_size=4096, num_attention_heads=heads)
    assert model.layer_kinds[0].attention.kv_heads == value
    assert f"num_key_value_heads is not in the file: {told} is the default of {class_name}" in model.assumptions
    given = read(family, SIZES, hidden_size=4096, num_attention_heads=heads)
    assert "num_key_value_heads" not in str(given.assumptions)


def test_missing_key_value_heads_of_a_new_falcon_are_told() -> None:
    falcon = {name: size for name, size in SIZES.items() if name not in ("num_key_value_heads", "intermediate_size")}
    assert "num_k" not in str(read("falcon", falcon).assumptions)
    told = read("falcon", falcon, new_decoder_architecture=True).assumptions
    assert "num_kv_heads is not in the file: 4, as many as query heads, is the default of FalconConfig" in told


def test_families_without_grouped_queries_say_nothing_of_them() -> None:
    assert "num_key_value_heads" not in str(read("gpt_neox").assumptions)


def test_another_head_than_that_of_a_language_model_is_told() -> None:
    told = read("llama", architectures=["LlamaForSequenceClassification"]).assumptions
    assert "planned with the head of a language model; the file's LlamaForSequenceClassification has another" in told
    assert read("llama", architectures=["LlamaForCausalLM"]).assumptions == read("llama").assumptions

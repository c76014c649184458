"""A config.json that breaks its own rules: every fault at once, each with its key and value."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.errors import InvalidSpec
from meshwright.specs.model import MAX_LAYERS
from meshwright.specs.reading.model import read_model
from small_config import LLAMA

MIXTRAL = LLAMA | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
FALCON = {
    "model_type": "falcon",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
}


def faults(config: dict[str, Any], **changes: Any) -> dict[str, str]:
    with pytest.raises(InvalidSpec) as caught:
        read_model(config | changes, text_only=True)
    return {fault.where: fault.what for fault in caught.value.faults}


@pytest.mark.parametrize(
    "key", [key for key in LLAMA if key not in ("model_type", "num_key_value_heads", "tie_word_embeddings")]
)
def test_a_missing_size_is_named(key: str) -> None:
    config = {name: value for name, value in LLAMA.items() if name != key}
    assert faults(config)[key] == "is missing"


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (True, "must be a whole number, not a boolean (given: True)"),
        ("64", "must be a whole number, not a string (given: '64')"),
        (64.5, "must be a whole number (given: 64.5)"),
        (float("inf"), "must be a whole number (given: inf)"),
        (float("nan"), "must be a whole number (given: nan)"),
        (None, "must be a whole number, not null"),
        ([64], "must be a whole number, not a list"),
        ({}, "must be a whole number, not an object"),
        (0, "must be greater than 0 (given: 0)"),
        (-64, "must be greater than 0 (given: -64)"),
    ],
)
def test_a_size_of_the_wrong_kind_is_told_with_its_value(value: object, what: str) -> None:
    assert faults(LLAMA, vocab_size=value) == {"vocab_size": what}


def test_a_flag_is_true_or_false() -> None:
    assert faults(LLAMA, mlp_bias="yes") == {"mlp_bias": "must be true or false (given: 'yes')"}
    assert "given: 'yes'" in faults(LLAMA, attention_bias="yes")["attention_bias"]
    assert "given: 1" in faults(LLAMA, tie_word_embeddings=1)["tie_word_embeddings"]


def test_all_faults_are_told_at_once() -> None:
    config = LLAMA | {"hidden_size": 0, "num_key_value_heads": 3, "vocab_size": "100", "hidden_act": "mish"}
    del config["intermediate_size"]
    assert set(faults(config)) == {
        "hidden_size",
        "num_key_value_heads",
        "intermediate_size",
        "vocab_size",
        "hidden_act",
    }


def test_the_message_lists_every_fault_and_the_class() -> None:
    with pytest.raises(InvalidSpec) as caught:
        read_model(LLAMA | {"vocab_size": 0, "num_key_value_heads": 3})
    message = str(caught.value)
    assert message.startswith("the config (LlamaConfig) is not valid:")
    assert "\n  - num_key_value_heads: must divide num_attention_heads 4 (given: 3)" in message
    assert "\n  - vocab_size: " in message


@pytest.mark.parametrize(
    ("config", "changes", "where", "what"),
    [
        (LLAMA, {"num_attention_heads": 6, "num_key_value_heads": 6}, "head_dim", "hidden_size 64 is no multiple"),
        (LLAMA, {"num_hidden_layers": MAX_LAYERS + 1}, "num_hidden_layers", f"less than or equal to {MAX_LAYERS}"),
        (LLAMA, {"hidden_act": "mish"}, "hidden_act", "is not an activation that is modelled: silu"),
        (MIXTRAL, {"num_experts_per_tok": 5}, "num_experts_per_tok", "cannot exceed num_local_experts 4"),
        (MIXTRAL, {"num_experts": 8}, "num_local_experts", "is 4, but num_experts is 8"),
        (LLAMA, {"model_type": "gemma2", "layer_types": ["full_attention"]}, "layer_types", "has 1 entries for"),
        (LLAMA, {"model_type": "gemma2", "sliding_window": None}, "", "sliding_window is null or switched off"),
        (
            LLAMA,
            {"model_type": "qwen2", "layer_types": ["sliding_attention", "full_attention"]},
            "",
            "some layers are sliding_attention",
        ),
        (
            LLAMA,
            {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 0},
            "",
            "use_sliding_window is true, but sliding_window is 0",
        ),
        (FALCON, {"multi_query": False, "num_kv_heads": 2}, "num_kv_heads", "must equal num_attention_heads 4"),
        (FALCON, {"new_decoder_architecture": True, "num_kv_heads": 3}, "num_kv_heads", "must divide"),
        (FALCON, {"num_ln_in_parallel_attn": 3}, "num_ln_in_parallel_attn", "must be 1 or 2"),
    ],
)
def test_values_that_contradict_each_other(config: dict[str, Any], changes: Any, where: str, what: str) -> None:
    assert what in faults(config, **changes)[where]


@pytest.mark.parametrize(("family", "key"), [("qwen2_moe", "num_experts"), ("deepseek_v3", "n_routed_experts")])
def test_more_active_experts_than_experts(family: str, key: str) -> None:
    assert (
        f"cannot exceed {key} 4"
        in faults(LLAMA, model_type=family, **{key: 4}, num_experts_per_tok=5)["num_experts_per_tok"]
    )


def test_latent_attention_must_say_whether_queries_are_compressed() -> None:
    missing = faults(LLAMA, model_type="deepseek_v3")
    assert missing["q_lora_rank"] == "is missing"
    assert "num_key_value_heads" not in missing


@pytest.mark.parametrize("model_type", [None, "", 7, ["llama"]])
def test_no_usable_model_type(model_type: object) -> None:
    found = faults({"model_type": model_type})["model_type"]
    assert "llama" in found


def test_faults_of_a_wrapped_model_stand_in_text_config() -> None:
    found = faults({"model_type": "qwen3_vl"}, text_config={"model_type": "qwen3_vl_text", "hidden_size": -1})
    assert "given: -1" in found["text_config.hidden_size"]
    assert found["text_config.vocab_size"] == "is missing"


@pytest.mark.parametrize("inner", [None, [], "qwen3"])
def test_a_wrapper_needs_an_object_inside(inner: object) -> None:
    assert "as an object" in faults({"model_type": "qwen3_vl"}, text_config=inner)["text_config"]


def test_a_wrapper_without_its_language_model() -> None:
    assert "must hold the language model of gemma3" in faults({"model_type": "gemma3"})["text_config"]


def test_a_width_that_follows_from_a_faulty_size_is_no_fault_of_its_own() -> None:
    gpt2 = {"model_type": "gpt2", "n_layer": 2, "n_head": 4, "n_positions": 8, "vocab_size": 100}
    for value in (0, "64", float("inf")):
        assert set(faults(gpt2, n_embd=value)) == {"n_embd"}


def test_a_wrapper_without_a_known_inner_type() -> None:
    assert "is missing" in faults({"model_type": "llava"}, text_config={})["text_config.model_type"]


def test_a_misspelled_key_is_told_with_the_one_that_is_read() -> None:
    config = {name: value for name, value in LLAMA.items() if name != "num_key_value_heads"}
    meant = {"num_key_value_heds": "is not a key of LlamaConfig; did you mean num_key_value_heads?"}
    assert faults(config, num_key_value_heds=2) == meant
    assert faults(MIXTRAL, num_local_expert=4, num_local_experts=None)["num_local_experts"]
    wrapped = {"model_type": "qwen3_vl", "text_config": {**config, "model_type": "qwen3_vl_text", "hiden_size": 64}}
    assert "did you mean" not in str(faults(wrapped))
    del wrapped["text_config"]["hidden_size"]
    assert "did you mean hidden_size?" in faults(wrapped)["text_config.hiden_size"]


def test_a_key_that_is_there_under_any_of_its_names_is_not_missed() -> None:
    gpt2 = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 8, "vocab_size": 100}
    assert read_model(gpt2 | {"hidden_sizes": 3, "_n_inner": 5, "num_attention_head": 4}).hidden_size == 64
    del gpt2["n_embd"]
    assert "did you mean hidden_size?" in faults(gpt2, hidden_sizes=64)["hidden_sizes"]


def test_a_fault_of_a_default_says_that_it_is_none_of_the_file() -> None:
    config = {name: value for name, value in LLAMA.items() if name != "num_key_value_heads"}
    told = faults(config, model_type="qwen2")["num_key_value_heads"]
    assert told == "must divide num_attention_heads 4 (not in the file; the default of Qwen2Config: 32)"

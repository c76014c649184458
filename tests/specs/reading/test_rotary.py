"""The factor of scaled rotary positions equals that of transformers."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.specs.reading.huggingface.rotary import rotary_factor
from meshwright.specs.reading.huggingface.values import config_values
from meshwright.specs.reading.model import read_model

PARAMETERS: list[dict[str, Any]] = [
    {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "beta_fast": 32.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
    {"rope_type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 1.0},
    {"rope_type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "mscale": 0.7, "mscale_all_dim": 1.0},
    {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096, "attention_factor": 1.5},
]


@pytest.mark.clients("torch", "transformers")
@pytest.mark.parametrize("parameters", PARAMETERS)
def test_the_factor_is_that_of_transformers(parameters: dict[str, Any]) -> None:
    transformers = pytest.importorskip("transformers")
    functions = pytest.importorskip("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "max_position_embeddings": 131072}
    config = transformers.LlamaConfig(**sizes, rope_parameters={"rope_theta": 10000.0, **parameters})
    _, factor = functions["yarn"](config, "cpu")
    assert rotary_factor(parameters) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("name", "scaled"), [("gpt-oss-120b", True), ("deepseek-v3", False), ("kimi-k2", False), ("llama-3.1-8b", False)]
)
def test_models_whose_rotary_positions_are_scaled(name: str, scaled: bool) -> None:
    assert {kind.attention.scaled_rotary for kind in read_model(name).layer_kinds} == {scaled}


def test_a_gpt_oss_without_parameters_takes_those_of_its_class() -> None:
    config = {"model_type": "gpt_oss", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config |= {"head_dim": 16, "intermediate_size": 32, "vocab_size": 96, "num_local_experts": 4}
    config |= {"num_experts_per_tok": 2, "num_key_value_heads": 2}
    assert read_model(config).layer_kinds[0].attention.scaled_rotary
    plain = read_model(config | {"rope_scaling": {"rope_type": "default"}})
    assert not plain.layer_kinds[0].attention.scaled_rotary


@pytest.mark.clients("torch", "transformers")
@pytest.mark.parametrize(
    ("rotary", "values"),
    [
        ({}, {}),
        ({"original_max_position_embeddings": 8192}, {}),
        ({"original_max_position_embeddings": 8192}, {"original_max_position_embeddings": 16384}),
        ({}, {"original_max_position_embeddings": 16384}),
    ],
)
def test_positions_are_scaled_from_what_transformers_takes(rotary: dict[str, int], values: dict[str, int]) -> None:
    transformers = pytest.importorskip("transformers")
    given = {"max_position_embeddings": 40960, "rope_scaling": {"type": "yarn", "factor": 4.0, **rotary}, **values}
    config = transformers.Qwen3Config(**given)
    pytest.importorskip("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")
    taken = config.rope_parameters["original_max_position_embeddings"]
    assert config_values(given)["rope.original_max_position_embeddings"] == taken

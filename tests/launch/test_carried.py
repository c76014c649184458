"""Carried: values of a config.json that no price rests on reach the launch files, by way of plan files too."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from commands import LLAMA, asked
from launch_configs import DEEPSEEK, LLAMA_31
from meshwright.answers.launch.files import launch_files
from meshwright.errors import InvalidSpec
from meshwright.launch.architecture import same_architecture
from meshwright.launch.carried import carried_settings
from meshwright.launch.spelling import Settings, understand
from meshwright.launch.table import launch_table, launch_tables
from meshwright.layout.plan import Plan
from meshwright.specs.model import Model
from meshwright.specs.reading.huggingface.values import KEYS, config_values
from meshwright.specs.reading.model import read_model
from strategies import question


def with_values(model: str, config: dict[str, Any]) -> Model:
    return read_model(model).replace(family=config.get("model_type", "llama"), config_values=config_values(config))


def carried(model: str, config: dict[str, Any]) -> Settings:
    return carried_settings(with_values(model, config), launch_table("megatron-lm"))


def test_llama_is_carried_to_megatron() -> None:
    assert carried("llama-3.1-8b", LLAMA_31) == {
        "--rotary-base": 500000,
        "--norm-epsilon": 1e-05,
        "--init-method-std": 0.02,
        "--use-rope-scaling": True,
        "--rope-scaling-factor": 8.0,
    }


def test_the_router_and_the_rotary_positions_of_deepseek_are_carried() -> None:
    assert carried("deepseek-v3", DEEPSEEK) == {
        "--rope-type": "yarn",
        "--rotary-scaling-factor": 40,
        "--mscale": 1.0,
        "--mscale-all-dim": 1.0,
        "--moe-router-score-function": "sigmoid",
        "--moe-router-topk-scaling-factor": 2.5,
        "--moe-router-enable-expert-bias": True,
    }


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        ({"rope_theta": 5e4}, {"--rotary-base": 50000, "--rope-type": "rope", "--no-rope-fusion": True}),
        ({"norm_topk_prob": False}, {"--moe-router-pre-softmax": True}),
        ({"norm_topk_prob": True}, {}),
        (
            {"aux_loss_alpha": 1e-3, "seq_aux": True},
            {"--moe-aux-loss-coeff": 1e-3, "--moe-router-load-balancing-type": "seq_aux_loss"},
        ),
    ],
)
def test_latent_attention_without_scaling_and_routers_are_carried(config: dict[str, Any], settings: Settings) -> None:
    assert carried("deepseek-v2-lite", {"model_type": "deepseek_v3", **config}) == settings


@pytest.mark.parametrize(
    ("config", "share"),
    [
        ({"model_type": "phi3", "partial_rotary_factor": 0.75}, 0.75),
        ({"model_type": "phi3", "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.75}}, 0.75),
        ({"model_type": "phi3"}, None),
        ({"model_type": "gpt_neox", "rotary_pct": 0.5}, 0.5),
        ({"model_type": "gpt_neox"}, 0.25),
        ({"model_type": "glm4_moe"}, 0.5),
        ({"model_type": "llama", "partial_rotary_factor": 0.5}, None),
    ],
)
def test_the_share_of_a_head_that_has_positions_is_carried(config: dict[str, Any], share: float | None) -> None:
    assert carried("phi-3-mini", config).get("--rotary-percent") == share


def test_positions_of_a_part_of_a_head_are_refused_where_no_setting_says_them() -> None:
    model = with_values("phi-3-mini", {"model_type": "phi3", "partial_rotary_factor": 0.75})
    recipe = carried_settings(model, launch_table("megatron-bridge"))
    assert recipe["--rotary-percent"] == 0.75
    for name in ("nanotron", "llm-foundry"):
        with pytest.raises(
            InvalidSpec, match=r"partial_rotary_factor: is 0\.75; .* takes 1, and has no setting for it"
        ):
            carried_settings(model, launch_table(name))


def test_the_router_of_glm_is_carried_without_keys_of_its_file() -> None:
    """Glm4MoeTopkRouter takes sigmoids and adds a bias to choose by, whatever the file says."""
    settings = carried("qwen3-30b-a3b", {"model_type": "glm4_moe", "routed_scaling_factor": 2.5})
    assert settings["--moe-router-score-function"] == "sigmoid"
    assert settings["--moe-router-enable-expert-bias"]


def test_scaled_positions_of_gpt_oss_are_carried() -> None:
    """Megatron-LM takes a factor of 1 where it is left out: positions of another model."""
    assert carried_settings(read_model("gpt-oss-20b"), launch_table("megatron-lm")) == {
        "--rotary-scaling-factor": 32.0,
        "--yarn-original-max-position-embeddings": 4096,
        "--yarn-beta-fast": 32.0,
        "--yarn-beta-slow": 1.0,
        "--no-yarn-correction-range-round-to-int": True,
    }


YARN = {"model_type": "qwen3", "rope_scaling": {"type": "yarn", "factor": 4.0}}


@pytest.mark.parametrize(
    ("values", "original"),
    [
        ({"max_position_embeddings": 40960}, 40960),
        ({"max_position_embeddings": 40960, "original_max_position_embeddings": 32768}, 32768),
        ({"rope_scaling": YARN["rope_scaling"] | {"original_max_position_embeddings": 8192}}, 8192),
    ],
)
def test_yarn_scales_from_what_transformers_takes(values: dict[str, Any], original: int) -> None:
    """Megatron-LM takes 4096 where it is left out."""
    settings = carried("qwen3-8b", YARN | values)
    assert settings["--yarn-original-max-position-embeddings"] == original


def test_yarn_from_nobody_knows_where_is_refused() -> None:
    with pytest.raises(InvalidSpec, match=r"original_max_position_embeddings: is missing.* would take 4096"):
        carried("qwen3-8b", YARN)


@pytest.mark.parametrize(
    ("name", "config", "key", "value"),
    [
        ("llama-3.1-8b", LLAMA_31, "high_freq_factor", 8.0),
        ("llama-3.1-8b", LLAMA_31, "original_max_position_embeddings", 4096),
        ("kimi-k2", DEEPSEEK, "beta_fast", 1.0),
    ],
)
def test_positions_that_no_option_says_are_refused(name: str, config: dict[str, Any], key: str, value: float) -> None:
    """Kimi K2's config.json has a beta_fast of 1; Megatron-LM takes 32 under latent attention."""
    changed = config | {"rope_scaling": config["rope_scaling"] | {key: value}}
    with pytest.raises(InvalidSpec, match=rf"{key}: is {value:g}; Megatron-LM takes .* no setting for it"):
        carried(name, changed)


def test_a_recipe_says_what_no_option_does() -> None:
    config = DEEPSEEK | {"rope_scaling": DEEPSEEK["rope_scaling"] | {"beta_fast": 1.0}}
    settings = carried_settings(with_values("kimi-k2", config), launch_table("megatron-bridge"))
    assert settings["--beta-fast"] == 1.0


def test_gpt_oss_is_balanced_by_no_loss() -> None:
    """Its config.json has a coefficient of 0.9, which transformers does not add by itself."""
    settings = carried("gpt-oss-20b", {"model_type": "gpt_oss", "router_aux_loss_coef": 0.9})
    assert settings["--moe-aux-loss-coeff"] == 0
    assert settings["--moe-router-load-balancing-type"] == "none"


@pytest.mark.parametrize(("name", "config"), [("kimi-k2", DEEPSEEK | {"model_type": "kimi_k2"})])
def test_latent_attention_of_every_family_is_scaled(name: str, config: dict[str, Any]) -> None:
    assert carried(name, config)["--rotary-scaling-factor"] == config["rope_scaling"]["factor"]


def test_a_provider_of_bridge_is_given_every_number_of_yarn() -> None:
    """GPTModelProvider leaves them at None, with which YarnRotaryEmbedding cannot calculate."""
    inputs = question(read_model("gpt-oss-20b"), "1x8:h100", "megatron-bridge", global_batch=64, sequence_length=1024)
    plan = Plan(dp=8, zero=1, num_microbatches=8, ep=8)
    recipe = launch_files(plan, inputs, "megatron-bridge").files["meshwright_plan.py"]
    assert dict(re.findall(r"yarn_(\w+)=(.*),", recipe)) == {
        "rotary_scaling_factor": "32.0",
        "original_max_position_embeddings": "4096",
        "beta_fast": "32.0",
        "beta_slow": "1.0",
        "correction_range_round_to_int": "False",
    }


def test_what_megatron_refuses_is_not_written() -> None:
    """Its multi-token prediction takes no YaRN (arguments.py L1941)."""
    inputs = question(read_model("gpt-oss-20b"), "1x8:h100", global_batch=64, sequence_length=1024)
    inputs = inputs.replace(job=inputs.job.replace(mtp_layers=1))
    plan = Plan(dp=8, zero=1, num_microbatches=8, ep=8)
    with pytest.raises(InvalidSpec, match=r"mtp_positions: .*--position-embedding-type yarn.*--mtp-layers 0"):
        launch_files(plan, inputs, "megatron-lm")


def test_gpt_oss_of_the_catalogue_has_its_window_and_asks_for_its_router() -> None:
    script = script_of("gpt-oss-20b")
    assert "--window-size 127,0\n" in script, "the query itself is one of 128"
    assert "ROUTER" in places(script)
    assert "not read from a config.json. Take these from the config.json: rotary base, the epsilon" in script


def test_every_value_that_a_table_carries_is_read() -> None:
    read = {*KEYS, "norm_eps", "latent_attention", "model_type"}
    named = {key for name in launch_tables() for each in launch_table(name).carried for key in (each.value, *each.when)}
    assert {key for key in named if not key.startswith("rope.")} <= read


@pytest.mark.parametrize("name", [name for name in launch_tables() if launch_table(name).carried])
def test_what_a_table_carries_is_known_where_it_is_read(name: str) -> None:
    table = launch_table(name)
    carried = {key: value for each in table.carried for key, value in each.settings.items()}
    assert not understand(carried, table).unknown


def test_keys_of_today_are_those_of_before() -> None:
    today = {"rope_parameters": {**LLAMA_31["rope_scaling"], "rope_theta": 500000.0}, "rms_norm_eps": 1e-05}
    old = config_values(LLAMA_31)
    assert config_values(today) == {key: value for key, value in old.items() if key != "initializer_range"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1], {"a": 1}, None])
def test_what_is_no_plain_value_is_left(value: object) -> None:
    assert "rope_theta" not in config_values({"rope_theta": value})


def test_a_model_of_the_catalogue_stands_for_several_releases_and_carries_no_base() -> None:
    assert "rope_theta" not in read_model("llama-3.1-8b").config_values


def test_what_is_carried_is_not_to_be_filled_in_any_more() -> None:
    inputs = question(with_values("llama-3.1-8b", LLAMA_31), "1x8:h100", global_batch=64)
    plan = Plan(tp=8, sp=True, num_microbatches=64)
    script = launch_files(plan, inputs, "megatron-lm").files["train.sh"]
    assert "--rotary-base 500000\n" in script
    assert "ROTARY_BASE" not in script
    without = inputs.replace(model=read_model("llama-3.1-8b"))
    assert "ROTARY_BASE" in launch_files(plan, without, "megatron-lm").files["train.sh"]


def places(script: str) -> set[str]:
    return {*re.findall(r"\$\{(\w+):?\?", script)}


def test_a_script_asks_for_what_its_model_has() -> None:
    """For the router of experts, for the rotary base of models that have one, for neither of a model that was read."""
    dense, latent = places(script_of("llama-3.1-8b")), places(script_of("deepseek-v2-lite"))
    assert latent - dense == {"ROPE_TYPE", "ROTARY_SCALING_FACTOR", "ROUTER"}
    assert dense - places(script_of("gpt2-xl")) == {"ROTARY_BASE"}
    assert not {"ROTARY_BASE", "ROPE_TYPE", "ROUTER"} & places(
        script_of("deepseek-v2-lite", DEEPSEEK | {"rope_theta": 1e4})
    )


BALANCED = {
    "deepseek-v3": "--moe-router-enable-expert-bias",
    "qwen3-30b-a3b": "--moe-aux-loss-coeff 0.001",
    "qwen3-235b-a22b": "--moe-aux-loss-coeff 0.001",
    "mixtral-8x7b": "--moe-aux-loss-coeff 0.02",
    "mixtral-8x22b": "--moe-aux-loss-coeff 0.001",
}


@pytest.mark.parametrize("name", BALANCED)
def test_routers_of_the_catalogue_are_balanced_as_their_config_json_says(name: str) -> None:
    inputs = question(read_model(name), "1x8:h100", global_batch=64, sequence_length=1024, mtp_layers=0)
    script = launch_files(Plan(dp=8, zero=1, num_microbatches=8), inputs, "megatron-lm").files["train.sh"]
    assert f"    {BALANCED[name]}\n" in script
    assert "ROUTER" not in places(script)
    assert "losses of the router" not in script


def test_a_router_that_nobody_said_anything_of_is_asked_for_whatever_was_read() -> None:
    """Its loss is off where Megatron-LM is told nothing: experts would be trained without balance."""
    read = {"rope_theta": 1e4, "rms_norm_eps": 1e-6, "initializer_range": 0.02, "model_type": "mixtral"}
    assert "${ROUTER:?" in script_of("mixtral-8x7b", read)


@pytest.mark.parametrize(("said", "stops"), [("{}", True), ('{"moe_aux_loss_coeff": 0.001}', False)])
def test_an_empty_router_stops_a_recipe(said: str, stops: bool) -> None:
    inputs = question(read_model("gpt-oss-20b"), "1x8:h100", "megatron-bridge", global_batch=64, sequence_length=1024)
    plan = Plan(dp=8, zero=1, num_microbatches=8, ep=8)
    recipe = ast.parse(launch_files(plan, inputs, "megatron-bridge").files["meshwright_plan.py"])
    (passed,) = (each.value for each in ast.walk(recipe) if isinstance(each, ast.keyword) and each.arg is None)
    names = {"json": json, "sys": sys, "os": SimpleNamespace(environ={"ROUTER": said})}
    with pytest.raises(SystemExit, match="ROUTER is empty") if stops else contextlib.nullcontext():
        assert eval(ast.unparse(passed), names) == {"moe_aux_loss_coeff": 0.001}


def script_of(name: str, config: dict[str, Any] | None = None) -> str:
    model = with_values(name, config) if config else read_model(name)
    inputs = question(model, "1x8:h100", global_batch=64, sequence_length=1024)
    return launch_files(Plan(dp=8, zero=1, num_microbatches=8), inputs, "megatron-lm").files["train.sh"]


def test_values_of_yaml_are_carried_too() -> None:
    inputs = question(with_values("llama-3.1-8b", LLAMA_31), "1x8:h100", "llm-foundry", global_batch=64)
    files = launch_files(Plan(dp=8, zero=3, num_microbatches=8), inputs, "llm-foundry").files
    model = yaml.safe_load(files["llm-foundry.yaml"])["model"]
    assert (model["attn_config"]["rope_theta"], model["norm_eps"]) == (500000.0, 1e-05)
    assert model["attn_config"]["rope_hf_config"] == {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}
    assert "ROPE_THETA" not in files["train.sh"]


def test_a_plan_file_is_enough_to_launch_a_model_that_no_catalogue_has(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "llama-3.1-70b" / "config.json"
    config = json.loads(example.read_text()) | {"num_hidden_layers": 76, "rope_theta": 123456.0}
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    options = ["--cluster", "8x8:h100", "--seq-len", "8192", "--global-batch", "256", "--json"]
    (tmp_path / "plan.json").write_text(asked("plan", "--model", str(folder), *options).out)
    (folder / "config.json").unlink()
    assert asked("launch", str(tmp_path / "plan.json"), "--out", str(tmp_path / "run")).code == 0
    script = (tmp_path / "run" / "train.sh").read_text()
    assert "--rotary-base 123456\n" in script
    assert "--num-layers 76\n" in script


def test_launch_carries_what_the_named_file_holds(tmp_path: Path) -> None:
    config = Path(__file__).parents[2] / "examples" / "llama-3.1-70b" / "config.json"
    options = ["--cluster", "8x8:h100", "--seq-len", "8192", "--global-batch", "256", "--launch", str(tmp_path / "run")]
    assert asked("plan", "--model", str(config), *options).code == 0
    theta = json.loads(config.read_text())["rope_theta"]
    assert f"--rotary-base {theta:.0f}\n" in (tmp_path / "run" / "train.sh").read_text()
    assert "--rotary-base" not in LLAMA


@pytest.mark.parametrize(("name", "factor"), [("llama-3.1-405b", 8.0), ("llama-3.2-1b", 32.0)])
def test_scaled_positions_of_llama_of_the_catalogue_are_carried(name: str, factor: float) -> None:
    script = script_of(name)
    assert f"--use-rope-scaling\n    --rope-scaling-factor {factor}\n" in script
    assert "Take these from the config.json: rotary base, the epsilon" in script


@pytest.mark.parametrize(
    ("name", "framework", "told"),
    [
        ("llama-3.1-8b", "nanotron", True),
        ("llama-3.1-8b", "megatron-deepspeed", True),
        ("llama-2-7b", "nanotron", False),
        ("llama-3.1-8b", "llm-foundry", False),
        ("llama-3.1-8b", "deepspeed", False),  # transformers reads its config.json
    ],
)
def test_positions_that_a_framework_does_not_scale_are_told(name: str, framework: str, told: bool) -> None:
    inputs = question(read_model(name), "1x8:h100", framework, precision="bf16", global_batch=64)
    zero = {"llm-foundry": 2, "nanotron": 0}.get(framework, 1)
    text = launch_files(Plan(dp=8, zero=zero, num_microbatches=8), inputs, framework).files["train.sh"]
    plain = re.sub(r"\n#\s+", " ", text)
    assert ("has no scaled rotary positions (llama3 in the model's config.json)" in plain) == told


@pytest.mark.parametrize(("length", "told"), [(65536, True), (32768, False)])
def test_files_say_where_sequences_are_longer_than_the_positions(length: int, told: bool) -> None:
    inputs = question(read_model("qwen3-8b"), "1x8:h100", global_batch=8, sequence_length=length)
    plan = Plan(cp=8, zero=1, num_microbatches=8)
    plain = re.sub(r"\n#\s+", " ", launch_files(plan, inputs, "megatron-lm").files["train.sh"])
    assert ("its rotary positions have to be scaled before it learns from them" in plain) == told


@pytest.mark.parametrize("name", ["llama3-8b", "meta-llama/Meta-Llama-3-8B", "meta-llama/Meta-Llama-3-70B-Instruct"])
def test_positions_of_llama_3_of_april_2024_are_not_scaled(name: str) -> None:
    """Its config.json has no rope_scaling and 8192 positions; 3.1 is the same but for these."""
    model = read_model(name)
    assert model.name in ("llama-3-8b", "llama-3-70b")
    assert model.config_values["max_position_embeddings"] == 8192
    assert same_architecture(model, read_model(model.name.replace("llama-3-", "llama-3.1-")), 8192)
    assert "rope-scaling" not in script_of(model.name)

"""The registry of torchtitan: what is launched from it is the model that was priced, and what differs is named."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meshwright.answers.launch.files import launch_files
from meshwright.answers.launch.folder import write_folder
from meshwright.errors import InvalidSpec
from meshwright.launch.architecture import model_fields
from meshwright.launch.export import export
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.launch.table import launch_table
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Model
from meshwright.specs.reading.model import read_model
from meshwright.specs.weights import parameter_count
from strategies import question

TABLE = launch_table("torchtitan")
PLAN = Plan(dp=8, zero=3, num_microbatches=8, context_exchange="all_gather")
MODEL = read_model("gpt-oss-20b")


def _asked(model: Model, precision: str = "bf16") -> Inputs:
    return question(model, "1x8:b200", "torchtitan", global_batch=64, precision=precision, sequence_length=4096)


@pytest.mark.parametrize(("model", "flavour"), [("gpt-oss-20b", "20b"), ("gpt-oss-120b", "120b")])
def test_gpt_oss_is_launched_from_the_registry_and_read_back(model: str, flavour: str, tmp_path: Path) -> None:
    files = launch_files(replace(PLAN, ep=8), _asked(read_model(model)), "torchtitan").files
    module = files["meshwright_plan.py"]
    assert "from torchtitan.models.gpt_oss import model_registry" in module
    assert f'model_registry("{flavour}", attn_backend="varlen", moe_comm_backend="standard")' in module
    read = question_of_file(write_folder(files, tmp_path / "run"), Given(cluster="1x8:b200"))
    assert read.inputs.model.name == model
    assert read.plan == replace(PLAN, ep=8)
    assert read.inputs.attention_kernel == "newest"


def test_the_nearest_shipped_model_is_named_with_what_differs() -> None:
    kinds = tuple(each.replace(attention=each.attention.replace(sinks=False)) for each in MODEL.layer_kinds)
    other = MODEL.replace(name="mine", layer_kinds=kinds, vocab_size=200064)
    with pytest.raises(InvalidSpec) as caught:
        export(PLAN, _asked(other), "torchtitan")
    assert [str(each) for each in caught.value.faults] == [
        "model: mine is not in its registry, whose nearest model is gpt-oss-20b",
        "model: it has no setting to run without attention sinks",
        "model: it has no setting for vocab size 200064, and would run 201088",
    ]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("kimi-k2", "as kimi_k2_7 Kimi-K2.5, with a vision encoder of 0.47B parameters beside it"),
        ("moonlight-16b-a3b", "as kimi_k2_7 moonlight-16B-A3B, the text part of a multimodal model"),
        ("mixtral-8x22b", "mixtral-8x22b is not in its registry, which has models of llama3, qwen3"),
    ],
)
def test_a_model_that_is_shipped_otherwise_or_not_at_all_is_refused(model: str, said: str) -> None:
    with pytest.raises(InvalidSpec, match=r"\n(Plan|No plan that fits was found) with --runtime ") as caught:
        export(PLAN, _asked(read_model(model)), "torchtitan")
    assert said in caught.value.faults[0].what


@pytest.mark.parametrize(("precision", "tp", "written"), [("bf16", 2, True), ("mxfp8", 1, True), ("mxfp8", 2, False)])
def test_no_converter_takes_the_bias_that_tensor_parallelism_divides(precision: str, tp: int, written: bool) -> None:
    plan, inputs = replace(PLAN, tp=tp, sp=tp > 1, dp=8 // tp, num_microbatches=8 * tp), _asked(MODEL, precision)
    if written:
        assert export(plan, inputs, "torchtitan").plan == plan
        return
    with pytest.raises(InvalidSpec, match=r"no setting for precision mxfp8.*\nPlan with --precision bf16\."):
        export(plan, inputs, "torchtitan")


@pytest.mark.parametrize(("length", "raised"), [(16384, False), (32768, True)])
def test_positions_are_as_many_as_a_sequence_has_tokens(length: int, raised: bool) -> None:
    """torchtitan refuses sequences beyond those of its registry, which for DeepSeek-V3 are a tenth of the model's."""
    asked = _asked(read_model("deepseek-v3"))
    inputs = asked.replace(job=asked.job.replace(sequence_length=length))
    module = launch_files(PLAN, inputs, "torchtitan").files["meshwright_plan.py"]
    assert (f"rope = replace(layer.attention.rope, max_seq_len={length})" in module) == raised
    assert ("from dataclasses import replace" in module) == raised


ROTARY = [("llama-3-8b", "scaling='none'"), ("llama-3.1-8b", ""), ("llama-3.2-1b", "scaling_factor=32.0")]
OTHERS = [
    ("deepseek-v3", {}, ""),
    ("deepseek-v3", {"rope.factor": 8.0, "rope.beta_fast": 16.0}, "rope_factor=8.0, beta_fast=16.0"),
    ("deepseek-v3", {"rope.rope_type": "default", "rope_theta": 5e5}, "theta=500000.0, scaling='none'"),
    ("gpt-oss-20b", {"rope_theta": 150000}, ""),
    ("qwen3-30b-a3b", {"rope_theta": 1e7}, "theta=10000000.0"),
    ("qwen3-235b-a22b", {}, "theta=1000000.0"),
    ("qwen3-235b-a22b", {"rope_theta": 5e6}, ""),
]
"""Values of a config.json beside the catalogue's, and what is written of them."""


@pytest.mark.parametrize(("model", "values", "written"), [*((name, {}, said) for name, said in ROTARY), *OTHERS])
def test_rotary_positions_are_those_of_the_model(model: str, values: dict[str, Any], written: str) -> None:
    """The registry scales those of every Llama as 3.1 does; Llama 3 has plain ones, and 3.2 another factor. Its Qwen3
    235B-A22B has the base of a later release than the catalogue.
    """
    known = read_model(model)
    asked = _asked(known.replace(config_values=known.config_values | values))
    module = launch_files(PLAN, asked, "torchtitan").files["meshwright_plan.py"]
    assert ("layer.attention.rope = replace" in module) == bool(written)
    assert f"layer.attention.rope = replace(layer.attention.rope, {written})" in module or not written


@pytest.mark.parametrize(
    ("model", "kind"), [("llama-3-8b", "dynamic"), ("qwen3-8b", "yarn"), ("gpt-oss-20b", "llama3")]
)
def test_rotary_positions_that_the_registered_model_cannot_have_are_refused(model: str, kind: str) -> None:
    known = read_model(model)
    scaled = known.replace(config_values=known.config_values | {"rope.rope_type": kind, "rope.factor": 4.0})
    with pytest.raises(InvalidSpec, match=rf"has no rotary positions scaled as {kind}.*\n.*--runtime "):
        export(PLAN, _asked(scaled), "torchtitan")


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """The frequencies by which torchtitan turns positions of each model."""
    at = tmp_path_factory.mktemp("turned")
    cases = []
    for model, _ in ROTARY:
        folder = write_folder(launch_files(PLAN, _asked(read_model(model)), "torchtitan").files, at / model)
        cases.append({"folder": str(folder), "ranks": 8, "capability": 10.0, "rotary": True})
    (at / "cases.json").write_text(json.dumps(cases))
    command = [sys.executable, str(Path(__file__).parent / "objects_torchtitan.py"), str(at / "cases.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return {model: told["rotary"] for (model, _), told in zip(ROTARY, json.loads(done.stdout), strict=True)}


@pytest.mark.slow
@pytest.mark.clients("torchtitan", "transformers")
@pytest.mark.parametrize("model", [model for model, _ in ROTARY])
def test_torchtitan_turns_positions_as_transformers_does(model: str, turned: dict[str, list[float]]) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    known = read_model(model)
    scaling = {key.removeprefix("rope."): value for key, value in known.config_values.items() if "rope." in key}
    attention = known.layer_kinds[0].attention
    config = LlamaConfig(
        hidden_size=known.hidden_size,
        num_attention_heads=attention.heads,
        head_dim=attention.head_dim,
        max_position_embeddings=131072,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0} | scaling,
    )
    assert turned[model] == pytest.approx(LlamaRotaryEmbedding(config).inv_freq.tolist(), rel=1e-4)


@pytest.mark.slow
@pytest.mark.clients("torchtitan")
def test_every_shipped_model_is_that_of_the_catalogue(tmp_path: Path) -> None:
    cases = tmp_path / "cases.json"
    cases.write_text(json.dumps([*TABLE.models.values()]))
    command = [sys.executable, str(Path(__file__).parent / "objects_registry.py"), str(cases)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for name, told in zip(TABLE.models, json.loads(done.stdout), strict=True):
        known = read_model(name)
        assert "error" not in told, (name, told)
        assert told.pop("parameters") == parameter_count(known), name
        shipped = TABLE.models[name]
        family, rotary = shipped.split()[0], told.pop("rotary")
        assert told.pop("positions") == TABLE.registered_positions[family], name
        positions = TABLE.registered_rotary[family] | TABLE.registered_rotary.get(shipped, {})
        assert {key: rotary[key] for key in positions} == positions, name
        wanted = {key.removeprefix("model."): _plain(value) for key, value in model_fields(known).items()}
        assert {key: wanted.get(key) for key in told} == _only_of_experts(told, wanted), name


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _only_of_experts(told: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """What is told, without marks of experts where a model has none."""
    return told if wanted["experts"] else told | {"expert_layers": None}

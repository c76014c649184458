"""Plans that a runtime accepts and its framework cannot launch say so wherever they are recommended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from commands import asked
from launch_examples import NEOX
from meshwright.answers.launch.unlaunched import unlaunched
from meshwright.answers.plan_file import json_schema
from meshwright.errors import InvalidSpec
from meshwright.launch.export import export
from meshwright.launch.refusals import refusal
from meshwright.launch.table import launch_table, launch_tables
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from strategies import question

QWEN = ["--model", "qwen3-8b", "--cluster", "1x8:h100", "--seq-len", "1024", "--global-batch", "8"]
REASON = "it has no setting for norms of queries and keys (head), and would run none"


def _words(text: str) -> str:
    return " ".join(text.split())


def _document(command: str, runtime: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(asked(command, *QWEN, "--runtime", runtime, "--json").out)
    return document


@pytest.mark.parametrize("command", ["check", "plan", "explain"])
def test_a_model_that_a_framework_has_no_settings_for_is_named_with_what_runs_it(command: str) -> None:
    document = _document(command, "nanotron")
    refused = document["launch_refused"]
    assert refused["reasons"][0] == REASON  # a plan with ZeRO 1 has another
    assert refused["instead"].startswith(
        "Plan with --runtime accelerate, deepspeed, megatron-bridge, megatron-core or torchtitan"
    )
    shown = _words(asked(command, *QWEN, "--runtime", "nanotron").out)
    assert f"nanotron cannot launch it as it stands: {REASON}" in shown
    assert refused["instead"] in shown
    if command != "check":
        jsonschema.Draft202012Validator(json_schema()).validate(document)


@pytest.mark.parametrize("command", ["check", "explain", "plan", "memo"])
def test_a_file_that_launches_its_plan_is_not_said_to_be_unable_to(command: str, tmp_path: Path) -> None:
    """GPT-NeoX has parallel residuals; Megatron-DeepSpeed, as which it is priced, has none."""
    path = tmp_path / "neox.yml"
    path.write_text(NEOX.replace('"num_layers": 24,', '"num_layers": 24, "gpt_j_residual": true,'))
    options = command, "--from", str(path), "--cluster", "2x8:a100"
    document = json.loads(asked(*options, "--json").out)
    assert document.get("launch_refused") is None
    shown = asked(*options).out
    assert "cannot launch" not in shown
    assert "Install" not in shown
    if command == "explain":
        assert unlaunched(Plan.from_dict(document["plans"][0]["plan"]), Inputs(**document["inputs"]))


def _instead(*words: str) -> str:
    document = json.loads(asked("check", *words, "--runtime", "nanotron", "--json").out)
    instead: str = document["launch_refused"]["instead"]
    return instead


def test_a_runtime_none_of_whose_plans_fits_is_not_offered() -> None:
    """On 8 of H100, DeepSpeed with whole fp32 gradients has no room for 32B parameters; on 16 it has."""
    words = ["--tp", "8", "--global-batch", "64"]
    assert "deepspeed" not in _instead("qwen3-32b", "1x8:h100", *words)
    assert "deepspeed" in _instead("qwen3-32b", "2x8:h100", *words)


def test_reasons_that_are_not_shown_are_counted_and_listed() -> None:
    words = ["qwen3-32b", "1x8:h100", "--tp", "8", "--global-batch", "64", "--runtime", "nanotron"]
    shown = _words(asked("check", *words).out)
    reasons = json.loads(asked("check", *words, "--json").out)["launch_refused"]["reasons"]
    assert f"{reasons[1]}; and {len(reasons) - 2} other reason, which --json lists. Plan with" in shown


def test_where_no_plan_of_any_framework_fits_it_says_so() -> None:
    assert _instead("gemma-2-27b", "1x4:a100-40gb", "--tp", "4", "--global-batch", "64") == (
        "No plan that fits was found with --runtime accelerate or deepspeed either, which have settings for it."
    )


def test_what_can_be_launched_says_nothing() -> None:
    assert "launch_refused" not in _document("plan", "megatron-core")
    assert _document("check", "megatron-core")["launch_refused"] is None
    assert "cannot launch" not in asked("plan", *QWEN).out


@pytest.mark.parametrize("runtime", ["internevo", "megatron-lm", "pytorch-ddp", "zero-bubble"])
def test_a_runtime_without_launch_files_says_nothing(runtime: str) -> None:
    plan = Plan(dp=2, zero=0, num_microbatches=4)
    assert unlaunched(plan, question(read_model("qwen3-0.6b"), "1x2:h100", runtime, global_batch=8)) is None


@pytest.mark.parametrize("name", launch_tables())
def test_a_refusal_is_that_of_the_launch_files(name: str) -> None:
    """Its words hold the first reasons, of which there is at least one."""
    runtime = launch_table(name).runtimes[0]
    inputs = question(read_model("gemma-2-9b"), "1x8:h100", runtime, global_batch=8)
    inputs = inputs.replace(runtime=inputs.runtime.replace(elementwise="eager"))
    plan = Plan(dp=8, zero=3 if 3 in inputs.runtime.plans.zero_stages else 1)
    refusal = unlaunched(plan, inputs)
    with pytest.raises(InvalidSpec) as caught:
        export(plan, inputs, name)
    assert refusal is not None
    assert refusal.reasons == tuple(fault.what for fault in caught.value.faults)
    assert refusal.reasons[0] in refusal.words
    assert refusal.words.startswith(launch_table(name).framework)


def test_every_runtime_that_launches_its_plan_stands_before_those_that_do_not() -> None:
    document = json.loads(asked("plan", *QWEN, "--runtime", "all", "--json").out)
    planned = [each for each in document["runtimes"].values() if "plans" in each]
    refused = ["launch_refused" in each for each in planned]
    assert refused == sorted(refused)
    assert 0 < sum(refused) < len(refused)
    shown = _words(asked("plan", *QWEN, "--runtime", "all").out)
    assert "nanotron !" in shown
    assert "! its framework cannot launch this plan as it stands." in shown


def test_a_listed_plan_that_can_be_launched_is_named_beside_one_that_cannot() -> None:
    """DeepSpeed's pipeline takes a model of its own; stages are the fastest on cards without NVLink."""
    words = ["--model", "llama-3.1-8b", "--cluster", "1x8:l40s", "--seq-len", "4096", "--global-batch", "32"]
    words += ["--pp", "1,2,4"]
    document = json.loads(asked("plan", *words, "--runtime", "deepspeed", "--json").out)
    assert document["plans"][0]["plan"]["pp"] > 1
    assert document["launch_refused"]["of_model"] is False
    shown = _words(asked("plan", *words, "--runtime", "deepspeed").out)
    named = shown.partition("The best listed plan that DeepSpeed can launch: ")[2]
    listed = [each["name"] for each in (*document["plans"], *document["other_splits"]) if each["plan"]["pp"] == 1]
    assert any(named.startswith(each) for each in listed)


def test_values_that_a_framework_has_instead_leave_out_the_one_it_would_run() -> None:
    told = str(refusal("model.qk_norm", "none", "width", launch_table("megatron-lm")))
    assert told.endswith("norms of queries and keys (width), and would run none (it also has head)")

"""Refusals of launch files: what a framework cannot run, in the words of the field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from commands import asked
from meshwright.launch.fields import normal_fields
from meshwright.launch.forms import Fields
from meshwright.launch.refusals import refusal, refusals, way_on
from meshwright.launch.table import launch_table
from meshwright.layout.plan import Plan
from meshwright.specs.reading.examples import LLAMA
from meshwright.specs.reading.model import read_model
from strategies import question

DEEPSPEED = question(read_model("qwen3-30b-a3b"), "1x8:h100", "deepspeed", precision="bf16", global_batch=64)


@pytest.mark.parametrize(
    ("name", "ran", "wanted", "said"),
    [
        ("model.norms", 2, 4, "4 norms a layer, and would run 2"),
        ("model.query_rank", None, 1536, "query rank 1536 of latent attention, and would run none"),
        ("model.qkv_bias", False, True, "biases of queries, keys and values, and would run without"),
        ("job.expert_capacity", None, 1.25, "an expert capacity of 1.25, and its experts would take all their tokens"),
        ("job.expert_capacity", 1.0, None, "experts that take all their tokens, and would drop those above a capacity"),
        ("model.not_named_yet", 1, 2, "not named yet 2, and would run 1"),
        ("plan.chunk_layers", (40, 40), (1,) * 80, "1, ... layers, and would run 40, 40"),
    ],
)
def test_a_refusal_says_the_value_in_the_words_of_the_field(name: str, ran: object, wanted: object, said: str) -> None:
    assert said in str(refusal(name, ran, wanted))


def test_a_part_that_cannot_be_left_out_is_named() -> None:
    assert refusal("model.bias", True, False).what == "it has no setting to run without biases of feed-forward blocks"


def test_a_gate_and_its_activation_are_one_refusal() -> None:
    wanted = {"model.gated": True, "model.activation": "gelu"}
    ran = {"model.gated": False, "model.activation": "gelu"}
    for names in (["model.gated"], ["model.activation", "model.gated"]):
        (fault,) = refusals(names, ran, wanted, launch_table("megatron-lm"))
        assert str(fault) == (
            "model: it has no setting for feed-forward blocks with gated GELU, and would run GELU without a gate"
        )


def test_no_field_of_a_plan_goes_by_its_internal_name() -> None:
    fields = normal_fields(Plan(tp=8, sp=True, dp=8, zero=1, num_microbatches=32), LLAMA)
    assert fields
    for name in fields:
        assert "_" not in str(refusal(name, "one", "other")), name


@pytest.mark.parametrize(
    ("names", "ran", "said"),
    [
        (["plan.sp"], {"plan.sp": False}, "Plan with --no-sp, or add --nearest."),
        (["plan.dp_replicate"], {"plan.dp_replicate": 1}, "Add --nearest."),
        (["plan.chunk_layers"], {"plan.chunk_layers": (2, 2)}, "Plan with --even-chunks, or"),
        (["plan.schedule"], {"plan.schedule": "1f1b"}, "Plan with --schedule 1f1b, or add"),
        (["job.expert_capacity"], {"job.expert_capacity": None}, "Plan with --expert-imbalance 1.1."),
        (["job.expert_capacity"], {"job.expert_capacity": 2.0}, "Plan with --expert-capacity 2.0."),
        (["job.precision", "plan.dp_shard"], {"job.precision": "bf16"}, "Add --precision bf16 --nearest."),
        (["runtime.optimizer"], {"runtime.optimizer": "AdamW"}, "Plan with --with optimizer_states=fp32."),
        (["model.norms"], {"model.norms": 2}, ""),
        ([], {}, ""),
    ],
)
def test_what_was_refused_says_the_options_that_get_further(names: list[str], ran: Fields, said: str) -> None:
    hint = way_on(names, ran, DEEPSPEED, launch_table("deepspeed"))
    assert hint.startswith(said)
    assert bool(hint) == bool(said)


def test_a_capacity_that_was_asked_for_is_replaced() -> None:
    asked_for = question(read_model("qwen3-30b-a3b"), "1x8:h100", global_batch=64, expert_capacity=1.25)
    hint = way_on(["job.expert_capacity"], {}, asked_for, launch_table("megatron-lm"))
    assert hint == "Plan with --expert-imbalance 1.1 in place of --expert-capacity."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question_asked", "first"),
    [
        ("gemma-3-12b 1x8:h200 --runtime deepspeed --seq-len 4096 --global-batch 64 --pp 2", "--pp"),
        ("gemma-2-9b 1x8:h200 --seq-len 4096 --global-batch 64", "--runtime"),
        ("phi-4 1x8:h200 --runtime torchtitan --seq-len 4096 --global-batch 64", "--runtime"),
    ],
)
def test_what_a_refusal_names_leads_to_launch_files(question_asked: str, first: str, tmp_path: Path) -> None:
    words = question_asked.split()
    refused = asked("plan", *words, "--launch", str(tmp_path / "refused"))
    assert (refused.code, (tmp_path / "refused").exists()) == (2, False)
    way = refused.err.strip().rpartition("\nPlan with ")[2].partition(". ")[0]
    assert way.startswith(first)
    if "--runtime" in way.split() and "--runtime" in words:
        del words[words.index("--runtime") : words.index("--runtime") + 2]
    for number, options in enumerate(re.split(r", or (?:with|add) ", way.rstrip("."))[:2]):
        named = options.split()
        chosen = [named[0], named[1].rstrip(",")] if named[2:] and named[-2] == "or" else named
        answer = asked("plan", *words, *chosen, "--launch", str(tmp_path / str(number)))
        assert answer.code == 0, answer.err
        assert (tmp_path / str(number) / "train.sh").is_file()

"""The patch of a launch file makes it the plan that is wished for, or names what its author must set."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands import asked
from launch_examples import TITAN
from meshwright.errors import InvalidInput
from meshwright.launch.imports.patch import patch_of
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

SCRIPT = """#!/bin/bash
TP=2
ARGS=(
    --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --vocab-size 32000 # sizes
    --position-embedding-type rope --swiglu --seq-length 4096 --bf16
    --micro-batch-size 2 --global-batch-size 64
)
torchrun --nnodes 2 --nproc_per_node 8 t.py ${ARGS[@]} --tensor-model-parallel-size $TP --use-distributed-optimizer
"""
RECOMPUTES = SCRIPT.replace("TP=2", "TP=2\nLAYERS=4").replace(
    "-optimizer\n",
    "-optimizer --recompute-granularity full --recompute-method block --recompute-num-layers $LAYERS\n",
)
NONE = {"recompute": "none", "recompute_layers": 0}
AXOLOTL = """
base_model: meta-llama/Llama-3.1-8B
sequence_len: 4096
fsdp_version: 2
fsdp_config: {reshard_after_forward: true}
bf16: true
gradient_checkpointing: true
micro_batch_size: 1
gradient_accumulation_steps: 4
"""
FOUNDRY = """
max_seq_len: 2048
model: {d_model: 4096, n_heads: 32, n_layers: 32, vocab_size: 50368}
global_train_batch_size: 512
device_train_microbatch_size: 4
precision: amp_bf16
fsdp_config: {sharding_strategy: FULL_SHARD, activation_checkpointing: true}
"""


def imported(folder: Path, name: str, text: str) -> LaunchQuestion:
    path = folder / name
    path.write_text(text)
    return question_of_file(path, Given(cluster="2x8:h100"))


@pytest.mark.parametrize(
    ("name", "text", "changes", "lines"),
    [
        (
            "run.sh",
            SCRIPT,
            {"tp": 4, "dp": 4, "num_microbatches": 8},
            ["-TP=2", "+TP=4"],
        ),
        (
            "run.sh",
            SCRIPT,
            {"micro_batch": 1, "num_microbatches": 8, "recompute": "full"},
            ["+    --micro-batch-size 1 --global-batch-size 64", "--recompute-granularity full"],
        ),
        (
            "run.sh",
            SCRIPT.replace("-optimizer\n", "-optimizer --overlap-grad-reduce\n"),
            {"tp": 16, "dp": 1, "num_microbatches": 32, "zero": 0},
            ["+TP=16", "--tensor-model-parallel-size $TP\n"],
        ),
        ("ax.yaml", AXOLOTL, NONE, ["-gradient_checkpointing: true", "+gradient_checkpointing: false"]),
        ("run.sh", RECOMPUTES, NONE, ["--use-distributed-optimizer\n"]),
        ("run.sh", RECOMPUTES.replace("$LAYERS", '"${LAYERS}" --bf16'), NONE, ["--use-distributed-optimizer --bf16\n"]),
        (
            "run.sh",
            SCRIPT.replace("--bf16", "--bf16 --recompute-activations"),
            {"recompute": "none"},
            ["+    --position-embedding-type rope --swiglu --seq-length 4096 --bf16"],
        ),
        (
            "mpt.yaml",
            FOUNDRY,
            {"zero": 2},
            ["+fsdp_config: {sharding_strategy: SHARD_GRAD_OP, activation_checkpointing: true}"],
        ),
        ("titan.toml", TITAN, {"recompute": "selective"}, ['-mode = "full"\n+mode = "selective"']),
    ],
)
def test_the_patched_file_is_the_plan(
    tmp_path: Path, name: str, text: str, changes: dict[str, Any], lines: list[str]
) -> None:
    question = imported(tmp_path, name, text)
    wished = replace(question.plan, **changes)
    diff = patch_of(question, wished, question.inputs).diff
    assert all(line in diff for line in lines)
    assert diff.endswith("\n")


@pytest.mark.parametrize(("multiple", "kept"), [("128", True), ("1024", True), ("65536", False)])
def test_the_padding_of_the_vocabulary_stays_where_it_makes_the_same_rows(
    tmp_path: Path, multiple: str, kept: bool
) -> None:
    script = SCRIPT.replace("32000 #", f"131072 --make-vocab-size-divisible-by {multiple} #")
    question = imported(tmp_path, "run.sh", script)
    patch = patch_of(question, replace(question.plan, tp=4, dp=4, num_microbatches=8), question.inputs)
    assert ("--make-vocab-size-divisible-by" not in patch.settings) == kept
    assert "+TP=4" in patch.diff


def test_settings_that_cannot_be_placed_are_named(tmp_path: Path) -> None:
    question = imported(tmp_path, "run.sh", SCRIPT.replace("TP=2", "TP=$((1 + 1))"))
    patch = patch_of(question, replace(question.plan, tp=4, dp=4, num_microbatches=8), question.inputs)
    assert patch.diff == ""
    assert patch.settings["--tensor-model-parallel-size"] == 4


def test_what_a_file_that_cannot_be_patched_does_not_say_need_not_be_left_out(tmp_path: Path) -> None:
    text = SCRIPT.replace("TP=2", "TP=$((1 + 1))").replace("--bf16", "--bf16 --recompute-activations")
    question = imported(tmp_path, "run.sh", text)
    wished = replace(question.plan, tp=4, dp=4, num_microbatches=8, recompute="none")
    patch = patch_of(question, wished, question.inputs)
    assert patch.settings == {"--tensor-model-parallel-size": 4, "--recompute-activations": None}


FLAGS = """MODEL_ARGS:
  --num-layers: 12
  --hidden-size: 512
  --num-attention-heads: 8
  --micro-batch-size: 4
  --global-batch-size: 64
  --seq-length: 1024
  --max-position-embeddings: 1024
  --vocab-size: 50257
  --recompute-granularity: selective
  --recompute-modules: [core_attn, mlp] # these
  --bf16: true
"""
TOML = """[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 2
seq_len = 8192
[activation_checkpoint]
mode = "full"
"""
NANOTRON = """{
  "parallelism": {"dp": 16, "pp": 1, "tp": 1, "recompute_layer": true},
  "tokens": {"sequence_length": 2048, "micro_batch_size": 2, "batch_accumulation_per_replica": 8},
  "optimizer": {"zero_stage": 1, "accumulate_grad_in_fp32": true},
  "model": {"dtype": "bfloat16", "model_config": {"hidden_size": 2048, "num_hidden_layers": 24, "vocab_size": 49152,
    "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 8192, "tie_word_embeddings": true}}
}
"""


def test_a_precision_is_changed_as_the_toml_of_torchtitan_has_it(tmp_path: Path) -> None:
    """By the key of its own releases, which are not those of a recipe in Python; it was left out of the change."""
    question = imported(tmp_path, "titan.toml", TITAN)
    inputs = question.inputs.replace(job=question.inputs.job.replace(precision="fp8-rowwise"))
    settings = patch_of(question, question.plan, inputs).settings
    assert settings == {"model.converters": "float8 rowwise"}
    assert question.table.assignments("model.converters", "float8 rowwise") == [
        "model.converters = ['quantize.linear.float8']",
        "quantize.linear.float8.recipe_name = 'rowwise'",
    ]
    other = TITAN + '\n[quantize.linear.float8]\nrecipe_name = "other"\n'
    with pytest.raises(InvalidInput, match=r"line \d+: model\.converters 'float8 other' is not modelled"):
        imported(tmp_path, "titan.toml", other)


RECIPE = """from torchtitan.models.llama3 import model_registry
def run():
    return Trainer.Config(
        model_spec=model_registry("8B"),
        training=TrainingConfig(local_batch_size=2, seq_len=8192),
        parallelism=ParallelismConfig(tensor_parallel_degree=1, fsdp_reshard_after_forward="always"),
    )
"""
SPLIT = {"tp": 2, "sp": True, "dp": 8, "num_microbatches": 2}


@pytest.mark.parametrize(
    ("name", "text", "changes", "lines"),
    [
        ("a.yaml", FLAGS, {"recompute_modules": ["mlp"]}, ['+  --recompute-modules: ["mlp"] # these']),
        (
            "a.yaml",
            FLAGS,
            {"tp": 2, "dp": 8, "num_microbatches": 2},
            ["+  --tensor-model-parallel-size: 2"],
        ),
        ("a.yaml", FLAGS, {"recompute": "none"}, ["-  --recompute-granularity: selective"]),
        (
            "run.sh",
            SCRIPT.replace("--bf16", "--bf16 --recompute-granularity selective --recompute-modules core_attn mlp"),
            {"recompute_modules": ["layernorm", "mlp"]},
            ["--recompute-modules layernorm mlp"],
        ),
        (
            "nanotron.json",
            NANOTRON,
            SPLIT | {"num_microbatches": 16},
            ['"tp_mode": "REDUCE_SCATTER", "dp": 8', '"tp": 2'],
        ),
        ("run.py", RECIPE, SPLIT | {"micro_batch": 4, "num_microbatches": 1}, ["tensor_parallel_degree=2"]),
    ],
)
def test_keys_and_lists_are_written_in_the_form_of_the_file(
    tmp_path: Path, name: str, text: str, changes: dict[str, Any], lines: list[str]
) -> None:
    question = imported(tmp_path, name, text)
    patch = patch_of(question, replace(question.plan, **changes), question.inputs)
    assert patch.diff != "", patch.settings
    assert all(line in patch.diff for line in lines), patch.diff


def test_explain_shows_the_change_that_its_options_ask_for(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(SCRIPT)
    answer = asked("explain", "--from", str(path), "--cluster", "h100", "--tp", "4")
    assert answer.code == 0
    assert "+TP=4" in answer.out
    assert path.read_text() == SCRIPT
    assert "--tensor-model-parallel-size" not in asked("check", "--from", str(path), "--cluster", "h100").message


def test_the_screen_holds_the_patch_as_it_is_applied(tmp_path: Path) -> None:
    """Long lines whole, with tabs and what is a mark elsewhere."""
    path = tmp_path / "run.sh"
    text = SCRIPT.replace("TP=2\n", "TP=2; D=`pwd` # **here**\n").replace("    --micro", "\t--micro")
    path.write_text(text.replace("size 64\n", f"size 64 # {'sequences ' * 40}\n"))
    options = ("--from", str(path), "--cluster", "h100", "--tp", "4", "--micro-batch", "1", "--recompute", "full")
    diff = json.loads(asked("explain", *options, "--json").out)["launch_patch"]["patch"]
    assert "`pwd` # **here**" in diff
    assert "\t--micro" in diff
    assert max(map(len, diff.splitlines())) > 200
    assert diff in asked("explain", *options).out


def test_the_cheapest_change_is_the_micro_batch_wherever_that_ends(tmp_path: Path) -> None:
    """Half of it does not fit, a quarter does, and takes less than computing layers again."""
    path = tmp_path / "run.sh"
    sizes = (
        "--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 --group-query-attention"
    )
    batch = "--num-query-groups 8 --vocab-size 128256 --seq-length 8192 --micro-batch-size 4 --global-batch-size 256"
    layout = "--tensor-model-parallel-size 8 --sequence-parallel --pipeline-model-parallel-size 4"
    path.write_text(
        f"torchrun --nnodes 8 --nproc_per_node 8 pretrain_gpt.py {sizes} {batch} {layout} --swiglu --bf16 "
        "--disable-bias-linear --position-embedding-type rope --normalization RMSNorm --use-distributed-optimizer "
        "--untie-embeddings-and-output-weights\n"
    )
    change = json.loads(asked("explain", "--from", str(path), "--cluster", "h100", "--json").out)["launch_patch"]
    assert change["why"] == "It is safe with mbs 4 -> 1"
    assert "+" + path.read_text().replace("--micro-batch-size 4", "--micro-batch-size 1") in change["patch"]


def test_a_degree_that_no_setting_says_is_told(tmp_path: Path) -> None:
    """TRL's files have no key for context parallelism, which stands in what starts it."""
    path = tmp_path / "sft.yaml"
    path.write_text(
        "model_name_or_path: Qwen/Qwen3-8B\ndtype: bfloat16\nbf16: true\nmax_length: 8192\npacking: true\n"
        "per_device_train_batch_size: 1\ngradient_accumulation_steps: 8\ngradient_checkpointing: true\n"
    )
    options = ("--from", str(path), "--cluster", "1x8:h100", "--set", "plan.zero=3")
    assert "- cp 2: no setting of TRL that is read says it" in asked("explain", *options, "--cp", "2").out
    assert "no setting of TRL" not in asked("explain", *options, "--micro-batch", "2").out


def test_a_switch_of_a_file_with_keys_is_told_with_its_value(tmp_path: Path) -> None:
    path = tmp_path / "sft.yaml"
    path.write_text(
        "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: full\nbf16: true\ncutoff_len: 2048\n"
        "per_device_train_batch_size: 1\ngradient_accumulation_steps: 8\ndeepspeed: zero.json\n"
    )
    (tmp_path / "zero.json").write_text('{"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}}')
    answer = asked("explain", "--from", str(path), "--cluster", "1x8:h100", "--recompute", "none", "--zero", "2").out
    assert "- set disable_gradient_checkpointing True" in answer

"""Scripts that hand a file of settings to their program: it is read beside them, or named as not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

SWIFT = """model: Qwen/Qwen3-8B
tuner_type: full
max_length: 4096
micro_batch_size: 1
global_batch_size: 32
tensor_model_parallel_size: 2
"""
FACTORY = """model_name_or_path: Qwen/Qwen3-8B
stage: sft
finetuning_type: full
cutoff_len: 2048
per_device_train_batch_size: 1
gradient_accumulation_steps: 2
bf16: true
"""
TITAN = """[model]
name = "llama3"
flavor = "8B"
[training]
seq_len = 8192
local_batch_size = 1
[parallelism]
tensor_parallel_degree = 2
"""


def read(folder: Path, line: str, **values: str) -> LaunchQuestion:
    for name, text in (("sft.yaml", SWIFT), ("full.yaml", FACTORY), ("llama.toml", TITAN)):
        (folder / name).write_text(text)
    (folder / "run.sh").write_text(f"#!/bin/bash\n{line}\n")
    return question_of_file(folder / "run.sh", Given(cluster="h100", values=values))


@pytest.mark.parametrize(
    ("line", "framework", "plan"),
    [
        (
            "NPROC_PER_NODE=8 megatron sft examples/sft.yaml",
            "ms-swift",
            "tp2 pp1 dp4 zero1 mbs1 m8 recompute-selective",
        ),
        (
            "NPROC_PER_NODE=8 megatron sft sft.yaml --tensor_model_parallel_size 4",
            "ms-swift",
            "tp4 pp1 dp2 zero1 mbs1 m16 recompute-selective",
        ),
        (
            "FORCE_TORCHRUN=1 NNODES=2 NPROC_PER_NODE=8 llamafactory-cli train full.yaml",
            "LLaMA-Factory",
            "tp1 pp1 dp16 zero0 mbs1 m2 recompute-full",
        ),
        (
            "export NPROC_PER_NODE=8\nllamafactory-cli train full.yaml per_device_train_batch_size=2",
            "LLaMA-Factory",
            "tp1 pp1 dp8 zero0 mbs2 m2 recompute-full",
        ),
        (
            "torchrun --nproc_per_node=8 train.py --job.config_file ./llama.toml --training.local_batch_size 2",
            "torchtitan before 0.3",
            "tp2 sp pp1 dp4 zero3 mbs2 m1 recompute-selective",
        ),
    ],
)
def test_the_file_that_a_program_is_given_is_read(tmp_path: Path, line: str, framework: str, plan: str) -> None:
    """With the options of the command line, which go before it."""
    question = read(tmp_path, line)
    assert (question.dialect.framework, str(question.plan)) == (framework, plan)


@pytest.mark.parametrize("name", ["other.yaml", "$HOME/conf/other.yaml"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput) as error:
        read(tmp_path, f"llamafactory-cli train {name}")
    assert str(error.value).endswith(f"it names {name} (line 2), which is not there")


def test_commands_that_train_nothing_hand_on_no_settings(tmp_path: Path) -> None:
    for line in ("llamafactory-cli export full.yaml", "swift infer sft.yaml", "cp full.yaml /tmp/other.yaml"):
        with pytest.raises(InvalidInput, match="starts no program with options"):
            read(tmp_path, line)


def test_the_settings_of_a_program_stand_beside_those_of_accelerate(tmp_path: Path) -> None:
    (tmp_path / "fsdp.yaml").write_text(
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n"
        "fsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: true}\n"
    )
    (tmp_path / "trl.yaml").write_text(
        "model_name_or_path: Qwen/Qwen3-8B\nmax_length: 2048\nper_device_train_batch_size: 2\n"
        "gradient_accumulation_steps: 4\n"
    )
    question = read(tmp_path, "accelerate launch --config_file fsdp.yaml sft.py --config trl.yaml")
    assert str(question.plan) == "tp1 pp1 dp8 zero3 mbs2 m4"
    assert (question.inputs.model.name, question.inputs.job.sequence_length) == ("qwen3-8b", 2048)


@pytest.mark.parametrize("offloaded", ["none", "cpu"])
def test_a_configuration_of_deepspeed_has_nothing_of_fsdp(tmp_path: Path, offloaded: str) -> None:
    engine = f"zero_stage: 3, offload_optimizer_device: {offloaded}"
    (tmp_path / "ds.yaml").write_text(
        f"distributed_type: DEEPSPEED\ndeepspeed_config: {{{engine}}}\nmixed_precision: bf16\nnum_processes: 8\n"
    )
    (tmp_path / "a.sh").write_text(
        "accelerate launch --config_file ds.yaml sft.py --model_name_or_path Qwen/Qwen3-8B --max_length 4096 "
        "--per_device_train_batch_size 1 --gradient_accumulation_steps 2\n"
    )
    question = question_of_file(tmp_path / "a.sh", Given(cluster="h100"))
    assert (question.plan.zero, question.inputs.runtime.id) == (3, "deepspeed")
    assert not any("fsdp" in note for note in question.notes)

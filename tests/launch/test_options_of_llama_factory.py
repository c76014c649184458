"""Options of `llamafactory-cli train`, which are those of its YAML."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.patch import patch_of
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.specs.choices import Recompute

OPTIONS = """llamafactory-cli train \\
    --model_name_or_path Qwen/Qwen3-8B \\
    --stage sft \\
    --do_train \\
    --finetuning_type lora \\
    --lora_target all \\
    --cutoff_len 2048 \\
    --save_only_model false \\
    --per_device_train_batch_size 1 \\
    --gradient_accumulation_steps 8 \\
    --bf16 \\
"""
YAML = """model_name_or_path: Qwen/Qwen3-8B
stage: sft
do_train: true
finetuning_type: lora
lora_target: all
cutoff_len: 2048
save_only_model: false
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
"""
FULL = OPTIONS.replace("type lora", "type full").replace("    --lora_target all \\\n", "")


def read(folder: Path, text: str) -> LaunchQuestion:
    path = folder / ("a.sh" if text.startswith(("llama", "torchrun")) else "a.yaml")
    path.write_text(text)
    return question_of_file(path, Given(cluster="1x8:h200"))


@pytest.mark.parametrize("more", ["", "--lora_rank 32", "--pure_bf16 true", "--flash_attn fa2 --enable_liger_kernel"])
def test_a_script_is_read_as_its_yaml(tmp_path: Path, more: str) -> None:
    words = [line.partition(" ") for line in more.replace(" --", "\n--").split("\n") if line]
    keys = "".join(f"{key.lstrip('-')}: {value or 'true'}\n" for key, _, value in words)
    script, yaml = read(tmp_path, f"{OPTIONS}    {more}\n"), read(tmp_path, YAML + keys)
    assert (script.dialect.name, script.plan, script.inputs) == ("llama-factory", yaml.plan, yaml.inputs)
    assert (script.understood.unknown, script.understood.unpriced) == ({}, yaml.understood.unpriced)


def test_a_program_of_older_releases_is_known_by_its_options(tmp_path: Path) -> None:
    started = "torchrun --nproc_per_node 8 src/train_bash.py"
    question = read(tmp_path, FULL.replace("llamafactory-cli train", started))
    assert (question.dialect.name, question.inputs.job.lora_rank) == ("llama-factory", 0)
    assert question.inputs.runtime.id == "pytorch-ddp"


def test_the_json_of_an_option_is_opened(tmp_path: Path) -> None:
    liger = '{"cross_entropy": true, "fused_linear_cross_entropy": false}'
    question = read(tmp_path, f"{FULL}    --use_liger_kernel true --liger_kernel_config '{liger}'\n")
    assert (question.inputs.runtime.kernels.cross_entropy, question.understood.unknown) == ("in_place", {})


def test_what_is_wrong_has_its_line(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInput, match=r"line 5: what is trained: finetuning_type freeze stage sft is not modelled"
    ):
        read(tmp_path, FULL.replace("type full", "type freeze"))
    (tmp_path / "ds.json").write_text(
        json.dumps({"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 4})
    )
    question = read(tmp_path, f"{FULL}    --deepspeed ds.json\n")
    (broken,) = (rule for rule in question.rules if not rule.kept)
    assert (broken.name, broken.reason[:7]) == ("micro_batches_agree", "line 8:")


def test_a_patch_writes_options(tmp_path: Path) -> None:
    question = read(tmp_path, FULL)
    wished = replace(question.plan, micro_batch=2, num_microbatches=4, recompute=Recompute.NONE)
    diff = patch_of(question, wished, question.inputs).diff.splitlines()
    added = [line[1:].split() for line in diff if line.startswith("+")]
    assert ["--per_device_train_batch_size", "2", "\\"] in added
    assert any("--disable_gradient_checkpointing" in words for words in added)


@pytest.mark.parametrize("given", ["true", "false"])
def test_layers_are_computed_again_whatever_the_key_of_the_trainer_says(tmp_path: Path, given: str) -> None:
    question = read(tmp_path, f"{YAML}gradient_checkpointing: {given}\n")
    assert question.plan.recompute == Recompute.FULL
    assert not any("gradient_checkpointing" in note for note in question.notes)

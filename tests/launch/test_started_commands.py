"""What a script starts: commands that train nothing, and counts that `expr` computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.import_table import import_table
from meshwright.launch.imports.question import Given, question_of_file

TUNED = """ranks=2
NPROC_PER_NODE=$ranks swift sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type lora --torch_dtype bfloat16 \\
    --per_device_train_batch_size 1 --gradient_accumulation_steps COUNT --max_length 2048
"""
VERSION_1 = """model: Qwen/Qwen3-0.6B
model_class: llm
dist_config:
  name: fsdp2
micro_batch_size: 1
cutoff_len: 2048
"""


@pytest.mark.parametrize("count", ["$(expr 16 / $ranks)", "`expr 4 \\* $ranks`", "$((16 / ranks))", "8"])
def test_counts_of_expr_are_computed(count: str, tmp_path: Path) -> None:
    """As examples of ms-swift have them (modelscope/ms-swift@3602360a5 examples/train/multi-gpu/ddp/train.sh)."""
    path = tmp_path / "train.sh"
    path.write_text(TUNED.replace("COUNT", count))
    assert question_of_file(path, Given(cluster="1x2:h100")).inputs.job.global_batch == 16


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("swift deploy", "--max_new_tokens 2048"),
        ("swift app", "--stream true"),
        ("megatron export", "--tensor_model_parallel_size 2"),
    ],
)
def test_a_command_that_trains_nothing_is_told(command: str, options: str, tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(f"{command} --model Qwen/Qwen3-8B {options}\n")
    with pytest.raises(InvalidInput, match=f"starts {command}, which trains nothing"):
        question_of_file(path, Given(cluster="1x8:h100"))


def test_a_file_of_another_library_is_not_taken_for_one_of_ms_swift(tmp_path: Path) -> None:
    """Source: hiyouga/LLaMA-Factory, examples/v1/train_full/train_full_fsdp2.yaml."""
    path = tmp_path / "train.yaml"
    path.write_text(VERSION_1)
    with pytest.raises(InvalidInput, match="of no framework that is recognised"):
        question_of_file(path, Given(cluster="1x8:h100"))


def test_what_ms_swift_sets_itself_is_not_told_and_the_rest_in_its_own_words(tmp_path: Path) -> None:
    """Source: modelscope/ms-swift@3602360a5 swift/megatron/arguments/megatron_args.py L796, which sets
    CUDA_DEVICE_MAX_CONNECTIONS.
    """
    path = tmp_path / "run.sh"
    path.write_text(
        "megatron sft --model Qwen/Qwen3-8B --max_length 2048 --tensor_model_parallel_size 2 "
        "--sequence_parallel true --attention_backend unfused\n"
    )
    notes = " ".join(question_of_file(path, Given(cluster="1x8:h100")).notes)
    assert "CUDA_DEVICE_MAX_CONNECTIONS" not in notes
    assert "priced as if the file set --attention-backend=auto" in notes


def test_a_change_by_hand_quotes_what_a_shell_would_take_for_its_own() -> None:
    table = import_table("ms-swift")
    assert table.assignments("--pipeline-model-parallel-layout", "Et|(t|)*2tL") == [
        "--pipeline-model-parallel-layout 'Et|(t|)*2tL'"
    ]
    assert table.assignments("--sequence-parallel", True) == ["--sequence-parallel"]

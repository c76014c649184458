"""Where TRL's configuration says how states are sharded, and where what starts it does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

SFT = """model_name_or_path: meta-llama/Llama-3.1-8B
per_device_train_batch_size: 1
max_length: 4096
gradient_checkpointing: true
bf16: true
"""


def read(folder: Path, more: str = "", command: str = "") -> LaunchQuestion:
    (folder / "sft.yaml").write_text(SFT + more)
    if command:
        (folder / "a.sh").write_text(f"{command} sft.py --config sft.yaml\n")
    return question_of_file(folder / ("a.sh" if command else "sft.yaml"), Given(cluster="1x8:h100"))


def test_torchrun_alone_keeps_whole_states(tmp_path: Path) -> None:
    question = read(tmp_path, command="torchrun --nproc_per_node 8")
    assert question.plan.zero == 0
    assert any(note.startswith("neither `deepspeed` nor `fsdp`: replicas") for note in question.notes)


@pytest.mark.parametrize("command", ["", "accelerate launch --config_file absent.yaml"])
def test_what_stands_elsewhere_is_asked_for_with_its_place(tmp_path: Path, command: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read(tmp_path, command=command)
    assert "plan.zero: the stage of ZeRO stands in what starts the training" in str(raised.value)
    assert "`accelerate launch --config_file FILE`" in str(raised.value)
    assert "--set plan.zero=3" in str(raised.value)


@pytest.mark.parametrize("command", ["", "torchrun --nproc_per_node 8"])
def test_the_file_of_deepspeed_that_it_names_is_read(tmp_path: Path, command: str) -> None:
    more = "deepspeed: ds.json\n"
    with pytest.raises(InvalidInput, match=r"line 6 names ds.json, which is neither beside it"):
        read(tmp_path, more, command)
    (tmp_path / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 3, "overlap_comm": False}}))
    question = read(tmp_path, more, command)
    assert (question.plan.zero, question.inputs.runtime.id, question.understood.unknown) == (3, "deepspeed", {})
    assert any("overlap_comm" in note for note in question.notes)


@pytest.mark.parametrize(("words", "stage"), [("full_shard auto_wrap", 3), ("[shard_grad_op, auto_wrap]", 2)])
def test_the_words_of_fsdp_are_read(tmp_path: Path, words: str, stage: int) -> None:
    question = read(tmp_path, f"fsdp: {words}\n")
    assert (question.plan.zero, question.inputs.runtime.id) == (stage, "accelerate")
    with pytest.raises(InvalidInput, match="only full_shard and shard_grad_op"):
        read(tmp_path, "fsdp: hybrid_shard\n")

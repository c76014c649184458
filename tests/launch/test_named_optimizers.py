"""Optimizers by their names in files of fine-tuning: priced where their states are AdamW's, told where not."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

TRL = """model_name_or_path: Qwen/Qwen3-8B
per_device_train_batch_size: 1
max_length: 2048
bf16: true
gradient_checkpointing: true
fsdp: full_shard
optim: NAME
"""
AXOLOTL = """base_model: Qwen/Qwen3-8B
sequence_len: 2048
micro_batch_size: 1
bf16: true
fsdp_version: 2
fsdp_config: {reshard_after_forward: true}
optimizer: NAME
"""
FACTORY = """model_name_or_path: Qwen/Qwen3-8B
stage: sft
finetuning_type: full
deepspeed: ds.json
per_device_train_batch_size: 1
bf16: true
optim: NAME
"""
TRAINER = (
    "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 1 "
    "--model_max_length 2048 --bf16 True --gradient_checkpointing True --fsdp full_shard --optim NAME"
)
FORMS = {"trl.yaml": TRL, "axolotl.yaml": AXOLOTL, "factory.yaml": FACTORY, "a.sh": TRAINER}


def read(folder: Path, name: str, optimizer: str) -> LaunchQuestion:
    (folder / name).write_text(FORMS[name].replace("NAME", optimizer))
    (folder / "ds.json").write_text('{"zero_optimization": {"stage": 3}}')
    return question_of_file(folder / name, Given(cluster="1x8:h100"))


@pytest.mark.parametrize("name", FORMS)
def test_adam_in_eight_bits_has_moments_of_a_byte(tmp_path: Path, name: str) -> None:
    for optimizer in ("adamw_torch_8bit", "adamw_bnb_8bit", "adamw_8bit", "paged_adamw_8bit"):
        question = read(tmp_path, name, optimizer)
        storage = question.inputs.runtime.storage
        assert (storage.moment_bytes, storage.moment_block) == (1, 256)
        assert ([*question.understood.unknown], [*question.understood.unpriced]) == ([], [])
        assert any("of embeddings keep 4 bytes" in note for note in question.notes) == ("torch" not in optimizer)
        assert any("pages them out" in note for note in question.notes) == optimizer.startswith("paged")


@pytest.mark.parametrize("name", FORMS)
def test_adam_of_pytorch_goes_by_operators_unless_it_is_fused(tmp_path: Path, name: str) -> None:
    plain = read(tmp_path, name, "adamw_torch").inputs.runtime
    assert not plain.storage.fused_update
    fused = read(tmp_path, name, "adamw_torch_fused").inputs.runtime.storage
    assert (fused.fused_update, fused.moment_bytes) == (True, 4)


def test_an_optimizer_of_deepspeed_s_own_file_is_fused(tmp_path: Path) -> None:
    (tmp_path / "factory.yaml").write_text(FACTORY.replace("NAME", "adamw_torch"))
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 3}, "optimizer": {"type": "AdamW"}}')
    question = question_of_file(tmp_path / "factory.yaml", Given(cluster="1x8:h100"))
    assert question.inputs.runtime.storage.fused_update


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("optimizer", ["adafactor", "lion_8bit", "adamw_4bit", "nobodys"])
def test_other_optimizers_are_told(tmp_path: Path, name: str, optimizer: str) -> None:
    question = read(tmp_path, name, optimizer)
    assert any("optimizer states" in what for what in question.understood.unpriced.values())
    assert question.inputs.runtime.storage.moment_bytes == 4

"""Megatron-DeepSpeed: its command line, the JSON beside it, and what other releases of it spell otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

SCRIPT = """
HERE="$(cd "$(dirname "$0")" && pwd)"
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 \\
    --vocab-size 32000 --swiglu --use-rotary-position-embeddings --max-position-embeddings 2048 --seq-length 2048 \\
    --micro-batch-size 2 --global-batch-size 64 --bf16 --deepspeed --deepspeed_config "$HERE/ds.json"
"""


def read(folder: Path, flags: str = "", **settings: object) -> LaunchQuestion:
    """The script with more flags, beside a JSON of these settings."""
    (folder / "run.sh").write_text(SCRIPT.rstrip() + f" {flags}\n")
    (folder / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 1}} | settings))
    return question_of_file(folder / "run.sh", Given(cluster="1x8:h100"))


def test_the_stage_stands_in_the_json_and_decides_the_runtime(tmp_path: Path) -> None:
    usual = read(tmp_path)
    assert (usual.plan.zero, usual.inputs.runtime.id) == (1, "megatron-deepspeed")
    fully = read(tmp_path, zero_optimization={"stage": 3})
    assert (fully.plan.zero, fully.inputs.runtime.id) == (3, "deepspeed")
    assert read(tmp_path, zero_optimization={"stage": 0}).plan.zero == 1  # BF16_Optimizer shards
    (tmp_path / "ds.json").unlink()
    with pytest.raises(InvalidInput, match=r"plan\.zero is not in the file: line 5 names \./ds\.json, which is"):
        question_of_file(tmp_path / "run.sh", Given(cluster="1x8:h100"))


def test_batches_of_the_json_are_those_of_the_command_line(tmp_path: Path) -> None:
    assert read(tmp_path, train_batch_size=64, train_micro_batch_size_per_gpu=2).plan.num_microbatches == 4
    with pytest.raises(
        InvalidInput, match="JSON says train_batch_size 128, and the command line --global-batch-size 64"
    ):
        read(tmp_path, train_batch_size=128)


def test_a_json_that_is_malformed_or_of_no_name_is_told(tmp_path: Path) -> None:
    read(tmp_path)
    (tmp_path / "ds.json").write_text('{"zero_optimization":\n {"stage" 1}}')
    with pytest.raises(InvalidInput, match=r"names DeepSpeed's '.*ds\.json', which is malformed, line 2"):
        question_of_file(tmp_path / "run.sh", Given(cluster="1x8:h100"))
    (tmp_path / "run.sh").write_text(SCRIPT.replace("ds.json", "d" * 300))
    with pytest.raises(InvalidInput, match=r"plan\.zero is not in the file"):
        question_of_file(tmp_path / "run.sh", Given(cluster="1x8:h100"))


def test_experts_stand_in_every_second_layer_unless_told(tmp_path: Path) -> None:
    """Source: deepspeedai/Megatron-DeepSpeed@4efb479d5317 megatron/model/transformer.py L1657."""
    flags = "--num-experts 8 --topk 2 --moe-expert-parallel-size 4 --disable-moe-token-dropping"
    model = read(tmp_path, flags).inputs.model
    assert [model.layer_kinds[each].is_moe for each in model.layer_pattern[:4]] == [False, True, False, True]
    every = read(tmp_path, f"{flags} --expert-interval 1")
    assert {each.is_moe for each in every.inputs.model.layer_kinds} == {True}
    assert (every.plan.ep, every.plan.etp, every.inputs.expert_capacity) == (4, 1, None)
    capped = read(tmp_path, "--num-experts 8 --moe-train-capacity-factor 1.25")
    assert capped.inputs.expert_capacity == 1.25
    split = read(tmp_path, f"{flags} --tensor-model-parallel-size 2 --enable-expert-tensor-parallelism")
    assert (split.plan.tp, split.plan.etp) == (2, 2)


def test_states_on_the_host_and_positions_of_other_releases(tmp_path: Path) -> None:
    offload = {"offload_optimizer": {"device": "cpu"}}
    assert read(tmp_path, zero_optimization={"stage": 3} | offload).inputs.runtime.storage.offloads_states
    one = read(tmp_path, zero_optimization={"stage": 1} | offload)
    assert (one.inputs.runtime.storage.offloads_states, [*one.understood.unpriced]) == (False, ["--cpu-optimizer"])
    text = SCRIPT.replace("--use-rotary-position-embeddings", "--position-embedding-type alibi")
    (tmp_path / "old.sh").write_text(text)
    assert question_of_file(tmp_path / "old.sh", Given(cluster="1x8:h100")).inputs.model.learned_positions == 0

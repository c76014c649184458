"""Settings of a DeepSpeed file: priced, told or passed over alike, whoever names the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

FACTORY = """model_name_or_path: meta-llama/Llama-3.1-8B
stage: sft
finetuning_type: full
deepspeed: ds.json
per_device_train_batch_size: 1
bf16: true
"""
AXOLOTL = """base_model: meta-llama/Llama-3.1-8B
deepspeed: ds.json
sequence_len: 2048
micro_batch_size: 1
bf16: true
"""
TRAINER = (
    "torchrun --nproc_per_node 8 train.py --model_name_or_path meta-llama/Llama-3.1-8B --deepspeed ds.json "
    "--per_device_train_batch_size 1 --model_max_length 2048 --bf16 True --gradient_checkpointing True"
)
ACCELERATE = """distributed_type: DEEPSPEED
deepspeed_config:
  deepspeed_config_file: ds.json
"""
FORMS = {"factory.yaml": FACTORY, "axolotl.yaml": AXOLOTL, "a.sh": TRAINER, "accelerate.yaml": ACCELERATE}
SAID = {"job.sequence_length": "2048", "plan.micro_batch": "1", "plan.num_microbatches": "1"}
USUAL = {
    "overlap_comm": True,
    "contiguous_gradients": True,
    "sub_group_size": 1e9,
    "reduce_bucket_size": 5e8,
    "stage3_max_live_parameters": 1e9,
    "stage3_max_reuse_distance": 1e9,
    "round_robin_gradients": True,
}


def read(folder: Path, name: str, **zero: Any) -> LaunchQuestion:
    engine = {"zero_allow_untested_optimizer": True, "bf16": {"enabled": True}, "zero_optimization": zero}
    (folder / "ds.json").write_text(json.dumps(engine))
    own = name == "ds.json"
    if not own:
        (folder / name).write_text(FORMS[name])
    values = SAID if own or name == "accelerate.yaml" else {}
    values = {key: value for key, value in values.items() if not own or key != "plan.num_microbatches"}
    return question_of_file(folder / name, Given(cluster="1x8:h100", model="llama-3.1-8b", values=values))


def told(question: LaunchQuestion) -> list[str]:
    return [note for note in question.notes if "zero_optimization" in note]


@pytest.mark.parametrize("name", [*FORMS, "ds.json"])
def test_usual_settings_are_known_and_silent(tmp_path: Path, name: str) -> None:
    question = read(tmp_path, name, stage=3, **USUAL)
    assert ([*question.understood.unknown], told(question)) == ([], [])
    assert not question.inputs.runtime.replaced
    assert not {key for key in question.understood.unpriced if key.startswith("zero")}
    assert all(rule.kept for rule in question.rules)


@pytest.mark.parametrize("name", [*FORMS, "ds.json"])
def test_exchanges_that_wait_are_priced_where_nothing_overlaps_and_told_in_stage_3(tmp_path: Path, name: str) -> None:
    for zero in ({"stage": 2, "overlap_comm": False}, {"stage": 1}):
        runtime = read(tmp_path, name, **zero).inputs.runtime
        assert (runtime.overlap.data_parallel, runtime.sharding.whole_buckets) == (0, 1)
    beside = read(tmp_path, name, stage=2, overlap_comm=True).inputs.runtime
    assert (beside.overlap.data_parallel, beside.sharding.whole_buckets) == (0.9, 2)
    assert not told(read(tmp_path, name, stage=3))
    question = read(tmp_path, name, stage=3, overlap_comm=False)
    assert question.inputs.runtime.overlap.data_parallel == 0.9
    assert "those of gradients wait" in " ".join(told(question))


@pytest.mark.parametrize("name", [*FORMS, "ds.json"])
def test_unusual_settings_are_told_where_something_reads_them(tmp_path: Path, name: str) -> None:
    unusual = {"stage3_max_live_parameters": 3e7, "sub_group_size": 1e6, "zero_quantized_weights": True}
    question = read(tmp_path, name, stage=3, **unusual)
    assert {*question.understood.unpriced} == {f"zero_optimization.{key}" for key in unusual}
    idle = read(tmp_path, name, stage=2, **unusual).understood
    assert ({*idle.unpriced}, idle.unknown) == ({"zero_optimization.zero_quantized_weights"}, {})


@pytest.mark.parametrize(("name", "bucket"), [(name, 4096**2) for name in FORMS] + [("ds.json", 500_000_000)])
def test_the_bucket_of_gradients_is_priced_as_it_is_said(tmp_path: Path, name: str, bucket: int) -> None:
    assert read(tmp_path, name, stage=2, reduce_bucket_size=2e8).inputs.runtime.sharding.gradient_bucket == 200_000_000
    by_the_model = read(tmp_path, name, stage=2, reduce_bucket_size="auto")
    assert by_the_model.inputs.runtime.sharding.gradient_bucket == bucket
    for wrong in (-1, "many", 0):
        with pytest.raises(InvalidInput, match="gradient_bucket"):
            read(tmp_path, name, stage=2, reduce_bucket_size=wrong)


@pytest.mark.parametrize("name", [*FORMS, "ds.json"])
def test_states_on_disks_are_refused(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, name, stage=3, offload_optimizer={"device": "none"})
    with pytest.raises(InvalidInput, match=r"offload_optimizer.device nvme is not modelled"):
        read(tmp_path, name, stage=3, offload_optimizer={"device": "nvme"})


@pytest.mark.parametrize("name", ["factory.yaml", "axolotl.yaml", "a.sh"])
def test_what_both_files_say_must_agree(tmp_path: Path, name: str) -> None:
    read(tmp_path, name, stage=2)
    engine = {"fp16": {"enabled": True}, "train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}
    (tmp_path / "ds.json").write_text(json.dumps(engine))
    question = question_of_file(tmp_path / name, Given(cluster="1x8:h100", model="llama-3.1-8b"))
    assert {rule.name for rule in question.rules if not rule.kept} == {"bf16_agrees", "micro_batches_agree"}
    assert not question.understood.unknown


@pytest.mark.parametrize("name", [*FORMS])
def test_the_format_of_gradients_is_that_of_the_named_file(tmp_path: Path, name: str) -> None:
    read(tmp_path, name, stage=2)
    engine = {"zero_optimization": {"stage": 2}, "data_types": {"grad_accum_dtype": "fp32"}}
    (tmp_path / "ds.json").write_text(json.dumps(engine))
    values = SAID if name == "accelerate.yaml" else {}
    given = Given(cluster="1x8:h100", model="llama-3.1-8b", values=values)
    question = question_of_file(tmp_path / name, given)
    assert (question.inputs.gradient_bytes, question.understood.unknown) == (4, {})
    (tmp_path / "ds.json").write_text(json.dumps(engine | {"data_types": {"grad_accum_dtype": "fp8"}}))
    with pytest.raises(InvalidInput, match=r"grad_accum_dtype fp8 is not modelled"):
        question_of_file(tmp_path / name, given)

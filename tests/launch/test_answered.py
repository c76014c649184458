"""Options beside a launch file: what answers the question counts as given, and changes what the file says itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import asked
from launch_examples import FOUNDRY
from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, question_of_file

DEEPSPEED = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}
AUTO = DEEPSPEED | {"gradient_accumulation_steps": "auto"}
ACCELERATE = "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\nmixed_precision: bf16\n"
LLAMA = ("--model", "llama-3.1-8b", "--cluster", "2x8:h100")
BATCH = ("--global-batch", "64", "--seq-len", "4k")


def test_options_say_what_a_file_leaves_open_and_change_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(DEEPSPEED))
    answer = asked("explain", "--from", str(tmp_path / "ds.json"), *LLAMA, *BATCH, "--json")
    explained = json.loads(answer.out)
    assert [each["name"] for each in explained["variation"]["changed"]] == ["global batch"]


@pytest.mark.parametrize(
    "batch", [("--global-batch", "64", "--micro-batch", "2"), ("--global-batch-tokens", "256k", "--micro-batch", "2")]
)
def test_a_configuration_that_says_no_batch_takes_that_of_the_options(tmp_path: Path, batch: tuple[str, ...]) -> None:
    (tmp_path / "a.yaml").write_text(ACCELERATE)
    answer = asked("check", "--from", str(tmp_path / "a.yaml"), *LLAMA, "--seq-len", "4k", *batch, "--json")
    checked = json.loads(answer.out)
    assert (checked["plan"]["micro_batch"], checked["plan"]["num_microbatches"]) == (2, 2)
    assert "variation" not in checked


def test_a_batch_is_given_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(ACCELERATE)
    answer = asked("explain", "--from", str(tmp_path / "a.yaml"), *LLAMA, *BATCH, "--global-batch-tokens", "256k")
    assert (answer.code, "both are given" in answer.message) == (2, True)


def test_what_no_option_says_is_still_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(ACCELERATE)
    answer = asked("explain", "--from", str(tmp_path / "a.yaml"), *LLAMA, *BATCH)
    assert answer.code == 2
    assert "--set plan.micro_batch=..." in answer.message
    assert "job." not in answer.message


def test_micro_batches_that_are_auto_follow_from_the_global_batch_or_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(AUTO))
    said = {"job.sequence_length": 4096, "job.global_batch": 64}
    given = Given(cluster="2x8:h100", model="llama-3.1-8b", answers=said)
    question = question_of_file(tmp_path / "ds.json", given)
    assert question.plan.num_microbatches == 4
    assert question.answered == ("job.sequence_length", "job.global_batch")
    with pytest.raises(InvalidInput, match=r"line 1: gradient_accumulation_steps is auto.*--set job\.global_batch="):
        question_of_file(tmp_path / "ds.json", Given(cluster="2x8:h100", model="llama-3.1-8b"))


def test_what_is_auto_is_not_called_absent_and_what_says_it_works(tmp_path: Path) -> None:
    path = tmp_path / "ds.json"
    path.write_text(json.dumps(AUTO | {"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}}))
    said: dict[str, object] = {"job.sequence_length": 4096, "job.global_batch": 64}
    with pytest.raises(InvalidInput) as refusal:
        question_of_file(path, Given(cluster="2x8:h100", model="llama-3.1-8b", answers=said))
    told = str(refusal.value)
    assert "without bf16.enabled" not in told
    assert "not in the file" not in told
    assert "train_micro_batch_size_per_gpu is auto, and the arguments of the training script say it" in told
    assert "--set plan.micro_batch=..." in told
    assert "--set bf16.enabled=..." in told
    values = {"plan.micro_batch": "2", "bf16.enabled": "true"}
    question = question_of_file(path, Given(cluster="2x8:h100", model="llama-3.1-8b", answers=said, values=values))
    assert (question.plan.micro_batch, question.inputs.job.precision) == (2, "bf16")


@pytest.mark.parametrize(
    ("settings", "notes"),
    [
        ("fsdp_version: 2, fsdp_cpu_ram_efficient_loading: true", []),
        ("fsdp_cpu_ram_efficient_loading: true", ["fsdp_config.fsdp_version=2"]),
        ("fsdp_version: 2, fsdp_cpu_ram_efficient_loading: true, fsdp_offload_params: true", []),
    ],
)
def test_weights_on_the_host_are_priced_and_fsdp_1_is_told_where_it_is_not(
    tmp_path: Path, settings: str, notes: list[str]
) -> None:
    (tmp_path / "a.yaml").write_text(ACCELERATE.replace("fsdp_version: 2", settings))
    said: dict[str, object] = {"job.sequence_length": 4096, "job.global_batch": 64, "plan.micro_batch": 1}
    given = Given(cluster="2x8:h100", model="llama-3.1-8b", answers=said)
    question = question_of_file(tmp_path / "a.yaml", given)
    told = [note for note in question.notes if note.startswith("priced as if")]
    assert question.inputs.runtime.storage.offloads_weights == ("offload" in settings)
    assert [note.partition(": ")[0] for note in told] == [f"priced as if the file set {each}" for each in notes]


def test_what_is_priced_of_a_trainers_deepspeed_file_is_not_called_unknown(tmp_path: Path) -> None:
    offload = {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": True}, "overlap_comm": True}
    engine = {"zero_optimization": offload | {"contiguous_gradients": True, "of_a_fork": 1}, "gradient_clipping": 1.0}
    (tmp_path / "ds.json").write_text(json.dumps(engine))
    (tmp_path / "a.sh").write_text(
        "deepspeed --num_gpus 8 train.py --deepspeed ds.json --model_name_or_path meta-llama/Llama-3.1-8B "
        "--per_device_train_batch_size 2 --model_max_length 4096 --bf16 True --gradient_checkpointing True"
    )
    question = question_of_file(tmp_path / "a.sh", Given(cluster="1x8:h100"))
    assert [each.behaviour for each in question.inputs.runtime.replaced] == ["storage.offloaded"]
    assert {*question.understood.unknown} == {"zero_optimization.of_a_fork"}
    unasked = engine | {"zero_optimization": offload | {"overlap_comm": False}}
    (tmp_path / "ds.json").write_text(json.dumps(unasked))
    waiting = question_of_file(tmp_path / "a.sh", Given(cluster="1x8:h100"))
    assert not waiting.understood.unknown
    assert any("zero_optimization.overlap_comm: exchanges" in note for note in waiting.notes)


def test_activations_that_llm_foundry_offloads_are_told(tmp_path: Path) -> None:
    text = FOUNDRY.replace("fsdp_config: {", "fsdp_config: {activation_cpu_offload: true, ", 1)
    (tmp_path / "a.yaml").write_text(text)
    notes = question_of_file(tmp_path / "a.yaml", Given(cluster="2x8:h100")).notes
    assert any("activation_cpu_offload=False: activations stay" in note for note in notes)

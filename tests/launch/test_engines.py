"""DeepSpeed, FSDP or replicas: programs with a Trainer's arguments say them alike, whatever else their files hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

TRL = """model_name_or_path: meta-llama/Llama-3.1-8B
per_device_train_batch_size: 1
max_length: 4096
gradient_checkpointing: true
bf16: true
"""
FACTORY = (
    TRL.replace("gradient_checkpointing: true", "cutoff_len: 4096").replace("max_length: 4096\n", "")
    + "stage: sft\nfinetuning_type: full\n"
)
TRAINER = """torchrun --nproc_per_node 8 train.py --model_name_or_path meta-llama/Llama-3.1-8B \\
  --model_max_length 4096 --per_device_train_batch_size 1 --gradient_checkpointing True --bf16 True"""
SWIFT = """NPROC_PER_NODE=8 swift sft --model LLM-Research/Meta-Llama-3.1-8B --tuner_type full --max_length 4096 \\
  --per_device_train_batch_size 1"""
FILES = {"trl": ("a.yaml", TRL), "llama-factory": ("a.yaml", FACTORY), "trainer": ("a.sh", TRAINER)}
ALL = FILES | {"swift": ("a.sh", SWIFT)}


def read(folder: Path, framework: str, **options: str) -> LaunchQuestion:
    """The file of a framework with options, and with `plan_zero` as said beside it."""
    name, text = ALL[framework]
    beside = {"plan.zero": options.pop("plan_zero")} if "plan_zero" in options else {}
    flags = "".join(f" --{key} {value}" for key, value in options.items())
    keys = "".join(f"{key}: {value}\n" for key, value in options.items())
    (folder / name).write_text(text + (f"{flags}\n" if name == "a.sh" else keys))
    return question_of_file(folder / name, Given(cluster="1x8:h100", model="llama-3.1-8b", values=beside))


@pytest.mark.parametrize("framework", FILES)
@pytest.mark.parametrize(("fsdp", "stage"), [("full_shard", 3), ("shard_grad_op", 2), ("true", 3)])
def test_the_words_of_fsdp_are_those_of_the_trainer(tmp_path: Path, framework: str, fsdp: str, stage: int) -> None:
    question = read(tmp_path, framework, fsdp=fsdp)
    assert (question.dialect.name, question.inputs.runtime.id) == (framework, "accelerate")
    assert (question.plan.zero, question.understood.unknown) == (stage, {})
    with pytest.raises(InvalidInput, match="only full_shard and shard_grad_op"):
        read(tmp_path, framework, fsdp="hybrid_shard")


@pytest.mark.parametrize("framework", ALL)
def test_a_deepspeed_file_says_no_other_micro_batch(tmp_path: Path, framework: str) -> None:
    (tmp_path / "ds.json").write_text(
        json.dumps({"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 4})
    )
    question = read(tmp_path, framework, deepspeed="ds.json")
    assert (question.plan.zero, question.inputs.runtime.id) == (2, "deepspeed")
    assert [rule.name for rule in question.rules if not rule.kept] == ["micro_batches_agree"]


@pytest.mark.parametrize("framework", FILES)
def test_a_deepspeed_file_says_no_other_number_of_micro_batches(tmp_path: Path, framework: str) -> None:
    (tmp_path / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 2}, "gradient_accumulation_steps": 4}))
    question = read(tmp_path, framework, deepspeed="ds.json", gradient_accumulation_steps="8")
    (broken,) = (rule for rule in question.rules if not rule.kept)
    assert broken.name == "accumulation_agrees"
    assert "deepspeed.gradient_accumulation_steps 4" in broken.reason


def test_the_json_of_liger_is_opened_for_swift_too(tmp_path: Path) -> None:
    question = read(
        tmp_path,
        "swift",
        use_liger_kernel="true",
        liger_kernel_config="""'{"cross_entropy": true, "fused_linear_cross_entropy": false}'""",
    )
    assert question.understood.unknown == {}
    assert question.inputs.runtime.kernels.cross_entropy == "in_place"


@pytest.mark.parametrize("framework", ALL)
def test_a_program_that_accelerate_starts_may_be_sharded_by_it(tmp_path: Path, framework: str) -> None:
    """Whose configuration is not there."""
    (tmp_path / "c.yaml").write_text(ALL[framework][1])
    command = "accelerate launch --config_file absent.yaml"
    script = f"{command} train.py --config c.yaml\n"
    if framework == "trainer":
        script = TRAINER.replace("torchrun --nproc_per_node 8", command)
    if framework == "swift":
        script = SWIFT.replace("NPROC_PER_NODE=8 swift sft", f"{command} swift/cli/sft.py")
    (tmp_path / "a.sh").write_text(script)
    with pytest.raises(InvalidInput, match=r"--set (plan\.zero|zero_optimization\.stage)="):
        question_of_file(tmp_path / "a.sh", Given(cluster="1x8:h100", model="llama-3.1-8b"))


def test_a_stage_of_zero_that_is_said_to_be_none_means_replicas(tmp_path: Path) -> None:
    question = read(tmp_path, "trl", plan_zero="0")
    assert (question.inputs.runtime.id, question.plan.zero) == ("pytorch-ddp", 0)
    assert not any("neither" in note for note in question.notes)

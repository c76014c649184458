"""Scripts of ms-swift that train with transformers, under DeepSpeed, FSDP 2 or in replicas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

SFT = """NPROC_PER_NODE=8 \\
swift sft \\
    --model Qwen/Qwen2.5-7B-Instruct \\
    --dataset some/data#1000 \\
    --torch_dtype bfloat16 \\
    --max_length 4096 \\
    --learning_rate 1e-5 \\
"""
FULL = "    --tuner_type full \\\n"


def read(folder: Path, *options: str, text: str = SFT + FULL) -> LaunchQuestion:
    path = folder / "train.sh"
    path.write_text(f"{text}    {' '.join(options)}\n")
    return question_of_file(path, Given(cluster="h100"))


@pytest.mark.parametrize(
    ("preset", "stage", "offloaded"),
    [
        ("zero0", 0, "nothing"),
        ("zero1", 1, "nothing"),
        ("zero2_offload", 2, "states_and_gradients"),
        ("zero3", 3, "nothing"),
    ],
)
def test_the_names_of_its_own_files_are_known(tmp_path: Path, preset: str, stage: int, offloaded: str) -> None:
    question = read(tmp_path, f"--deepspeed {preset}")
    runtime = question.inputs.runtime
    assert (question.dialect.name, question.plan.zero, runtime.id) == ("swift", stage, "deepspeed")
    assert runtime.storage.offloaded == offloaded
    assert (question.inputs.cluster.num_gpus, question.inputs.job.global_batch) == (8, 16)
    assert not question.understood.unknown
    assert (runtime.overlap.data_parallel == 0) == (stage in (1, 2))
    assert any("reductions of gradients wait" in note for note in question.notes) == (stage == 3)


def test_a_file_of_deepspeed_is_read_where_it_is(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInput, match=r"--deepspeed ds.json: neither beside the file nor a name of ms-swift, zero0"
    ):
        read(tmp_path, "--deepspeed ds.json")
    (tmp_path / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 3}, "train_batch_size": "auto"}))
    question = read(tmp_path, "--deepspeed ds.json --gradient_accumulation_steps 4 --per_device_train_batch_size 2")
    assert (question.plan.zero, question.inputs.job.global_batch, question.understood.unknown) == (3, 64, {})


def test_fsdp_and_replicas_are_read(tmp_path: Path) -> None:
    sharded = read(tmp_path, "--fsdp fsdp2 --use_liger_kernel true --optim adamw_bnb_8bit")
    assert (sharded.inputs.runtime.id, sharded.plan.zero) == ("accelerate", 3)
    assert sharded.inputs.runtime.kernels.cross_entropy == "fused_linear"
    assert sharded.inputs.runtime.storage.moment_bytes == 1
    whole = read(tmp_path, "--save_steps 10")
    assert whole.plan.zero == 0
    adapted = read(tmp_path, "--save_steps 10", text=SFT)
    assert (adapted.inputs.runtime.id, adapted.inputs.job.lora_rank) == ("pytorch-ddp", 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--fsdp my.json", "--fsdp my.json: fsdp2 is modelled"),
        ("--tuner_type adalora", "--tuner_type adalora: adapters are priced as"),
        ("--rlhf_type dpo", "--rlhf_type is of training by preferences"),
        ("--quant_bits 4", "--quant_bits is of quantised weights"),
        ("--sequence_parallel_size 4", "--sequence_parallel_size 4: ms-swift's own split"),
        ("--deepspeed zero9", "--deepspeed zero9: neither beside the file"),
        ("--per_device_train_batch_size many", "--per_device_train_batch_size 'many' is not a whole number"),
    ],
)
def test_what_is_not_modelled_is_refused_by_name(tmp_path: Path, options: str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read(tmp_path, options)
    assert message in str(raised.value)


def test_the_length_that_it_leaves_to_the_model_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--set --max_length="):
        read(tmp_path, "--deepspeed zero3", text=SFT.replace("    --max_length 4096 \\\n", ""))


def test_a_configuration_of_accelerate_shards_it(tmp_path: Path) -> None:
    """As in modelscope/ms-swift examples/train/multi-gpu/fsdp2_lora, with its adapters, batch and tuner by default."""
    fsdp = {"fsdp_version": 2, "fsdp_reshard_after_forward": True, "fsdp_activation_checkpointing": True}
    (tmp_path / "fsdp2.json").write_text(
        json.dumps({"distributed_type": "FSDP", "fsdp_config": fsdp, "mixed_precision": "bf16", "num_processes": 2})
    )
    script = SFT.replace(
        "NPROC_PER_NODE=8 \\\nswift sft", "accelerate launch --config_file fsdp2.json swift/cli/sft.py"
    )
    options = "--target_modules q_proj v_proj --gradient_checkpointing false --gradient_accumulation_steps 8"
    question = read(tmp_path, options, text=script)
    job, runtime = question.inputs.job, question.inputs.runtime
    assert (question.dialect.name, runtime.id, question.plan.zero) == ("accelerate", "accelerate", 3)
    assert (job.lora_rank, job.lora_modules, job.global_batch) == (8, ("q_proj", "v_proj"), 16)
    assert "recompute-full" in str(question.plan)
    assert question.understood.unknown == {}

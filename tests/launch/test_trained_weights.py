"""The format of weights that are all trained: what files of fine-tuning load them in, and what engines make of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_engines import FACTORY, SWIFT, TRAINER, TRL

from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.specs.runtime import read_runtime

AXOLOTL = """base_model: meta-llama/Llama-3.1-8B
sequence_len: 4096
micro_batch_size: 1
"""
TORCHRUN = "torchrun --nproc_per_node 8 sft.py --config c.yaml\n"


def read(folder: Path, text: str, **values: str) -> LaunchQuestion:
    """A script where it starts something; a YAML of TRL as torchrun starts it."""
    script = text.startswith(("torchrun", "NPROC"))
    if text.startswith(TRL):
        (folder / "c.yaml").write_text(text)
        script, text = True, TORCHRUN
    path = folder / ("a.sh" if script else "a.yaml")
    path.write_text(text)
    return question_of_file(path, Given(cluster="1x8:h200", model="llama-3.1-8b", values=values))


@pytest.mark.parametrize(
    ("text", "weight_bytes"),
    [
        (f"{AXOLOTL}bf16: true\n", 2),
        (f"{AXOLOTL}bf16: auto\n", 2),
        (AXOLOTL, 2),
        (f"{AXOLOTL}fp16: true\n", 4),
        (TRL, 4),
        (f"{TRL}dtype: bfloat16\n", 2),
        (f"{TRL}torch_dtype: auto\n", 2),
        (f"{TRL}dtype: float32\n", 4),
        (TRAINER, 4),
        (f"{TRAINER} --torch_dtype bfloat16", 2),
        (f"{TRAINER} --dtype auto", 2),
        (f"{TRAINER} --dtype float32", 4),
        (FACTORY, 4),
        (f"{FACTORY}pure_bf16: true\n", 2),
        (SWIFT, 2),
        (f"{SWIFT} --torch_dtype bfloat16", 2),
        (f"{SWIFT} --torch_dtype float32 --fp16 false --bf16 true", 4),
    ],
)
def test_replicas_train_weights_in_the_format_that_they_are_loaded_in(
    tmp_path: Path, text: str, weight_bytes: int
) -> None:
    question = read(tmp_path, text)
    storage = question.inputs.runtime.storage
    assert (question.inputs.runtime.id, question.plan.zero, question.understood.unknown) == ("pytorch-ddp", 0, {})
    assert (storage.weight_bytes, storage.moment_bytes) == (weight_bytes, weight_bytes)
    told = any(note.startswith("weights, gradients and moments are in bf16") for note in question.notes)
    assert told == (weight_bytes == 2)


def test_the_format_of_ms_swift_decides_its_mixed_precision(tmp_path: Path) -> None:
    assert read(tmp_path, f"{SWIFT} --torch_dtype float32").inputs.job.precision == "fp16"
    assert read(tmp_path, f"{SWIFT} --torch_dtype float16 --fp16 true").inputs.job.precision == "fp16"
    assert read(tmp_path, SWIFT).inputs.job.precision == "bf16"


@pytest.mark.parametrize(
    ("text", "runtime"),
    [
        (f"{AXOLOTL}bf16: true\nfsdp_version: 2\nfsdp_config: {{reshard_after_forward: true}}\n", "accelerate"),
        (f"{TRL}dtype: bfloat16\nfsdp: full_shard\n", "accelerate"),
        (f"{SWIFT} --deepspeed zero2", "deepspeed"),
    ],
)
def test_engines_that_shard_keep_fp32_weights(tmp_path: Path, text: str, runtime: str) -> None:
    question = read(tmp_path, text)
    assert question.inputs.runtime.id == runtime
    assert question.inputs.runtime.storage == read_runtime(runtime).storage
    assert not any("in bf16, as weights are loaded" in note for note in question.notes)


def test_adapters_beside_bf16_weights_are_trained_in_fp32(tmp_path: Path) -> None:
    adapted = f"{TRL}dtype: bfloat16\nuse_peft: true\nlora_r: 16\nlora_target_modules: [q_proj]\n"
    assert read(tmp_path, adapted).inputs.runtime.storage.moment_bytes == 4


@pytest.mark.parametrize(
    ("attention", "told"),
    [("", True), ("attn_implementation: sdpa\n", True), ("flash_attention: true\n", False)],
)
def test_axolotl_says_which_weights_it_keeps_in_fp32(tmp_path: Path, attention: str, told: bool) -> None:
    question = read(tmp_path, AXOLOTL + attention)
    assert any("keeps norms, embedding and head in fp32" in note for note in question.notes) == told
    sharded = read(tmp_path, f"{AXOLOTL}{attention}fsdp_version: 2\nfsdp_config: {{reshard_after_forward: true}}\n")
    assert not any("in fp32 unless" in note for note in sharded.notes)

"""Files of ms-swift: scripts and YAML of `megatron sft`, with sequences that are packed."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

SCRIPT = """NPROC_PER_NODE=8 \\
megatron sft \\
    --model Qwen/Qwen3-8B \\
    --tensor_model_parallel_size 2 \\
    --sequence_parallel true \\
    --micro_batch_size 1 \\
    --global_batch_size 64 \\
    --max_length 4096 \\
    --packing true
"""
YAML = """ENV:
  CUDA_DEVICE_MAX_CONNECTIONS: '1'
model: Qwen/Qwen3-8B
tensor_model_parallel_size: 2
sequence_parallel: true
micro_batch_size: 1
global_batch_size: 64
max_length: 4096
packing: true
recompute_granularity: none
dataset:
  - one/dataset
  - another/dataset
"""


def imported(folder: Path, name: str, text: str, cluster: str = "1x8:h100") -> LaunchQuestion:
    path = folder / name
    path.write_text(text)
    return question_of_file(path, Given(cluster=cluster))


def test_packed_sequences_are_told_and_the_script_counts_its_accelerators(tmp_path: Path) -> None:
    question = imported(tmp_path, "run.sh", SCRIPT, "h100")
    assert str(question.plan) == "tp2 sp pp1 dp4 zero1 mbs1 m16 recompute-selective"
    assert question.inputs.job.sequence_length == 4096
    assert question.understood.unpriced.keys() == {"--packing"}


@pytest.mark.parametrize("place", ["--max_length 4096", "--packing true"])
def test_sequences_are_as_long_as_they_are_packed_to(tmp_path: Path, place: str) -> None:
    """Whichever option stands first."""
    longer = SCRIPT.replace(place, f"--packing_length 8192 {place}")
    assert imported(tmp_path, "run.sh", longer).inputs.job.sequence_length == 8192


def test_yaml_holds_the_options_of_the_command(tmp_path: Path) -> None:
    question = imported(tmp_path, "sft.yaml", YAML)
    assert str(question.plan) == "tp2 sp pp1 dp4 zero1 mbs1 m16"
    assert question.understood.unpriced.keys() == {"--packing"}
    assert question.settings.environment == {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}


def test_adapters_are_read_with_the_defaults_of_ms_swift(tmp_path: Path) -> None:
    question = imported(tmp_path, "sft.yaml", YAML + "tuner_type: lora\n")
    assert (question.inputs.job.lora_rank, question.inputs.job.lora_modules) == (8, ("all-linear",))
    assert question.understood.unpriced.keys() == {"--packing", "--lora-dropout"}
    said = "tuner_type: lora\nlora_rank: 16\nlora_dropout: 0\ntarget_modules: [linear_qkv, linear_proj]\n"
    question = imported(tmp_path, "sft.yaml", YAML + said)
    assert (question.inputs.job.lora_rank, question.understood.unpriced.keys()) == (16, {"--packing"})
    assert question.inputs.job.lora_modules == ("q_proj", "k_proj", "v_proj", "o_proj")
    whole = imported(tmp_path, "sft.yaml", YAML + said.replace("tuner_type: lora\n", ""))
    assert whole.inputs.job.lora_rank == 0


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("tuner_type: lora_llm\n", "--tuner_type lora_llm: adapters are priced as"),
        ("tuner_type: lora\nmodules_to_save: [output_layer]\n", "modules that are trained whole beside adapters"),
        ("tuner_type: lora\ntarget_modules: [all-router]\n", "is not among linear_qkv, linear_proj"),
    ],
)
def test_other_adapters_are_refused(tmp_path: Path, said: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        imported(tmp_path, "sft.yaml", YAML + said)

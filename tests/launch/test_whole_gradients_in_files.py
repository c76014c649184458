"""Whole gradients: files of the Trainer and of what trains with it add them up until the last micro-batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import asked

AXOLOTL = """
base_model: meta-llama/Llama-3.1-8B
sequence_len: 2048
micro_batch_size: 1
gradient_accumulation_steps: 4
bf16: true
fsdp_version: 2
fsdp_config:
  auto_wrap_policy: TRANSFORMER_BASED_WRAP
  reshard_after_forward: true
"""
EVERY_BATCH = """
accelerator_config:
  gradient_accumulation_kwargs:
    sync_each_batch: true
"""
SHARED = 8.03e9 / 8
"""Parameters of Llama-3.1-8B on one of eight ranks."""


def gradient_bytes(folder: Path, text: str, *words: str) -> float:
    """At the peak of what a file says, on eight H100."""
    file = folder / "axolotl.yaml"
    file.write_text(text)
    answer = asked("explain", "--from", str(file), "--cluster", "1x8:h100", "--json", *words)
    assert answer.code == 0, answer.err
    return float(json.loads(answer.out)["plans"][0]["stages"][0]["memory"]["components"]["gradients"])


def test_axolotl_adds_up_whole_gradients_unless_every_batch_is_summed(tmp_path: Path) -> None:
    whole, every = (gradient_bytes(tmp_path, text) for text in (AXOLOTL, AXOLOTL + EVERY_BATCH))
    assert whole == pytest.approx(2 * 8 * SHARED, rel=0.01)
    assert every == pytest.approx(4 * SHARED, rel=0.01)


def test_the_trainer_reduces_in_2_bytes_under_fsdp_1(tmp_path: Path) -> None:
    """As accelerate's MixedPrecision has it, so that whole gradients are 2 bytes a parameter."""
    whole = gradient_bytes(tmp_path, AXOLOTL, "--runtime", "pytorch-fsdp1")
    assert whole == pytest.approx(2 * 8 * SHARED, rel=0.05)


FSDP = """
distributed_type: FSDP
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_reshard_after_forward: true
mixed_precision: bf16
num_machines: 1
num_processes: 8
"""
SCRIPT = (
    "accelerate launch --config_file fsdp.yaml train.py --model_name_or_path Qwen/Qwen3-8B --bf16 True "
    "--max_length 2048 --per_device_train_batch_size 1 --gradient_accumulation_steps 4"
)
SUMMED = ' --accelerator_config \'{"gradient_accumulation_kwargs": {"sync_each_batch": true}}\''


@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("launcher", ["accelerate launch --config_file fsdp.yaml", "torchrun --nproc_per_node 8"])
def test_scripts_with_arguments_of_the_trainer_do_too(tmp_path: Path, launcher: str, summed: bool) -> None:
    (tmp_path / "fsdp.yaml").write_text(FSDP)
    script = SCRIPT.replace("accelerate launch --config_file fsdp.yaml", launcher) + SUMMED * summed
    script += " --fsdp full_shard" * launcher.startswith("torchrun")
    (tmp_path / "run.sh").write_text(script + "\n")
    answer = asked("check", "--from", str(tmp_path / "run.sh"), "--cluster", "1x8:h100")
    assert answer.code == 0, answer.err
    assert ("accumulates_whole true" in " ".join(answer.out.split())) != summed
    assert "sync_each_batch" not in answer.out


def test_one_micro_batch_adds_up_nothing(tmp_path: Path) -> None:
    alone = AXOLOTL.replace("gradient_accumulation_steps: 4", "gradient_accumulation_steps: 1")
    assert gradient_bytes(tmp_path, alone) < 2 * SHARED * 8 / 4


def test_replicas_are_priced_as_before(tmp_path: Path) -> None:
    file = tmp_path / "axolotl.yaml"
    file.write_text(AXOLOTL.partition("fsdp_version")[0])
    answer = asked("check", "--from", str(file), "--cluster", "1x8:h200")
    assert "accumulates_whole" not in answer.out


def test_written_scripts_do_as_they_are_priced(tmp_path: Path) -> None:
    question = ("plan", "llama-3.1-8b", "1x8:h100", "--runtime", "accelerate", "--seq-len", "2048")
    question += ("--global-batch", "64", "--zero", "3", "--micro-batch", "1")
    for name, words in {"every": (), "whole": ("--with", "accumulates_whole=true")}.items():
        folder = tmp_path / name
        assert asked(*question, *words, "--launch", str(folder)).code == 0
        assert f"ACCUMULATES_WHOLE = {name == 'whole'}" in (folder / "train.py").read_text()
        again = asked("check", "--from", str(folder), "--cluster", "1x8:h100")
        assert ("accumulates_whole true" in " ".join(again.out.split())) == (name == "whole")


def test_what_every_batch_would_save_is_among_the_changes() -> None:
    words = (
        "explain",
        "llama-3.1-8b",
        "1x8:h100",
        "--runtime",
        "accelerate",
        "--seq-len",
        "2048",
        "--global-batch",
        "64",
    )
    answer = asked(*words, "--zero", "3", "--micro-batch", "1", "--with", "accumulates_whole=true", "--more")
    (line,) = (line for line in answer.out.splitlines() if line.startswith("--with accumulates_whole=false"))
    assert "-1" in line

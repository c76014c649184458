"""Rows of the vocabulary in Megatron's launch files: as many as are priced, whatever the tokenizer counts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from meshwright.answers.launch.files import launch_files
from meshwright.cost.shard import vocabulary_shard
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.layout.plan import Plan
from meshwright.specs.reading.model import read_model
from strategies import question


def script_of(name: str, model: str, tp: int) -> tuple[str, int]:
    """The start script of a plan, and the rows that are priced on a rank."""
    plan = Plan(tp=tp, dp=8 // tp, zero=1, num_microbatches=8 * tp)
    inputs = question(read_model(model), "1x8:h100", name, precision="bf16", sequence_length=1024, global_batch=64)
    return launch_files(plan, inputs, "megatron-lm" if name == "megatron-core" else name).files["train.sh"], int(
        vocabulary_shard(plan, inputs)
    )


@pytest.mark.parametrize(
    ("name", "model", "entries", "tp"),
    [
        ("megatron-deepspeed", "llama-3.1-8b", 128000, 1),  # without the 256 that were added
        ("megatron-deepspeed", "llama-3.1-8b", 128000, 2),
        ("megatron-core", "qwen2.5-7b", 151665, 2),
        ("megatron-core", "qwen3-8b", 151669, 4),
        ("megatron-core", "gpt2-xl", 50257, 1),
    ],
)
def test_a_tokenizer_of_fewer_entries_is_padded_to_the_model(name: str, model: str, entries: int, tp: int) -> None:
    script, rows = script_of(name, model, tp)
    multiple = int(re.search(r"--make-vocab-size-divisible-by (\d+)", script)[1]) * tp  # type: ignore[index]
    assert -(-entries // multiple) * multiple == rows * tp


@pytest.mark.parametrize(("multiple", "priced"), [(50304, 128), (64, 128), (1, 1), (1024, 1024)])
def test_a_file_is_priced_with_the_padding_that_it_says(multiple: int, priced: int, tmp_path: Path) -> None:
    """A multiple that makes as many rows as the runtime's own changes nothing: 50304 and 64, of 50257."""
    script, rows = script_of("megatron-core", "gpt2-xl", 1)
    path = tmp_path / "train.sh"
    path.write_text(re.sub(r"(--make-vocab-size-divisible-by) \d+", rf"\1 {multiple}", script))
    read = question_of_file(path, Given(cluster="1x8:h100"))
    assert read.inputs.runtime.storage.vocabulary_multiple == priced
    assert int(vocabulary_shard(read.plan, read.inputs)) == {128: rows, 1: 50257, 1024: 51200}[priced]

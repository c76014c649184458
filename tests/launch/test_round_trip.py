"""Export, then import: the files that launch a plan are read as that plan, with its job, model and precision."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from meshwright.answers.launch_files import WRITERS
from meshwright.errors import InvalidSpec
from meshwright.launch.export import export
from meshwright.launch.fields import differences
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.read_model import read_model
from strategies import legal_plans, question

PLANS = 10
"""Of every question; 500 of each framework were compared by hand."""
MAIN = {
    "megatron-lm": "train.sh",
    "megatron-deepspeed": "train.sh",
    "megatron-bridge": "meshwright_plan.py",
    "torchtitan": "meshwright_plan.py",
}
"""The file that holds the plan; of others the one that is called like the framework."""
SAID = {
    "deepspeed": ("job.sequence_length",),
    "accelerate": ("job.sequence_length", "job.global_batch", "plan.micro_batch"),
}
"""Fields that stand in the training script alone, and are said beside the file."""


@pytest.mark.parametrize(
    ("framework", "model", "runtime", "precision"),
    [
        ("megatron-lm", "llama-3.1-8b", "megatron-core", "bf16"),
        ("megatron-lm", "mixtral-8x7b", "megatron-core", "bf16"),
        ("megatron-lm", "deepseek-v2-lite", "megatron-core", "fp8"),
        ("megatron-deepspeed", "llama-3.1-8b", "megatron-deepspeed", "bf16"),
        ("megatron-deepspeed", "mixtral-8x7b", "megatron-deepspeed", "fp16"),
        ("megatron-bridge", "llama-3.1-8b", "megatron-bridge", "fp16"),
        ("megatron-bridge", "deepseek-v2-lite", "megatron-bridge", "fp8"),
        ("megatron-bridge", "gpt-oss-20b", "megatron-bridge", "bf16"),
        ("torchtitan", "llama-3.1-8b", "torchtitan", "bf16"),
        ("torchtitan", "qwen3-30b-a3b", "torchtitan", "bf16"),
        ("nanotron", "llama-3.1-8b", "nanotron", "bf16"),
        ("llm-foundry", "llama-2-7b", "llm-foundry", "bf16"),
        ("accelerate", "llama-3.1-8b", "accelerate", "bf16"),
        ("deepspeed", "llama-3.1-8b", "deepspeed", "bf16"),
    ],
)
def test_what_is_written_is_read_as_the_same_plan(
    framework: str, model: str, runtime: str, precision: str, tmp_path: Path
) -> None:
    inputs = question(read_model(model), "4x8:h100", runtime, global_batch=256, precision=precision)
    plans, compared = legal_plans(inputs), 0
    for row in random.Random(23).sample(range(len(plans)), len(plans)):
        plan = plans[row]
        try:
            files = WRITERS[framework](export(plan, inputs, framework), [])
        except InvalidSpec:
            continue
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        assert _differences(plan, inputs, framework, model, tmp_path) == []
        compared += 1
        if compared == PLANS:
            return
    assert compared > 5


def _differences(plan: Plan, inputs: Inputs, framework: str, model: str, folder: Path) -> list[str]:
    known = {
        "job.sequence_length": str(inputs.job.sequence_length),
        "job.global_batch": str(inputs.job.global_batch),
        "plan.micro_batch": str(plan.micro_batch),
    }
    given = Given(
        cluster="4x8:h100",
        model=None if framework in MAIN else model,
        runtime=inputs.runtime.id,
        values={name: known[name] for name in SAID.get(framework, ())},
    )
    written = MAIN.get(framework) or next(file.name for file in folder.iterdir() if file.stem == framework)
    read = question_of_file(folder / written, given)
    found = differences(plan, inputs, read.plan, read.inputs)
    return [each for each in found if framework != "deepspeed" or not each.startswith("plan.recompute")]

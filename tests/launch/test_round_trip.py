"""Export, then import: the files that launch a plan are read as that plan, with its job, model and precision."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from meshwright.answers.launch.files import launch_files
from meshwright.answers.launch.folder import write_folder
from meshwright.errors import InvalidSpec, MeshwrightError
from meshwright.launch.export import export
from meshwright.launch.fields import differences
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.launch.table import launch_table, launch_tables
from meshwright.launch.writers import files_of
from meshwright.layout.plan import Plan
from meshwright.specs import catalog
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import read_runtime
from strategies import legal_plans, question

PLANS = 10
"""Of every question."""
ROUND_TRIPS = int(os.environ.get("ROUND_TRIPS", "10"))
"""Plans of every framework, of questions at random; `make launch-files` reads 500."""
CLUSTERS = ("1x4:h100", "1x8:a100-80gb", "2x8:h100", "4x8:a100-80gb", "4x8:b200", "8x8:h100", "16x8:h100")
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
        ("torchtitan", "llama-3.1-8b", "torchtitan", "fp8-rowwise"),
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
            files = files_of(export(plan, inputs, framework), [])
        except InvalidSpec:
            continue
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        assert _differences(plan, inputs, framework, model, tmp_path) == []
        compared += 1
        if compared == PLANS:
            return
    assert compared > 5


@pytest.mark.parametrize(
    ("framework", "runtime"), [("megatron-lm", "megatron-core"), ("megatron-bridge", "megatron-bridge")]
)
@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-30b-a3b"])
def test_a_written_file_says_all_that_the_price_rests_on(
    framework: str, runtime: str, model: str, tmp_path: Path
) -> None:
    inputs = question(read_model(model), "1x8:h100", runtime, global_batch=64)
    plan = Plan(tp=2, dp=4, sp=True, zero=1, num_microbatches=16)
    for name, text in files_of(export(plan, inputs, framework), []).items():
        (tmp_path / name).write_text(text)
    notes = question_of_file(tmp_path, Given(cluster="1x8:h100", runtime=runtime)).notes
    assert not [note for note in notes if note.startswith("priced as if")]


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
    found += _told_of(read)
    return [each for each in found if framework != "deepspeed" or not each.startswith("plan.recompute")]


@pytest.mark.slow
@pytest.mark.parametrize("framework", launch_tables())
def test_plans_of_random_questions_are_read_from_their_folders(framework: str, tmp_path: Path) -> None:
    chance, seen, differ = np.random.default_rng(23), set[str](), list[str]()
    while len(seen) < ROUND_TRIPS:
        inputs = _at_random(framework, chance)
        for plan, files in _some_written(inputs, framework, chance) if inputs else ():
            name = f"{inputs} {plan}"
            if name in seen or len(seen) == ROUND_TRIPS:
                continue
            seen.add(name)
            folder = write_folder(files, tmp_path / str(len(seen)))
            different = _read_otherwise(plan, inputs, folder)
            differ += [f"{inputs.model.name} on {inputs.cluster.name}, {plan}: {different}"] * bool(different)
    assert differ == []


def _at_random(framework: str, chance: np.random.Generator) -> Inputs | None:
    """A question of a framework's runtime; None where it does not stand."""
    runtime = str(chance.choice(launch_table(framework).runtimes))
    try:
        return question(
            read_model(str(chance.choice(sorted(catalog.names("models"))))),
            str(chance.choice(CLUSTERS)),
            runtime,
            global_batch=int(chance.choice([12, 64, 96, 128, 256])),
            sequence_length=int(chance.choice([1024, 2048, 4096])),
            precision=str(chance.choice(read_runtime(runtime).plans.precisions)),
        )
    except MeshwrightError:
        return None


def _some_written(inputs: Inputs, framework: str, chance: np.random.Generator) -> Iterator[tuple[Plan, dict[str, str]]]:
    """A few legal plans of a question that the framework has settings for, with their files."""
    plans, written = legal_plans(inputs), 0
    for plan in plans.take(chance.permutation(len(plans))[: 4 * PLANS]):
        try:
            files = launch_files(plan, inputs, framework).files
        except InvalidSpec:
            continue
        yield plan, files
        written += 1
        if written == PLANS:
            return


def _read_otherwise(plan: Plan, inputs: Inputs, folder: Path) -> list[str]:
    """What differs in the plan and question that a folder is read as, and the rules that it breaks."""
    given = Given(cluster=inputs.cluster.name, model=inputs.model.name, runtime=inputs.runtime.id)
    read = question_of_file(folder, given)
    routed = {name: getattr(inputs.job, name) for name in ("expert_imbalance", "expert_spread")}
    found = differences(plan, inputs, read.plan, read.inputs.replace(job=read.inputs.job.replace(**routed)))
    return found + _told_of(read)


def _told_of(read: LaunchQuestion) -> list[str]:
    """What is told of a file besides its plan: rules that it breaks, settings that are not priced or not known."""
    return [
        *(rule.reason for rule in read.rules if not rule.kept),
        *(f"not priced: {key}" for key in read.understood.unpriced),
        *(f"unknown: {key}" for key in read.understood.unknown),
    ]

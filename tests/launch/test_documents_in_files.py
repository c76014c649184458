"""What launch files say of documents that are packed into sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.launch.files import launch_files
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.layout.plan import Plan
from meshwright.search.find import find
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import read_inputs

PLAN = Plan(dp=8, zero=3, num_microbatches=8, recompute="full")  # type: ignore[arg-type]


@pytest.mark.parametrize(("length", "told"), [(512, True), (8192, False), (None, False)])
def test_files_say_that_the_data_has_to_be_packed(length: int | None, told: bool) -> None:
    job = Job(sequence_length=8192, global_batch=64, document_length=length)
    text = launch_files(PLAN, read_inputs("llama-3.1-8b", "1x8:h100", job, "accelerate"), "accelerate").files
    page = " ".join(text["accelerate.yaml"].replace("#", "").split())
    assert ("documents of 512 tokens packed into sequences: the data has to be packed so" in page) == told


MASKED = "--dataloader-inter-document-masking"


@pytest.mark.parametrize(
    ("changes", "behaviours", "masked"),
    [
        ({"tp": 2, "sp": True, "dp": 4}, (), True),
        ({"dp": 8, "zero": 3}, (), True),
        ({"pp": 2, "dp": 4}, (), False),
        ({"cp": 2, "dp": 4}, (), False),
        ({"tp": 2, "sp": True, "dp": 4}, ("host.graphs=iteration",), False),
    ],
)
def test_megatron_masks_documents_where_it_can(
    changes: dict[str, Any], behaviours: tuple[str, ...], masked: bool
) -> None:
    """In pretrain_gpt.py middle stages have no data set, and context parallelism cuts sequences."""
    job = Job(sequence_length=8192, global_batch=64, document_length=512)
    inputs = read_inputs("llama-3.1-8b", "1x8:h100", job)
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, behaviours))
    plan = Plan(**{"zero": 1, "num_microbatches": 64 // changes["dp"], **changes})
    script = launch_files(plan, inputs, "megatron-lm").files["train.sh"]
    assert (f"    {MASKED}\n" in script) is masked
    said = " ".join(script.replace("#", "").split())
    assert (f"{MASKED} keeps attention within the documents of your data" in said) is masked
    assert ("its loader has to tell the attention kernel" in said) is not masked


def test_bridge_has_data_sets_of_its_own() -> None:
    job = Job(sequence_length=8192, global_batch=64, document_length=512)
    inputs = read_inputs("llama-3.1-8b", "1x8:h100", job, "megatron-bridge")
    files = launch_files(Plan(tp=2, sp=True, dp=4, zero=1, num_microbatches=16), inputs, "megatron-bridge").files
    assert not any("inter_document" in text or MASKED in text for text in files.values())


def test_a_script_that_masks_documents_says_what_prices_that(tmp_path: Path) -> None:
    job = Job(sequence_length=8192, global_batch=64, document_length=512)
    plan = Plan(tp=2, sp=True, dp=4, zero=1, num_microbatches=16)
    path = tmp_path / "train.sh"
    path.write_text(launch_files(plan, read_inputs("llama-3.1-8b", "1x8:h100", job), "megatron-lm").files["train.sh"])
    notes = question_of_file(path, Given(cluster="1x8:h100")).notes
    assert "attention works within the documents of a sequence: --document-length prices that" in notes


@pytest.mark.parametrize("runtime", ["accelerate", "deepspeed", "pytorch-ddp"])
@pytest.mark.parametrize(
    ("length", "behaviours", "told"), [(512, (), True), (512, ("attention_kernel=flash-2",), False), (None, (), False)]
)
def test_masks_of_documents_that_compute_every_pair_are_told(
    runtime: str, length: int | None, behaviours: tuple[str, ...], told: bool
) -> None:
    job = Job(sequence_length=8192, global_batch=64, document_length=length)
    inputs = read_inputs("llama-3.1-8b", "1x8:h100", job, runtime)
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, behaviours))
    assert any("computes every pair of the sequence" in each for each in assumptions(inputs)) == told


@pytest.mark.parametrize("runtime", ["accelerate", "deepspeed"])
def test_no_plan_splits_sequences_whose_documents_are_told_by_masks(runtime: str) -> None:
    job = Job(sequence_length=32768, global_batch=64, document_length=4096)
    answer = find(read_inputs("llama-3.1-8b", "1x8:h200", job, runtime))
    assert answer.best[0].plan.cp == 1
    assert answer.refused["context_parallel_documents"] > 0

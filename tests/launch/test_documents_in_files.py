"""What launch files say of documents that are packed into sequences."""

from __future__ import annotations

import pytest

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.launch.files import launch_files
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

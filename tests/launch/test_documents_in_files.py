"""What launch files say of documents that are packed into sequences."""

from __future__ import annotations

import pytest

from meshwright.answers.launch.files import launch_files
from meshwright.layout.plan import Plan
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import read_inputs

PLAN = Plan(dp=8, zero=3, num_microbatches=8, recompute="full")  # type: ignore[arg-type]


@pytest.mark.parametrize(("length", "told"), [(512, True), (8192, False), (None, False)])
def test_files_say_that_the_data_has_to_be_packed(length: int | None, told: bool) -> None:
    job = Job(sequence_length=8192, global_batch=64, document_length=length)
    text = launch_files(PLAN, read_inputs("llama-3.1-8b", "1x8:h100", job, "accelerate"), "accelerate").files
    page = " ".join(text["accelerate.yaml"].replace("#", "").split())
    assert ("documents of 512 tokens packed into sequences: the data has to be packed so" in page) == told

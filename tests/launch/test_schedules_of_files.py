"""Pipeline schedules as files of torchtitan name them, and what they do not go with."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.layout.legality import faults

TOML = """[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 8
global_batch_size = 64
seq_len = 8192
[parallelism]
tensor_parallel_degree = 2
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "ZBVZeroBubble"
[activation_checkpoint]
mode = "none"
"""


def imported(folder: Path, text: str = TOML) -> LaunchQuestion:
    path = folder / "train.toml"
    path.write_text(text)
    return question_of_file(path, Given(cluster="2x8:h100"))


def test_a_file_without_compilation_is_priced_without(tmp_path: Path) -> None:
    """A schedule that splits the backward pass runs beside such layers alone."""
    question = imported(tmp_path)
    assert str(question.plan).endswith("zb-v")
    assert question.inputs.runtime.kernels.cross_entropy == "eager"
    assert not faults(question.plan, question.inputs)
    compiled = imported(tmp_path, TOML + "[compile]\nenable = true\n")
    assert compiled.inputs.runtime.kernels.cross_entropy == "compiled"
    (fault,) = faults(compiled.plan, compiled.inputs)
    assert "cannot do with compiled layers" in str(fault)


def test_a_schedule_in_a_file_of_its_own_is_refused(tmp_path: Path) -> None:
    listed = TOML.replace('schedule = "ZBVZeroBubble"', 'schedule_csv = "order.csv"')
    with pytest.raises(InvalidInput, match=r"line 11: parallelism\.pipeline_parallel_schedule_csv is of pipeline sch"):
        imported(tmp_path, listed)
    assert imported(tmp_path, listed.replace("order.csv", "")).plan.pp == 4

"""What every specification shares: frozen, by name, and faults in the words of a file's author."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from typing import Any

import pytest

from meshwright.errors import InvalidInput, InvalidSpec, UnknownName
from meshwright.specs.base import Spec
from meshwright.specs.constraints import Constraints
from meshwright.specs.job import Job
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.reading.examples import LLAMA, MIXTRAL

JOB = Job(sequence_length=8192, global_batch=256)


def test_assigning_points_to_replace() -> None:
    cluster: Any = read_cluster("8x8:h100")
    with pytest.raises(InvalidInput, match=r"^Cluster is frozen: use cluster\.replace\(site_derate=2\)$"):
        cluster.site_derate = 2
    with pytest.raises(UnknownName, match="unknown field of Cluster 'site_derat'; nearest: site_derate"):
        cluster.site_derat = 2
    with pytest.raises(InvalidInput, match="Cluster is frozen: name cannot be deleted"):
        del cluster.name
    assert cluster.replace(site_derate=2).site_derate == 2


def test_copies_are_equal() -> None:
    assert copy.deepcopy(JOB) == pickle.loads(pickle.dumps(JOB)) == copy.copy(JOB) == JOB


def test_what_was_worked_out_of_a_specification_is_no_part_of_its_comparison() -> None:
    first, second = (read_cluster("8x8:h100").accelerator.kernels for _ in range(2))
    assert first.measured_collectives.keys() == second.measured_collectives.keys()
    assert first == second


@pytest.mark.parametrize(
    ("values", "fields", "told"),
    [
        ((8192, 256), {}, "Job takes names: Job(sequence_length=8192, global_batch=256)"),
        ((8192, 256, "fp16"), {}, "Job takes names: Job(sequence_length=8192, global_batch=256, precision='fp16')"),
        ((8192,), {}, "Job takes names: Job(sequence_length=8192, global_batch=…)"),
        ((8192,), {"global_batch": 4}, "Job takes names: Job(sequence_length=8192, global_batch=4)"),
    ],
)
def test_values_without_names_are_refused(values: Any, fields: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Job(*values, **fields)
    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sequence_length": "8k"}, "sequence_length: must be a whole number (given: '8k')"),
        ({"sequence_length": 1.5}, "sequence_length: must be a whole number (given: 1.5)"),
        ({"global_batch": 0}, "global_batch: must be greater than 0 (given: 0)"),
        ({"precision": "fp9"}, "precision: must be one of bf16, fp16, fp8, fp8-blockwise, fp8-delayed, "),
        ({"assumptions": 3}, "assumptions: must be a list (given: 3)"),
        ({"assumptions": [3]}, "assumptions[0]: must be text (given: 3)"),
        ({"global_bach": 8}, "global_bach: is not a field; nearest: global_batch"),
        ({"x": 8}, "x: is not a field; known: sequence_length, global_batch, precision, gradients, "),
    ],
)
def test_faults_are_told_in_plain_words(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        JOB.replace(**changes)
    assert str(refused.value.faults[0]).startswith(told)


def test_a_missing_field_is_missing() -> None:
    given: dict[str, Any] = {}
    with pytest.raises(InvalidSpec) as refused:
        Job(**given)
    assert [str(fault) for fault in refused.value.faults] == ["sequence_length: is missing", "global_batch: is missing"]


def test_an_empty_list_is_too_short() -> None:
    with pytest.raises(InvalidSpec) as refused:
        read_cluster("8x8:h100").replace(levels=())
    assert [str(fault) for fault in refused.value.faults] == ["levels: must hold one or more"]


def test_a_list_whose_only_element_is_wrong_is_not_called_empty_too() -> None:
    with pytest.raises(InvalidSpec) as refused:
        Constraints(zero="5")
    assert [fault.where for fault in refused.value.faults] == ["zero[0]"]


def test_equal_questions_have_one_hash_in_every_process() -> None:
    """The process that asks has another seed of Python's own hashes and builds its tables in another order."""
    program = (
        "from meshwright.specs.reading.examples import LLAMA, MIXTRAL\n"
        "from meshwright.specs.behaviours import with_behaviours\n"
        "changed = LLAMA.replace(runtime=with_behaviours(LLAMA.runtime, ['overlap.expert=0.7']))\n"
        "print(LLAMA.content_hash, MIXTRAL.content_hash, changed.content_hash)\n"
    )
    hashes = [
        subprocess.run(
            [sys.executable, "-c", program], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True
        ).stdout.split()
        for seed in ("1", "2")
    ]
    assert hashes[0] == hashes[1]
    assert len(set(hashes[0])) == 3
    assert hashes[0][:2] == [LLAMA.content_hash, MIXTRAL.content_hash]


def test_a_question_is_the_key_of_a_table() -> None:
    copied = pickle.loads(pickle.dumps(LLAMA))
    turned = LLAMA.cluster.accelerator.peak_flops
    same = LLAMA.cluster.accelerator.replace(peak_flops=dict(reversed(turned.items())))
    other = LLAMA.replace(job=LLAMA.job.replace(global_batch=65))
    assert {LLAMA: 1, other: 2}[copied] == 1
    assert len({LLAMA, copied, other, LLAMA.replace(cluster=LLAMA.cluster.replace(accelerator=same))}) == 2


def test_what_validates_a_part_is_built_before_what_holds_it() -> None:
    class Part(Spec):
        size: int

    class Whole(Spec):
        parts: dict[str, tuple[Part, ...]]

    assert not Part.__pydantic_complete__
    Whole.model_rebuild()
    assert Part.__pydantic_complete__
    part: Any = {"size": 1}
    assert Whole(parts={"one": (part,)}).parts["one"][0].size == 1

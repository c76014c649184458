"""What every specification shares: frozen, by name, and faults in the words of a file's author."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from meshwright.errors import InvalidInput, InvalidSpec, UnknownName
from meshwright.specs.job import Job
from meshwright.specs.read_cluster import read_cluster

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
        ({"precision": "fp9"}, "precision: must be 'bf16', 'fp16', 'fp8', 'fp8-delayed', 'fp8-rowwise', "),
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

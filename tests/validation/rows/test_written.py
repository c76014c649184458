"""Rows that are written from a plan are read as that plan again; rows may name their model and cluster alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.answers.records import json_of
from meshwright.errors import InvalidInput
from meshwright.layout.plan import Plan
from meshwright.specs.reading.model import read_model
from meshwright.validation.rows.reading import read_case
from meshwright.validation.rows.table import COLUMNS, Row
from meshwright.validation.rows.written import row_of
from strategies import legal_plans, llama_8b, question
from tables import llama, shipped

NAMED = {"id": "mine", "model": "llama-3.1-8b", "cluster": "2x8:h100", "runtime": "megatron-core", "seq_len": "8192"}


def named(**changes: str) -> Row:
    return dict.fromkeys(COLUMNS, "") | NAMED | {"tp": "2", "global_batch_size": "64"} | changes


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(shipped()))
def test_a_row_is_written_as_it_was_read(row: Row) -> None:
    try:
        case = read_case(row)
    except InvalidInput:
        return
    written = row_of(case.plan, case.inputs)
    if written["refused"]:
        return
    again = read_case(written)
    assert again.plan == case.plan
    assert json_of(again.inputs.job) == json_of(case.inputs.job)
    assert again.inputs.cluster.levels == case.inputs.cluster.levels


@pytest.mark.parametrize("routing", ["natural", "even"])
def test_how_experts_share_tokens_is_written(routing: str) -> None:
    case = read_case(named(model="qwen3-30b-a3b", global_batch_size="1024", routing=routing))
    assert case.inputs.routes_as_usual == (routing == "natural")
    assert read_case(row_of(case.plan, case.inputs)).inputs.job == case.inputs.job


def test_most_published_rows_can_be_written() -> None:
    """Frameworks that the catalogue lacks stand in others' places, which no column says."""
    cases = [read_case(row) for row in shipped()[::40] if not row["refused"] and row["dataset"] not in ("galvatron",)]
    refused = [written["refused"] for case in cases if (written := row_of(case.plan, case.inputs))["refused"]]
    assert len(refused) < len(cases) / 10, refused


def test_every_field_of_a_plan_is_written() -> None:
    inputs = question(llama_8b(), "2x8:h100", "megatron-core")
    plans = legal_plans(inputs)
    for index in range(0, len(plans), max(len(plans) // 50, 1)):
        plan = plans[index]
        written = row_of(plan, inputs)
        assert not written["refused"]
        assert read_case(written).plan == plan


def test_chunks_that_no_column_holds_are_written_as_fields_of_the_plan() -> None:
    inputs = question(llama_8b(), "2x8:h100", "megatron-core")
    plan = Plan(tp=4, sp=True, pp=4, zero=1, num_microbatches=inputs.job.global_batch, chunk_layers=(7, 9, 9, 7))
    written = row_of(plan, inputs)
    assert (written["refused"], written["plan"]) == ("", "chunk_layers=[7, 9, 9, 7]")
    assert read_case(written).plan == plan


def test_a_model_of_no_catalogue_and_no_structure_is_refused_with_its_name() -> None:
    model = llama_8b().replace(name="mine", head_bias=True)
    inputs = question(model, "2x8:h100", "megatron-core")
    assert (
        "the model mine"
        in row_of(Plan(dp=16, zero=1, num_microbatches=inputs.job.global_batch // 16), inputs)["refused"]
    )


def test_names_of_model_and_cluster_are_enough() -> None:
    case = read_case(named())
    assert case.inputs.model == read_model("llama-3.1-8b")
    assert (case.inputs.cluster.num_gpus, case.plan.dp) == (16, 8)
    assert case.timed
    assert read_case(named(cluster="dgx-h100", num_gpus="64")).inputs.cluster.num_gpus == 64
    assert read_case(named(cluster="4xdgx-h100")).inputs.cluster.num_gpus == 32
    assert read_case(named(cluster="dgx-h100", dp="16")).inputs.cluster.num_gpus == 32


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cluster": "dgx-h9"}, "nearest: dgx-"),
        ({"cluster": "/etc/cluster.toml"}, "must be of the catalogue"),
        ({"gpu": "a100"}, "2x8:h100 of h100-sxm-80gb, and gpu a100"),
        ({"gpus_per_node": "4"}, "with nodes of 8, and gpus_per_node 4"),
        ({"num_gpus": "32"}, "with 16 accelerators, and num_gpus 32"),
        ({"power_limit_w": "500"}, "leave it out"),
        ({"plan": "chunk_layers=9;10"}, "field in the column plan"),
        ({"plan": "chunk_layers=["}, "as in a plan file"),
        ({"plan": "tp=4"}, "unknown field in the column plan 'tp'"),
    ],
)
def test_names_that_contradict_the_row_are_refused(changes: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        read_case(named(**changes))


def test_a_row_without_a_cluster_reads_as_before() -> None:
    assert read_case(llama()).inputs.cluster.num_gpus == 8

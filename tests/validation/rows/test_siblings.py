"""Tables without settings take what runs of their sources have in common in the project's own table."""

from __future__ import annotations

import pytest

from meshwright.validation.rows.siblings import BY_WORDS, as_known, as_strangers
from meshwright.validation.rows.table import COLUMNS, Row, read_rows


def _row(**said: str) -> Row:
    return dict.fromkeys(COLUMNS, "") | {"id": "new", "dataset": "one-h100-hf", "runtime": "accelerate"} | said


@pytest.fixture(scope="module")
def table() -> list[Row]:
    return read_rows()


def test_a_row_of_a_known_source_takes_what_all_its_runs_have() -> None:
    (row,) = as_known([_row(software_release="transformers 5.17.0", model="a new model")])
    assert row["runtime"] == "accelerate@transformers-5.17"
    assert row["settings"] == "fp32-reduction;one-root-unit"
    release, common = row["assumed"].split("; ")
    assert release == "accelerate@transformers-5.17, by what the row says of its software"
    assert common.endswith("runs of one-h100-hf in the project's table have in common")


def test_what_the_row_says_itself_stays(table: list[Row]) -> None:
    known = next(each for each in table if each["dataset"] == "zerobubble")
    columns = ("dataset", "runtime", "model", "gpu", "precision")
    asked = dict.fromkeys(COLUMNS, "") | {key: known[key] for key in columns}
    blank, said = as_known([asked | {"id": "a"}, asked | {"id": "b", "vocab": "50000"}])
    assert blank["vocab"] == known["vocab"] != said["vocab"] == "50000"


@pytest.mark.parametrize("said", [{"dataset": "a stranger"}, {"dataset": ""}, {"runtime": "warp-drive"}])
def test_a_row_that_no_known_source_has_is_as_it_was(said: Row) -> None:
    (row,) = as_known([_row(**said)])
    assert row | {"known_by": ""} == _row(**said)
    (named,) = as_known([_row(**said | {"runtime": "torchtitan@0.2.2", "dataset": "a stranger"})])
    assert named["runtime"] == "torchtitan@0.2.2"


RECIPE = "expert-overlap;full-iteration-graph;fused-experts"
"""Of all runs with experts in MXFP8 on GB300 that a release has."""


def test_a_stranger_takes_what_all_runs_of_its_release_have_with_its_model() -> None:
    said = {
        "dataset": "a stranger",
        "runtime": "megatron-bridge@26.08",
        "precision": "mxfp8",
        "gpu": "GB300-NVL72-288GB",
    }
    model, kind = as_known([_row(model="Qwen3-30B-A3B", **said), _row(model="mine", moe_experts="64", **said)])
    assert model["settings"].startswith(RECIPE)
    assert kind["settings"].startswith(RECIPE)
    assert "such runs of megatron-bridge@26.08 in the project's table have in common" in model["assumed"]
    dense, older = as_known([_row(model="Qwen3-8B", **said), _row(model="Qwen3-30B-A3B", **said | {"gpu": "A100"})])
    assert dense["settings"] == older["settings"] == ""


def test_a_model_of_known_sizes_takes_their_structure() -> None:
    sizes = {"layers": "32", "hidden": "6144", "ffn_hidden": "24576", "heads": "48", "kv_heads": "8", "vocab": "256000"}
    known, other = as_known([_row(dataset="", model="mine", **sizes), _row(dataset="", model="mine", layers="31")])
    assert (known["architecture"], other["architecture"]) == ("nemotron-4", "")


def test_a_table_that_names_settings_is_as_it_was(table: list[Row]) -> None:
    assert as_known(table) == table


def test_a_run_is_no_sibling_of_itself(table: list[Row]) -> None:
    alone = next(each for each in table if each["dataset"] == "titan-user")
    blank = alone | {"settings": "", "with": ""}
    assert as_known([blank]) == [blank | {"known_by": BY_WORDS}]


@pytest.mark.parametrize(
    ("source", "limit"),
    [
        ("MooreThreads/SimuMax docs/b200/another.json @4dcaae513b", "772.0"),
        ("https://github.com/moorethreads/SimuMax/pull/7", "772.0"),
        ("https://github.com/moorethreads/another", ""),
        ("huggingface.co/MooreThreads/SimuMax", ""),
        ("a page of MooreThreads on SimuMax", ""),
        ("", ""),
    ],
)
def test_a_row_of_a_known_repository_takes_what_its_runs_have_whatever_the_source_is_called(
    source: str, limit: str
) -> None:
    said = {"dataset": "the rest", "runtime": "megatron-core", "gpu": "B200-SXM-180GB", "model": "a new one"}
    (row,) = as_known([_row(source=source, **said)])
    assert row["power_limit_w"] == limit
    assert ("runs of simumax-part in the project's table" in row["assumed"]) is bool(limit)
    assert (row["known_by"] == BY_WORDS) is not bool(limit)


def test_settings_of_another_recipe_are_not_taken(table: list[Row]) -> None:
    known = next(each for each in table if "fused-experts" in each["settings"] and each["dataset"] == "bridge")
    columns = ("runtime", "model", "gpu", "moe_experts")
    asked = _row(dataset="bridge", recompute="none", **{name: known[name] for name in columns})
    same, other = as_known([asked | {"precision": "mxfp8"}, asked | {"precision": "bf16"}])
    assert "fused-experts" in same["settings"].split(";")
    assert "fused-experts" not in other["settings"].split(";")


def test_a_stranger_knows_no_other_run_of_its_source(table: list[Row]) -> None:
    known = next(each for each in table if each["dataset"] == "simumax-part")
    (row,) = as_strangers([known])
    assert (row["power_limit_w"], row["known_by"]) == ("", BY_WORDS)
    assert row["dataset"] == known["dataset"]

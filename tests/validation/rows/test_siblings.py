"""Tables without settings take what runs of their sources have in common in the project's own table."""

from __future__ import annotations

import pytest

from meshwright.validation.rows.siblings import as_known
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
    assert as_known([_row(**said)]) == [_row(**said)]


def test_a_table_that_names_settings_is_as_it_was(table: list[Row]) -> None:
    assert as_known(table) == table


def test_a_run_is_no_sibling_of_itself(table: list[Row]) -> None:
    alone = next(each for each in table if each["dataset"] == "titan-user")
    blank = alone | {"settings": "", "with": ""}
    assert as_known([blank]) == [blank]

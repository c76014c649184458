"""Rows of Megatron whose start scripts leave behaviours to the framework's defaults."""

from __future__ import annotations

from meshwright.validation.rows.reading import read_case
from meshwright.validation.rows.table import Row
from tables import shipped


def _rows(dataset: str) -> list[Row]:
    return [row for row in shipped() if row["dataset"] == dataset]


def test_gradients_overlap_in_rows_of_xtuner_that_say_so_alone() -> None:
    overlapping = {row["id"] for row in _rows("xtuner") if read_case(row).inputs.runtime.overlap.data_parallel}
    assert overlapping == {row["id"] for row in _rows("xtuner") if "; zero " in row["notes"]}

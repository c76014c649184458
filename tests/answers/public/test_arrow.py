"""Answers as Arrow data: what a data frame reads by the PyCapsule protocol is the rows."""

from __future__ import annotations

import pytest

import meshwright

pytestmark = pytest.mark.clients("pyarrow")


def asked() -> meshwright.PlanAnswer:
    return meshwright.plan("llama-3.1-8b", "1x8:h100", meshwright.Job(sequence_length=8192, global_batch=64))


def test_a_table_of_arrow_has_the_rows() -> None:
    import pyarrow

    answer = asked()
    table = pyarrow.table(answer)
    assert table.to_pylist() == answer.rows()
    assert table.schema.field("step_time_s").type == pyarrow.float64()
    assert table.schema.field("tp").type == pyarrow.int64()


@pytest.mark.clients("pyarrow", "polars")
def test_polars_takes_an_answer_by_arrow_and_by_its_rows() -> None:
    import polars

    answer = asked()
    assert polars.DataFrame(answer).to_dicts() == answer.rows()
    assert polars.DataFrame(answer.rows()).equals(polars.DataFrame(answer))


@pytest.mark.clients("pyarrow", "pandas")
def test_pandas_takes_an_answer_by_arrow_and_by_its_rows() -> None:
    import pandas

    answer = asked()
    frame = pandas.DataFrame.from_arrow(answer)
    assert frame["plan"].tolist() == [row["plan"] for row in answer.rows()]
    pandas.testing.assert_frame_equal(pandas.DataFrame(answer.rows()), frame, check_dtype=False)


@pytest.mark.clients("pyarrow", "narwhals", "polars")
def test_narwhals_takes_an_answer() -> None:
    import narwhals

    answer = asked()
    frame = narwhals.from_arrow(answer, backend="polars")
    assert frame["step_time_s"].to_list() == [row["step_time_s"] for row in answer.rows()]

from __future__ import annotations

import pytest

import meshwright
from meshwright.validation.rows.table import Row, read_rows
from meshwright.validation.score import validate

pytestmark = pytest.mark.slow
SOURCES = ("mlm-h100", "nemo2407")
SLOWER = 1.4


def slower(row: Row) -> Row:
    """A run that took longer, by its step time alone."""
    if not row["step_time_s"]:
        return row
    return row | {
        "step_time_s": str(SLOWER * float(row["step_time_s"])),
        "tokens_per_s_per_gpu": "",
        "tflops_per_gpu": "",
    }


def test_a_source_is_predicted_from_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two sources on slow sites each tells of the other; the constants of the package tell of neither."""
    rows = [slower(row) for row in read_rows() if row["dataset"] in SOURCES]
    monkeypatch.setattr(validate, "read_rows", lambda *_: rows)
    as_fitted, left_out = (meshwright.validate(left_out=without) for without in (False, True))
    before, after = as_fitted.score.step_time, left_out.score.step_time
    assert before
    assert after
    assert before.mape > 0.2
    assert after.mape < 0.1
    assert repr(left_out).startswith("<ValidateAnswer: 36 of 36 rows predicted")
    assert [row["id"] for row in left_out.rows()] == [row["id"] for row in as_fitted.rows()]
    assert left_out.to_dict()["rows"] == 36

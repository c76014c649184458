"""Memory of Galvatron's profiles, whose tensor ranks divide the vocabulary or gather it whole."""

from __future__ import annotations

import pytest

from meshwright.validation.outcomes import outcomes_of
from meshwright.validation.rows.configurations import configurations
from meshwright.validation.rows.table import read_rows


def test_profiles_of_one_stage_are_met_to_a_mebibyte() -> None:
    """One and two layers over tp 2, 4 and 8, with and without `vtp` in their keys."""
    rows = [row for row in read_rows() if row["dataset"] == "galvatron" and row["tp"] != "1" and row["pp"] == "1"]
    priced = [each for each in outcomes_of(configurations(rows)) if each.memory]
    assert len(priced) == 12
    assert {"whole-vocabulary" in row["settings"] for row in rows} == {True, False}
    for each in priced:
        assert each.memory
        assert each.memory.predicted == pytest.approx(each.memory.measured, abs=1.5 / 1024)


def test_profiles_of_last_stages_are_met_to_four_mebibytes() -> None:
    """Two and four stages of one layer each, over tp 1, 2 and 4."""
    rows = [row for row in read_rows() if row["dataset"] == "galvatron" and row["memory_rank"] == "7"]
    priced = [each for each in outcomes_of(configurations(rows)) if each.memory]
    assert len(priced) == 8
    for each in priced:
        assert each.memory
        assert each.memory.predicted == pytest.approx(each.memory.measured, abs=4 / 1024)

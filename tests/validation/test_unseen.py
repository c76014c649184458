"""Runs that nothing is fitted to stay apart from those of the project's table."""

from __future__ import annotations

from pathlib import Path

from meshwright.validation.rows.siblings import as_known
from meshwright.validation.rows.table import read_rows

UNSEEN = Path(__file__).parents[2] / "benchmarks" / "unseen_runs.csv"


def test_no_unseen_run_is_in_the_table_of_the_project() -> None:
    unseen, published = read_rows(UNSEEN), read_rows()
    assert len(unseen) > 150
    assert not {row["id"] for row in unseen} & {row["id"] for row in published}
    assert not {row["dataset"] for row in unseen} & {row["dataset"] for row in published}


def test_no_unseen_run_is_one_of_the_project_told_elsewhere() -> None:
    """Step times of four digits or more that agree to the last one, of as many accelerators, sequences and layers."""
    same = ("gpu", "num_gpus", "layers", "hidden", "seq_len", "global_batch_size", "precision", "step_time_s")
    unseen, published = (
        {tuple(row[name] for name in same): row["id"] for row in rows if len(row["step_time_s"].strip("0.")) > 3}
        for rows in (read_rows(UNSEEN), read_rows())
    )
    assert {unseen[key]: published[key] for key in unseen.keys() & published.keys()} == {}


def test_unseen_runs_name_no_settings_and_are_given_those_of_their_release() -> None:
    unseen = read_rows(UNSEEN)
    assert not any(row["settings"] or row["with"] for row in unseen)
    assert any(row["settings"] for row in as_known(unseen))

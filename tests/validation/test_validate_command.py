"""The command `validate`: any table is scored, and what it cannot read or write is refused before any work."""

from __future__ import annotations

import csv
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

import pytest

from commands import asked, refused
from meshwright.validation import outcomes
from tables import llama, shipped, written


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A table with a run, the same run without an accelerator, and one that is not represented."""
    rows = [llama(), llama(id="mine-2", gpu=""), llama(id="mine-3", gpu="warp-9")]
    return written(tmp_path / "mine.csv", rows)


def test_a_table_of_ones_own_is_scored(mine: Path) -> None:
    answer = asked("validate", "--runs", str(mine))
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("2 of 3 rows are represented (66.7%)")
    assert "mine-3: unknown accelerator 'warp-9'" in " ".join(answer.out.split())
    assert max(map(len, answer.out.splitlines())) <= 80


def test_a_row_in_which_nothing_is_measured_is_no_run_that_fitted(tmp_path: Path) -> None:
    nothing = {"step_time_s": "0", "memory_gib": "", "memory_kind": ""}
    rows = [llama(id="mine-1", **nothing), llama(id="mine-2", **nothing, fits="no")]
    answer = asked("validate", "--runs", str(written(tmp_path / "mine.csv", rows)))
    told = " ".join(answer.out.split())
    assert "mine-1: nothing is measured; fill in step_time_s" in told
    assert "Of 1 run that ran out of memory, 1 is predicted to be safe" in told
    assert "of 0 that fitted" in told


def test_what_one_row_does_not_measure_has_no_table(tmp_path: Path) -> None:
    """And the spread of one source is not known."""
    timed = asked("validate", "--runs", str(written(tmp_path / "timed.csv", [llama(memory_gib="", memory_kind="")])))
    lines = [*map(str.split, timed.out.splitlines())]
    assert timed.out.startswith("1 of 1 row is represented")
    assert "No memory is scored." in timed.out
    assert not any(line[:2] == ["memory", "n"] for line in lines)
    assert "No run ran out of memory; of 1 that fitted" in " ".join(timed.out.split())
    (inside,) = [line for line in lines if line[:2] == ["dense,", "Megatron"]]
    assert inside[-2] == "-"
    full = asked("validate", "--runs", str(written(tmp_path / "full.csv", [llama(step_time_s="")])))
    assert "No step time is scored." in full.out
    assert "step time  n" not in full.out


def test_the_score_is_valid_json(mine: Path) -> None:
    document = asked("validate", "--runs", str(mine), "--json").document
    assert (document["rows"], document["represented"], len(document["skipped"])) == (3, 2, 1)
    assert (document["step_time"]["n"], document["memory"]["n"]) == (1, 2)
    assert set(document["by"]["accelerator"]) == {"h100", "not named"}


def test_rows_and_a_picture_are_written(mine: Path, tmp_path: Path) -> None:
    table, plot = tmp_path / "out.csv", tmp_path / "out.svg"
    assert asked("validate", "--runs", str(mine), "--rows", str(table), "--plot", str(plot)).code == 0
    lines = list(csv.DictReader(table.read_text("utf-8").splitlines()))
    assert [line["id"] for line in lines] == ["mine-1", "mine-2", "mine-3"]
    assert ElementTree.fromstring(plot.read_text("utf-8")).tag.endswith("svg")


def test_a_condition_leaves_rows_out(mine: Path) -> None:
    assert asked("validate", "--runs", str(mine), "--where", "gpu == 'h100'", "--json").document["rows"] == 1


def test_published_runs_are_scored_without_a_file() -> None:
    condition = "dataset == 'sc21-t1' and num_gpus <= 128"
    document = asked("validate", "--where", condition, "--json").document
    asked_for = [row for row in shipped() if row["dataset"] == "sc21-t1" and int(row["num_gpus"]) <= 128]
    assert document["rows"] == document["represented"] == len(asked_for) > 0


@pytest.mark.parametrize("as_json", [[], ["--json"]])
@pytest.mark.parametrize("where", ["dataset == 'nobody'", "num_gpus > 1e9"])
def test_no_rows_at_all_are_scored_as_none(tmp_path: Path, where: str, as_json: list[str]) -> None:
    table, plot = tmp_path / "out.csv", tmp_path / "out.svg"
    answer = asked("validate", "--where", where, "--rows", str(table), "--plot", str(plot), *as_json)
    assert (answer.code, answer.err) == (0, "")
    assert table.read_text("utf-8").startswith("id,rows,dataset,")
    assert "nothing measured" in plot.read_text("utf-8")


def test_a_header_alone_is_refused(tmp_path: Path) -> None:
    error = refused(asked("validate", "--runs", str(written(tmp_path / "empty.csv", []))))
    assert "empty.csv' has a header alone; give it one row for each run" in error


@pytest.mark.parametrize("content", [None, "folder", b"\xff\xfe\x00", b"a,b\n1,2\n", b""])
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: bytes | str | None) -> None:
    path = tmp_path / "runs.csv"
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    told = refused(asked("validate", "--runs", str(path)))
    assert "runs.csv" in told


@pytest.mark.parametrize("option", ["--rows", "--plot"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_priced(tmp_path: Path, option: str) -> None:
    with mock.patch.object(outcomes, "outcomes_of", side_effect=AssertionError("priced")):
        told = refused(asked("validate", option, str(tmp_path / "missing" / "out")))
    assert f"{option} " in told
    assert "does not exist" in told


@pytest.mark.parametrize(("one", "other"), [("--rows", "--plot"), ("--runs", "--rows"), ("--runs", "--plot")])
def test_one_file_is_not_written_over_another(mine: Path, one: str, other: str) -> None:
    before = mine.read_text("utf-8")
    told = refused(asked("validate", one, str(mine), other, str(mine.parent / "." / mine.name)))
    assert f"{one} and {other} are both" in told
    assert mine.read_text("utf-8") == before


@pytest.mark.parametrize("condition", ["", "tp +", "num_gpu > 8", "__import__('os').system('true')", "model < 5"])
def test_what_is_no_condition_is_refused(condition: str) -> None:
    assert "for example: dataset == 'llmfoundry'" in refused(asked("validate", "--where", condition))

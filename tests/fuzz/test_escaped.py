"""Names that command a terminal, a browser, a spreadsheet or a reader of Markdown are text in every answer."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from fuzz_files import CONFIG, seeds
from fuzz_judge import CONTROLS

from commands import asked
from meshwright.text_files import csv_text
from meshwright.validation.rows.table import read_rows

NAME = '[bold]<script>alert(1)</script>&"**x**`|[a](javascript:b)\x1b[2J\u202e\x9b31m\x07\r\x00'
FEW = ("--cluster", "1x1:h100", "--seq-len", "2048", "--global-batch", "2")


@pytest.fixture
def named(tmp_path: Path) -> str:
    """A model file whose name is hostile."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG), "utf-8")
    native = (seeds()["native.toml"]).decode().replace('"own"', json.dumps(NAME))
    (tmp_path / "m.toml").write_text(native, "utf-8")
    return str(tmp_path / "m.toml")


def test_a_page_a_memo_and_its_pictures_hold_names_as_text(named: str, tmp_path: Path) -> None:
    outs = [tmp_path / "m.html", tmp_path / "m.md"]
    answer = asked("memo", "--model", named, *FEW, *(word for out in outs for word in ("--out", str(out))))
    assert answer.code == 0, answer.err
    page, memo = (out.read_text("utf-8") for out in outs)
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
    memo = re.sub(r"(?<!\\)`[^`\n]*`", "", memo)  # code is text
    assert not re.search(r"(?<!\\)<script", memo)
    assert not re.search(r"(?<!\\)\[a\]\(javascript", memo)
    assert not CONTROLS.search(page + memo)
    pictures = [*tmp_path.glob("*.svg")]
    assert pictures
    for picture in pictures:
        ET.fromstring(picture.read_text("utf-8"))


@pytest.mark.parametrize("command", [("model",), ("plan", *FEW), ("plan", *FEW, "--json"), ("memo", *FEW)])
def test_screens_show_markup_as_it_stands(named: str, command: tuple[str, ...]) -> None:
    name, *options = command
    answer = asked(name, *([named] if name == "model" else ["--model", named]), *options)
    assert answer.code == 0, answer.err
    assert not CONTROLS.search(answer.out + answer.err)
    assert "bold" in answer.out


def test_where_files_were_written_is_shown_escaped(tmp_path: Path) -> None:
    question = "--model", "llama-3.2-1b", *FEW, "--out", str(tmp_path / "a\u202eb\u200d")
    answer = asked("launch", *question)
    assert answer.code in (0, None), answer.err
    assert "a\\u202eb\\u200d" in answer.out
    assert not CONTROLS.search(answer.out + answer.err)


FIELDS = ("=1+1", "+A1", "-A1", "@SUM(A1)", "-0.5", "+1e-3", "-", "=", "a=b", "'x", "\t=1")


def test_no_field_of_a_table_is_a_formula() -> None:
    rows = [*csv.reader(io.StringIO(csv_text(["a"], [{"a": field} for field in FIELDS])))][1:]
    shown = [row[0] for row in rows]
    assert shown == ["'=1+1", "'+A1", "'-A1", "'@SUM(A1)", "-0.5", "+1e-3", "-", "=", "a=b", "'x", "'\t=1"]


def test_a_field_is_read_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(csv_text(["model", "step_time_s"], [{"model": "=1+1", "step_time_s": "5.1"}]), "utf-8")
    assert [(row["model"], row["step_time_s"]) for row in read_rows(path)] == [("=1+1", "5.1")]


def test_rows_that_a_command_writes_hold_no_formula(tmp_path: Path) -> None:
    header, first, *_ = seeds()["runs.csv"].decode().split("\n")
    (tmp_path / "in.csv").write_text(f"id,{header}\n=cmd(),{first}\n", "utf-8")
    answer = asked("validate", "--runs", str(tmp_path / "in.csv"), "--rows", str(tmp_path / "out.csv"))
    assert answer.code in (0, None), answer.err
    assert "\n'=cmd()," in (tmp_path / "out.csv").read_text("utf-8")

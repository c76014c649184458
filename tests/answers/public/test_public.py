"""Answers of Python: the JSON of the command, a page for notebooks, rows for data frames."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import meshwright
from commands import LLAMA, asked
from meshwright.answers.document.blocks import Document, Heading, Paragraph, Table
from meshwright.answers.document.html import fragment
from meshwright.errors import InvalidInput
from meshwright.reprs import WIDTH

ASKED = ("llama-3.1-8b", "1x8:h100", meshwright.Job(sequence_length=8192, global_batch=64))
LAYOUT = meshwright.Plan(tp=8, sp=True, num_microbatches=64)
ILLEGAL = meshwright.Plan(tp=3, num_microbatches=64)
NOTEBOOK = 60_000
"""Characters of what a notebook shows of an answer, at most."""
VOID = {"br"}


@pytest.fixture(scope="module")
def answers() -> dict[str, meshwright.Answer]:
    return {
        "plan": meshwright.plan(*ASKED),
        "explain": meshwright.explain(*ASKED, LAYOUT),
        "check": meshwright.check(*ASKED, LAYOUT),
        "limits": meshwright.limits(*ASKED),
    }


COMMANDS = {"plan": (), "explain": ("--tp", "8", "--zero", "0"), "check": ("--tp", "8", "--zero", "0"), "limits": ()}


class Elements(HTMLParser):
    """The names of the elements of a page, which closes all that it opens."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.ids: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", COMMANDS)
def test_the_dictionary_is_what_the_command_prints(name: str, answers: dict[str, meshwright.Answer]) -> None:
    printed = asked(name, *LLAMA, *COMMANDS[name], "--json").document
    assert json.loads(json.dumps(answers[name].to_dict())) == printed


@pytest.mark.parametrize("name", COMMANDS)
def test_a_notebook_shows_one_element_that_needs_nothing_else(name: str, answers: dict[str, meshwright.Answer]) -> None:
    shown = answers[name]._repr_html_()
    elements = Elements(shown)
    assert shown.startswith('<div class="meshwright">')
    assert "table" in elements.names
    assert not elements.names & {"html", "body", "script", "link", "iframe", "img"}
    assert not elements.ids
    assert not re.search(r"url\(|(?:src|href)=", shown)
    assert len(shown) < NOTEBOOK
    rules = re.search(r"<style>(.*?)</style>", shown, re.DOTALL)
    assert rules
    assert all(line.startswith(".meshwright") for line in rules[1].strip().splitlines())


@pytest.mark.parametrize("name", ["plan", "explain"])
def test_pictures_of_memory_and_time_are_in_it(name: str, answers: dict[str, meshwright.Answer]) -> None:
    assert answers[name]._repr_html_().count("<svg") == 2


def test_what_a_notebook_shows_is_escaped() -> None:
    hostile = "<script>alert(1)</script>&"
    shown = fragment(Document(hostile, "", (Heading(hostile, 2), Paragraph(hostile), Table((hostile,), ((hostile,),)))))
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;alert(1)&lt;/script&gt;&amp;") == 5


@pytest.mark.parametrize("name", COMMANDS)
def test_rows_are_flat_and_have_the_same_columns(name: str, answers: dict[str, meshwright.Answer]) -> None:
    rows = answers[name].rows()
    assert rows
    assert len({tuple(row) for row in rows}) == 1
    assert all(isinstance(cell, str | int | float | None) for row in rows for cell in row.values())
    assert json.loads(json.dumps(rows)) == rows


def test_rows_of_plans_are_the_ranking() -> None:
    answer = meshwright.plan(*ASKED, top=2)
    rows = answer.rows()
    assert [row["plan"] for row in rows] == [str(each.plan) for each in (*answer.best, *answer.other_splits)]
    assert [row["rank"] for row in rows] == [*range(1, len(rows) + 1)]
    assert rows[0]["step_time_s"] == answer.best[0].step_time_s


def test_rows_of_an_explanation_are_its_stages() -> None:
    plan = meshwright.Plan(tp=2, sp=True, pp=2, dp=2, zero=1, num_microbatches=32)
    explained = meshwright.explain(*ASKED, plan)
    assert [row["stage"] for row in explained.rows()] == [0, 1]
    assert max(row["device_bytes"] for row in explained.rows()) == explained.estimate.memory.device


@pytest.mark.parametrize("name", COMMANDS)
def test_answers_are_short_in_a_session(name: str, answers: dict[str, meshwright.Answer]) -> None:
    shown = repr(answers[name])
    assert len(shown.splitlines()) <= 14
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert shown.startswith(f"<{name.title()}Answer ")
    assert str(answers[name]) == shown


def test_an_illegal_plan_is_checked_and_not_explained() -> None:
    checked = meshwright.check(*ASKED, ILLEGAL)
    assert not checked.legal
    assert "rules of megatron-core broken" in " ".join(repr(checked).split())
    assert {row["kept"] for row in checked.rows()} == {True, False}
    with pytest.raises(meshwright.IllegalPlan, match="tp 2 or 4"):
        meshwright.explain(*ASKED, ILLEGAL)


def test_without_pyarrow_rows_are_named(answers: dict[str, meshwright.Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInput, match=r"rows\(\)"):
        answers["plan"].__arrow_c_stream__()


@pytest.fixture(scope="module")
def sets() -> dict[str, meshwright.Answer]:
    """Answers that set things side by side, and the memo."""
    plans = {"tp": LAYOUT, "fsdp": meshwright.Plan(dp=8, zero=3, num_microbatches=8)}
    model, cluster, job = ASKED
    return {
        "clusters": meshwright.compare(model, ["1x8:h100", "1x8:a100-80gb"], job),
        "plans": meshwright.compare(model, cluster, job, plans=plans),
        "memo": meshwright.memo(*ASKED),
        "validate": meshwright.validate(where="dataset == 'llmfoundry'"),
    }


BY_HAND = {
    "clusters": ["compare", *LLAMA, "--cluster", "1x8:a100-80gb"],
    "plans": ["compare", *LLAMA, "--plan", "tp:tp=8,zero=0", "--plan", "fsdp:zero=3"],
    "memo": ["memo", *LLAMA],
    "validate": ["validate", "--where", "dataset == 'llmfoundry'"],
}


@pytest.mark.parametrize("name", BY_HAND)
def test_the_other_answers_are_what_the_commands_print(name: str, sets: dict[str, meshwright.Answer]) -> None:
    answer, shown = sets[name], repr(sets[name])
    assert json.loads(json.dumps(answer.to_dict())) == asked(*BY_HAND[name], "--json").document
    assert len(shown.splitlines()) <= 6
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert not Elements(answer._repr_html_()).ids
    rows = answer.rows()
    assert len({tuple(row) for row in rows}) == 1
    assert json.loads(json.dumps(rows)) == rows


def test_a_memo_is_written_as_the_command_writes_it(sets: dict[str, meshwright.Answer], tmp_path: Path) -> None:
    memo = sets["memo"]
    assert isinstance(memo, meshwright.MemoAnswer)
    memo.write(tmp_path / "a.html")
    asked("memo", *LLAMA, "--out", str(tmp_path / "b.html"))
    assert (tmp_path / "a.html").read_text() == (tmp_path / "b.html").read_text()


def test_a_memo_of_what_does_not_fit_is_an_answer() -> None:
    memo = meshwright.memo("llama-3.1-70b", "1x8:h100", ASKED[2])
    assert not memo.fits
    assert memo.rows() == []
    assert "does not fit" in repr(memo)


@pytest.mark.parametrize(
    ("cluster", "more", "why"),
    [
        (["1x8:h100"], {}, "two clusters or more"),
        (["1x8:h100", "1x8:h100"], {}, "different names"),
        (["1x8:h100", "2x8:h100"], {"deadline_days": 3}, "add tokens"),
        (["1x8:h100", "2x8:h100"], {"plans": [LAYOUT, ILLEGAL]}, "one cluster"),
        ("1x8:h100", {"plans": [LAYOUT]}, "two or more"),
        ("1x8:h100", {"plans": [LAYOUT, LAYOUT], "prices": {"h100": 2.0}}, "prices beside plans: only a comparison of"),
        ("1x8:h100", {"plans": [LAYOUT, LAYOUT], "one_plan": True}, "one_plan beside plans"),
    ],
)
def test_what_cannot_be_compared_is_refused(cluster: Any, more: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        meshwright.compare("llama-3.1-8b", cluster, ASKED[2], **more)


def test_a_plan_of_an_answer_is_launched(tmp_path: Path) -> None:
    answer = meshwright.plan(*ASKED, top=2)
    written = answer.launch(tmp_path / "run", rank=2)
    assert written
    assert all(path.is_file() and path.parent.name == "run" for path in written)
    assert str(answer.best[1].plan) in written[0].read_text()
    with pytest.raises(InvalidInput, match="use 1 to"):
        answer.launch(tmp_path / "other", rank=99)


def test_plans_priced_at_once_cost_what_each_does_alone() -> None:
    plans = [each.plan for each in meshwright.plan(*ASKED, top=4).best]
    together = meshwright.estimate(*ASKED, plans)
    assert [each.plan for each in together] == plans
    for one in together:
        alone = meshwright.estimate(*ASKED, one.plan)
        assert one.step_time_s == pytest.approx(alone.step_time_s, rel=1e-12)
        assert one.memory.device == pytest.approx(alone.memory.device, rel=1e-12)
    assert meshwright.estimate(*ASKED, []) == ()
    with pytest.raises(meshwright.IllegalPlan, match="tp 2 or 4"):
        meshwright.estimate(*ASKED, [*plans, ILLEGAL])

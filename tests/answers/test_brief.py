"""A brief answer: one screen of 40 lines, with what a reader needs to act."""

from __future__ import annotations

import re

import pytest

from commands import asked

QUESTIONS = (
    ("plan", "llama-3.1-8b", "1x8:h100"),
    ("plan", "llama-3.1-70b", "8x8:h100", "--global-batch", "256"),
    ("plan", "mixtral-8x7b", "8x8:h100", "--seq-len", "4096"),
    ("explain", "llama-3.1-8b", "1x8:h100", "--tp", "8"),
    ("explain", "llama-3.1-70b", "8x8:h100", "--tp", "8", "--pp", "2", "--vpp", "5"),
)


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_an_answer_is_one_screen(question: tuple[str, ...]) -> None:
    lines = asked(*question).out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80


def test_the_brief_answer_says_what_the_whole_one_does_in_short() -> None:
    brief, whole = (asked(*QUESTIONS[0], *more).out for more in ((), ("--more",)))
    best = re.search(r"Best plan: (.*)", whole)
    assert best
    assert best[0] in brief
    assert "--more prints" in brief
    assert "= allocated" in whole
    assert "= allocated" not in brief


def test_shares_add_up() -> None:
    text = " ".join(asked(*QUESTIONS[0]).out.split())
    for part in ("Memory of stage", "Time of a step"):
        shares = re.search(rf"{part}[^:]*: ([^.]*?)(?= Time of| In its name)", text)
        assert shares
        assert sum(map(int, re.findall(r"(\d+)%", shares[1]))) == pytest.approx(100, abs=3)


def test_as_many_plans_as_asked_are_shown() -> None:
    rows = [line for line in asked(*QUESTIONS[0], "--top", "5").out.splitlines() if re.match(r"\d  tp", line)]
    assert len(rows) == 5

"""Questions that fall into many: the answer of several processes is that of one, and they stop like one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from commands import asked
from meshwright.answers.progress import progress
from meshwright.errors import INTERRUPTED

JOB = ("--seq-len", "4096", "--global-batch", "8")
ON_4 = ("llama-3.1-8b", "1x4:h100", *JOB)
QUESTIONS = {
    "runtimes": ("plan", *ON_4, "--tp", "4", "--runtime", "all"),
    "limits": ("limits", *ON_4, "--tp", "2"),
    "clusters": ("compare", "llama-3.1-8b", "1x4:h100", "1x4:h200", *JOB, "--tokens", "1T", "--deadline-days", "900"),
    "runs": ("validate", "--where", "dataset == 'one-h100-titan'"),
}
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", QUESTIONS)
def test_two_processes_answer_as_one_does(name: str) -> None:
    one, two = (asked(*QUESTIONS[name], "--workers", workers) for workers in "12")
    assert (one.code, _timeless(one.out)) == (two.code, _timeless(two.out))


def _timeless(text: str) -> str:
    """Without the time that it took."""
    return re.sub(r"took [\d.]+ m?s", "", " ".join(text.split()))


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_bar_advances_to_the_end(name: str, workers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []

    @contextmanager
    def bar(_what: str, patience_s: float) -> Iterator[Any]:
        assert patience_s <= 1
        yield lambda done, total: told.append((done, total)), print, print

    monkeypatch.setattr(progress, "_bar", bar)
    assert asked(*QUESTIONS[name], "--workers", workers).code == 0
    assert told[-1][0] == told[-1][1] > 0


@pytest.mark.parametrize("name", ["runtimes", "limits"])
def test_a_limit_of_time_reaches_the_workers(name: str) -> None:
    answer = asked(*QUESTIONS[name], "--workers", "2", "--time-limit", "1ms", "--json")
    assert answer.code == INTERRUPTED
    assert "not complete" in answer.message


def test_workers_are_refused_where_nothing_is_shared_out() -> None:
    answer = asked("plan", *ON_4, "--workers", "2")
    assert answer.code == 2
    assert "--workers is for --runtime all" in answer.message

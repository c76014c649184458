"""Questions that fall into many: the answer of several processes is that of one, and they stop like one."""

from __future__ import annotations

import re

import pytest

from commands import asked
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


@pytest.mark.parametrize("name", ["runtimes", "limits"])
def test_a_limit_of_time_reaches_the_workers(name: str) -> None:
    answer = asked(*QUESTIONS[name], "--workers", "2", "--time-limit", "1ms", "--json")
    assert answer.code == INTERRUPTED
    assert "not complete" in answer.message


def test_workers_are_refused_where_nothing_is_shared_out() -> None:
    answer = asked("plan", *ON_4, "--workers", "2")
    assert answer.code == 2
    assert "--workers shares out the searches of --runtime all" in answer.message

"""Runtimes side by side: each answers as it would alone, the fastest first."""

from __future__ import annotations

from unittest import mock

import pytest

from commands import asked, question
from meshwright.specs import catalog

pytestmark = pytest.mark.slow


def test_every_runtime_answers_as_it_would_alone() -> None:
    document = asked("plan", *question(runtime="all"), "--json").document
    assert set(document["runtimes"]) == set(catalog.names("runtimes"))
    for runtime, answer in document["runtimes"].items():
        alone = asked("plan", *question(runtime=runtime), "--json")
        if "refused" in answer:
            assert alone.code in (2, 3)
        else:
            assert [plan["plan"] for plan in answer["plans"]] == [plan["plan"] for plan in alone.document["plans"]]


def test_the_fastest_runtime_stands_first_and_all_are_told() -> None:
    text = asked("plan", *question(runtime="all")).out
    document = asked("plan", *question(runtime="all"), "--json").document["runtimes"]
    times = [answer["plans"][0]["step_time_s"] for answer in document.values() if "plans" in answer]
    assert times == sorted(times)
    assert all(runtime in text for runtime in document)


def test_nothing_fits_for_any_runtime() -> None:
    with mock.patch("meshwright.search.remedies.NODE_FACTORS", (16,)):
        answer = asked("plan", *question(runtime="all", model="llama-3.1-405b"))
    assert answer.code == 3
    assert "megatron-core" in answer.message
    assert "torchtitan" in answer.message


def test_a_question_that_every_runtime_refuses_is_a_wrong_one() -> None:
    answer = asked("plan", *question(runtime="all", cluster="59x1:h100"))
    assert answer.code == 2
    assert "global_batch" in answer.message

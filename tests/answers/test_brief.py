"""A brief answer: one screen of 40 lines, with what a reader needs to act."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from unittest import mock

import pytest

from commands import asked
from meshwright.answers.explain.brief import explain_briefs
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.search.many_searches.remedies import remedies
from meshwright.specs.reading.model import read_model
from strategies import question

QUESTIONS = (
    ("plan", "llama-3.1-8b", "1x8:h100"),
    ("plan", "llama-3.1-70b", "8x8:h100", "--global-batch", "256"),
    ("plan", "mixtral-8x7b", "8x8:h100", "--seq-len", "4096"),
    ("explain", "llama-3.1-8b", "1x8:h100", "--tp", "8"),
    ("explain", "llama-3.1-70b", "8x8:h100", "--tp", "8", "--pp", "2", "--vpp", "5"),
)


MANY_LIMITS = (
    *("--tp", "2", "--cp", "1", "--pp", "1,8", "--dp", "4,8,32", "--zero", "1,2,3", "--micro-batch", "1,2"),
    *("--recompute", "none,full", "--price", "h100=2.9", "--tokens", "1T"),
)
LONG = (
    ("plan", "deepseek-v3", "32x8:h100"),
    ("plan", "llama-3.1-70b", "8x8:h100", "--pareto"),
    ("plan", "llama-3.1-70b", "8x8:h100", *MANY_LIMITS),
    ("plan", "gpt-oss-120b", "4x8:h100", "--precision", "fp8"),
    ("plan", "llama-3.1-8b", "1x8:h100", "--runtime", "all"),
    ("plan", "gpt2-xl", "1x4:a100-40gb", "--precision", "fp16"),
    ("explain", "deepseek-v3", "32x8:h100", "--ep", "16", "--pp", "16"),
    ("explain", "mixtral-8x7b", "2x8:a100-80gb", "--tp", "2", "--pp", "2", "--precision", "fp16"),
    ("explain", "llama-3.1-70b", "2x8:h100"),
    ("explain", "llama-3.1-405b", "16x8:h100", "--tp", "8", "--pp", "4", "--precision", "fp8"),
)
"""Experts, plans that do not fit, constraints, fronts: what takes most lines."""


@cache
def said(*question: str) -> str:
    """What is printed."""
    return asked(*question).out


@pytest.mark.parametrize(
    "question", [*QUESTIONS, *(pytest.param(each, marks=pytest.mark.slow) for each in LONG)], ids=" ".join
)
def test_an_answer_is_one_screen(question: tuple[str, ...]) -> None:
    assert_one_screen(said(*question))


def test_so_is_that_of_a_changed_plan_file(tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    saved.write_text(asked("plan", "llama-3.1-70b", "8x8:h100", "--json").out)
    answer = asked("explain", str(saved), "--tp", "8", "--precision", "fp8")
    assert "Against the saved plan" in answer.out
    assert_one_screen(answer.out)


def test_what_would_be_safe_is_searched_once_whatever_the_length() -> None:
    with mock.patch("meshwright.answers.unfit.rescue.remedies", side_effect=remedies) as searched:
        text = asked("explain", "llama-3.1-8b", "1x1:h100", "--global-batch", "16").out
    assert "No plan for this question is safe" in text
    assert searched.call_count == 1


def assert_one_screen(text: str) -> None:
    lines = text.splitlines()
    assert 10 < len(lines) <= 40
    assert max(map(len, lines)) <= 80


EXPERTS = (
    ("plan", "qwen3-30b-a3b", "4x8:h100", "--seq-len", "4096", "--global-batch", "512"),
    ("plan", "qwen3-235b-a22b", "32x8:h100", "--seq-len", "4096", "--global-batch", "2048"),
    ("plan", "deepseek-v3", "128x8:h100", "--seq-len", "4096", "--global-batch", "8192"),
)


@pytest.mark.parametrize(
    "question", [EXPERTS[0], *(pytest.param(each, marks=pytest.mark.slow) for each in EXPERTS[1:])], ids=" ".join
)
def test_with_experts_there_is_room_for_two_other_plans(question: tuple[str, ...]) -> None:
    text = said(*question)
    assert_one_screen(text)
    assert [line[0] for line in text.splitlines() if re.match(r"\d  tp", line)][-2:] == ["2", "3"]


def test_an_option_is_told_once() -> None:
    """That of the best plan with all switches is not worth trying alone."""
    assert said(*EXPERTS[0]).count("--with dispatcher=fused") == 1


@pytest.mark.slow
def test_what_matters_most_stays() -> None:
    """Of plans and changes some are left out, of the plan, its verdict and its time nothing."""
    unfit, varied = (said(*question) for question in (LONG[8], LONG[0]))
    for part in (
        "out-of-memory: stage 0 needs",
        "If it did fit: ",
        "8 in 10 runs like this",
        "What would be:",
        "--more",
    ):
        assert part in unfit
    for part in ("Best plan: ", "safe: ", "The busiest rank gets", "8 in 10 runs like this", "Memory of", "Step time,"):
        assert part in varied


def test_the_brief_answer_says_what_the_whole_one_does_in_short() -> None:
    brief, whole = (said(*QUESTIONS[0], *more) for more in ((), ("--more",)))
    best = re.search(r"Best plan: (.*)", whole)
    assert best
    assert best[0] in brief
    assert "--more prints" in brief
    assert "= allocated" in whole
    assert "= allocated" not in brief


@pytest.mark.parametrize(("cluster", "told"), [("2x8:h100", True), ("8x8:h100", False)])
def test_the_shortest_answer_says_where_the_memory_of_a_plan_goes_that_is_not_safe(cluster: str, told: bool) -> None:
    inputs = question(read_model("llama-3.1-70b"), cluster, global_batch=256)
    plan = Plan(
        tp=8, sp=True, pp=2, dp=inputs.cluster.num_gpus // 16, zero=1, num_microbatches=4096 // inputs.cluster.num_gpus
    )
    *_, shortest = explain_briefs(estimate_each([plan], inputs)[0], inputs)
    text = "\n".join(line for block in shortest for line in getattr(block, "lines", ()))
    assert ("Memory of stage" in text) is told
    assert "Step time," not in text


def test_shares_add_up() -> None:
    text = " ".join(said(*QUESTIONS[0]).split())
    for part in ("Memory of stage", "Step time,"):
        shares = re.search(rf"{part}[^:]*: ([^.]*?)(?= Step time,| Plan names:| meshwright legend)", text)
        assert shares
        assert sum(map(int, re.findall(r"(\d+)%", shares[1]))) == pytest.approx(100, abs=3)


@pytest.mark.parametrize(("recompute", "told"), [("full", True), ("none", False)])
def test_shares_of_the_step_say_that_they_count_what_is_computed_again(recompute: str, told: bool) -> None:
    text = said("explain", "llama-3.1-8b", "1x8:h100", "--tp", "2", "--recompute", recompute)
    assert (", recomputation included: " in re.sub(r"\s+", " ", text)) is told


def test_counts_of_plans_are_written_alike() -> None:
    counts = [line for line in said(*QUESTIONS[1], "--more").splitlines() if re.match("Not priced:|Refused, by", line)]
    assert len(counts) == 2
    assert re.search(r"\d,\d{3}", " ".join(counts))
    assert not re.search(r"\d{4}", " ".join(counts))


def test_as_many_plans_as_asked_are_shown() -> None:
    rows = [line for line in asked(*QUESTIONS[0], "--top", "5").out.splitlines() if re.match(r"\d  tp", line)]
    assert len(rows) == 5

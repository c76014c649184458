"""Unproven: every command says of a plan which kind of it no published run has."""

from __future__ import annotations

import pytest

from commands import asked

SMALL = "llama-3.1-8b", "2x8:h100", "--global-batch", "128"
ZERO_2 = "Untested: no published run has ZeRO 2 in megatron."
ANSWERS = (
    (("plan", *SMALL, "--zero", "2"), ZERO_2),
    (("plan", *SMALL), "untested: no published run has a plan of this kind"),
    (("explain", *SMALL, "--zero", "2"), ZERO_2),
    (("limits", *SMALL, "--zero", "2"), ZERO_2),
    (("compare", *SMALL, "--plan", "A:zero=2", "--plan", "B:zero=3"), ZERO_2),
    (("compare", "llama-3.1-8b", "--cluster", "2x8:h100", "--cluster", "2x8:h200", *SMALL[2:], "--zero", "2"), ZERO_2),
    (("memo", *SMALL, "--zero", "2"), ZERO_2.removeprefix("Untested: ").capitalize()),
)


@pytest.mark.parametrize(("question", "said"), ANSWERS, ids=lambda each: " ".join(each) if type(each) is tuple else "")
def test_a_plan_of_a_kind_that_no_run_has_is_marked(question: tuple[str, ...], said: str) -> None:
    assert said.lower() in " ".join(asked(*question).out.split()).lower()


def test_a_limit_that_only_an_unproven_plan_reaches_says_so() -> None:
    """405B, whose fewest nodes need tensor parallelism over two of them."""
    text = " ".join(asked("limits", "llama-3.1-405b", "12x8:h100", "--global-batch", "64", "--tp", "16").out.split())
    assert "Fewest nodes: 14 nodes" in text
    assert "The plan as asked is at risk; every other fits safely." in text
    assert "no published run has tensor parallelism across scale-up domains in megatron" in text

"""Plans that drop tokens are told apart from those that compute all of them: in tables, comparisons and the memo."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.answers.compare.dropped import drops_tokens, mark_of, mark_words, recommended_words, side_words
from meshwright.answers.compare.named import named_plans
from meshwright.answers.compare.plans import compare_plans
from meshwright.answers.compare.plans_table import plans_document, plans_screen
from meshwright.answers.compare.runtimes import runtimes_document, runtimes_screen
from meshwright.answers.document.blocks import Callout, Table
from meshwright.answers.memo.memo import memo
from meshwright.answers.memo.sections.decision import decision
from meshwright.search.find import find
from meshwright.specs.inputs import Inputs
from strategies import llama_8b, mixture, question

CAPACITY = "an expert takes at most 1 x its equal share of tokens, and the rest skip it"


def _asked(runtime: str, **job: Any) -> Inputs:
    return question(mixture(), "2x8:h100", runtime, **{"global_batch": 64, "expert_imbalance": None, **job})


@pytest.mark.parametrize(
    ("inputs", "drops"),
    [
        (_asked("internevo"), True),
        (_asked("deepspeed"), False),
        (_asked("megatron-core"), False),
        (_asked("megatron-core", expert_capacity=1.0), True),
        (_asked("internevo", expert_imbalance=1.0), False),
        (question(llama_8b(), "2x8:h100", "internevo", global_batch=64), False),
    ],
)
def test_tokens_are_dropped_where_experts_have_a_capacity(inputs: Inputs, drops: bool) -> None:
    assert drops_tokens(inputs) == drops
    assert mark_of(inputs) == (" *" if drops else "")
    assert bool(mark_words([inputs])) == bool(recommended_words(inputs)) == drops


def test_words_say_what_becomes_of_tokens_and_who_wanted_that() -> None:
    by_default, wished = _asked("internevo"), _asked("megatron-core", expert_capacity=1.25)
    assert recommended_words(by_default) == f"It drops tokens, as internevo does by default: {CAPACITY}."
    assert recommended_words(wished).startswith("It drops tokens, as you asked: an expert takes at most 1.25 x its")
    assert mark_words([by_default, _asked("torchtitan")]) == (
        f"* drops tokens: {CAPACITY}; the other plans compute every token."
    )


def test_sides_are_named_only_where_they_differ() -> None:
    dropping, whole = _asked("internevo"), _asked("megatron-core")
    assert side_words({"A": dropping, "B": dropping}) == side_words({"A": whole, "B": whole}) == ""
    words = side_words({"A": whole, "B": dropping, "C": whole})
    assert (
        words == f"B drops tokens, and A and C compute all of them: {CAPACITY}, so the steps do not do the same work."
    )


def test_rows_of_runtimes_are_marked_and_the_mark_is_told() -> None:
    answers = {name: find(_asked(name), top=1) for name in ("internevo", "megatron-core")}
    table = next(each for each in runtimes_screen(answers, None) if isinstance(each, Table))
    assert [row[0] for row in table.rows] == ["internevo *", "megatron-core"]
    assert table.note.startswith("* drops tokens: ")
    assert runtimes_document(answers, None)["drops_tokens"] == ["internevo"]
    without = next(each for each in runtimes_screen({"a": answers["megatron-core"]}, None) if isinstance(each, Table))
    assert "*" not in without.note


def test_compared_plans_say_which_drop_tokens() -> None:
    inputs = _asked("megatron-core")
    comparison = compare_plans(named_plans(["ep=8,zero=1", "ep=8,zero=1,runtime=internevo"], inputs), inputs)
    assert comparison.sentences[-1].startswith("B drops tokens, and A computes all of them: ")
    assert [plan["drops_tokens"] for plan in plans_document(comparison)["plans"]] == [False, True]
    speed = next(each for each in plans_screen(comparison) if isinstance(each, Table))
    assert ("drops tokens", "no", "yes", "") in speed.rows
    alike = compare_plans(named_plans(["ep=8,zero=1", "ep=4,zero=1"], inputs), inputs)
    assert not any("drop" in sentence for sentence in alike.sentences)
    speed = next(each for each in plans_screen(alike) if isinstance(each, Table))
    assert "drops tokens" not in [row[0] for row in speed.rows]


@pytest.mark.parametrize(("runtime", "told"), [("internevo", True), ("megatron-core", False)])
def test_the_first_page_of_the_memo_says_that_the_plan_drops_tokens(runtime: str, told: bool) -> None:
    recommended = memo(find(_asked(runtime)), 8)
    first = next(each for each in decision(recommended) if isinstance(each, Callout))
    assert first.text.endswith(f"as internevo does by default: {CAPACITY}.") == told
    assert ("drops tokens" in first.text) == told

"""Printed names: a plan is named to `compare` as answers call it."""

from __future__ import annotations

import pytest

from commands import asked, refused
from meshwright import Plan
from meshwright.answers.compare.named import plan_of_fields
from strategies import questions, some_legal_plans

ASKED = ("compare", "llama-3.1-8b", "1x8:h100", "--global-batch", "64")


@pytest.mark.parametrize("name", questions())
def test_a_printed_plan_is_read_as_it_was(name: str) -> None:
    inputs = questions()[name]
    for plan in some_legal_plans(name, 100):
        assert str(plan_of_fields(str(plan), str(plan), inputs)[0]) == str(plan)


@pytest.mark.parametrize(
    "changes",
    [
        {"chunk_layers": (4, 5, 5, 4), "schedule": "interleaved"},
        {"first_stage_layers": 3, "last_stage_layers": 5, "recompute": "full", "recompute_layers": 2},
        {"schedule": "zb-v", "sp": False, "dp_replicate": 2, "microbatch_group": 6},
        {"cp": 2, "context_exchange": "all_gather", "etp": 2, "ep": 4, "head_as_layer": True},
    ],
)
def test_every_word_of_a_name_is_a_field(changes: dict[str, object]) -> None:
    usual = {"tp": 2, "sp": True, "pp": 2, "vpp": 2, "dp": 4, "zero": 1, "num_microbatches": 8}
    plan = Plan(**{**usual, "schedule": "interleaved", **changes})
    assert plan_of_fields(str(plan), "", questions()["llama on h100"])[0] == plan


def test_plans_are_compared_by_their_printed_names() -> None:
    names = "tp2 sp pp1 dp4 zero1 mbs1 m16", "tp4 pp1 dp2 zero1 mbs1 m32 recompute-full"
    answer = asked(*ASKED, "--plan", names[0], "--plan", f"mine:{names[1]}", "--json")
    assert [each["plan"]["sp"] for each in answer.document["plans"]] == [True, False]
    assert "mine" in str(answer.document)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("tp2 xx4", "'xx4' is not part of any plan's name"),
        ("tp2 tp4", "names tp twice"),
        ("tp2 pp2 chunks(4**2)", "is no list of layers; it is written as chunks(5*2,4)"),
        ("tp2 pp2 chunks(1*9999)", "is no list of layers"),
        ("tp0 pp2", "whole number of 1 or more"),
        ("tp2 recompute-selective(mpl)", "unknown recompute module 'mpl'"),
    ],
)
def test_what_is_no_name_is_refused(name: str, told: str) -> None:
    assert told in refused(asked(*ASKED, "--plan", "tp=2", "--plan", name))

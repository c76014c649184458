"""The legend: every word that a plan's name can have is in it."""

from __future__ import annotations

import pytest

from commands import asked, refused
from meshwright.answers.plans.legend import MEANINGS, legend, legend_line
from meshwright.errors import InvalidInput
from meshwright.layout.plan import Plan
from meshwright.schedules.records import SCHEDULE_NAMES
from strategies import questions, some_legal_plans


@pytest.mark.parametrize("name", questions())
def test_every_name_is_read_whole(name: str) -> None:
    for plan in some_legal_plans(name, 200):
        assert " ".join(word for word, _ in legend(str(plan))) == str(plan)
        assert legend_line(str(plan)).startswith("Plan names: tp = tensor parallel")


@pytest.mark.parametrize("schedule", SCHEDULE_NAMES)
def test_every_schedule_is_in_it(schedule: int) -> None:
    plan = Plan(pp=2, vpp=2, schedule=schedule)
    assert " ".join(word for word, _ in legend(str(plan))) == str(plan)


def test_the_command_prints_a_row_for_each_word() -> None:
    answer = asked("legend", "tp4 sp cp2 all-gather pp4 vpp5 chunks(4*17,5*2,2) dp2 zero1 mbs1 m128")
    assert len(answer.out.splitlines()) >= 11
    assert "chunks of a stage: virtual stages" in answer.out
    broken = " ".join(asked("legend", "tp8 sp recompute-selective(layernorm, moe_act,\n mlp)").out.split())
    for meaning in ("over tp as well", "recompute-selective(layernorm,", "some modules are computed again"):
        assert meaning in broken
    assert asked("legend", "tp8", "pp2", "--json").document == {"tp8": "tensor parallel", "pp2": "pipeline stages"}


def test_each_recomputation_says_in_short_what_is_computed_again() -> None:
    assert "recompute-full = whole layers are computed again" in legend_line("tp8 recompute-full")
    assert "recompute-selective = some modules are computed again" in legend_line("tp8 recompute-selective")


@pytest.mark.parametrize("name", ["tp8 xx2", "zero7", "tp8sp", "8x8"])
def test_a_word_that_no_name_has_is_named(name: str) -> None:
    with pytest.raises(InvalidInput, match="is not part of any plan's name; names look like tp4 sp"):
        legend(name)
    assert "is not part of any plan's name" in refused(asked("legend", name))


def test_every_meaning_is_short_enough_for_a_row() -> None:
    assert max(map(len, MEANINGS.values())) <= 90


def test_a_name_without_a_word_is_refused() -> None:
    assert "the name of a plan is empty; write one" in refused(asked("legend", ""))

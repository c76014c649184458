"""The table of a sweep: what days and cost of its plans are, and what a blank among them means."""

from __future__ import annotations

from typing import Any

from meshwright.answers.document.blocks import Table
from meshwright.answers.sweep.columns import COLUMNS
from meshwright.answers.sweep.table import SPAN, UNPRICED, summary

PLAN = {
    "model": "llama-3.1-8b",
    "status": "planned",
    "plan": "tp1 pp1 dp8 zero3 mbs1 m8",
    "step_time_s": 10.0,
    "step_time_p10_s": 9.0,
    "step_time_p90_s": 12.0,
    "mfu": 0.4,
    "device_bytes": 1 << 36,
    "verdict": "safe",
    "limiting": "bubble",
    "limiting_s": 1.0,
    "days": 100.0,
    "cost": 5000.0,
}
NOTHING = {"model": "llama-3.1-8b", "status": "nothing fits", "reason": "too large"}


def table_of(*rows: dict[str, Any]) -> Table:
    known = dict.fromkeys(COLUMNS)
    (first, *_) = summary([known | row | {"cluster": f"{place}x8:h100"} for place, row in enumerate(rows, 1)], 24)
    assert isinstance(first, Table)
    return first


def test_days_have_the_range_of_the_step_time() -> None:
    table = table_of(PLAN, NOTHING)
    assert table.columns[-3:] == ("days", SPAN, "cost")
    assert [row[-3:] for row in table.rows] == [("100.0", "90-120", "5,000"), ("-", "-", "-")]
    assert UNPRICED not in table.note


def test_days_of_a_short_training_have_a_fraction() -> None:
    assert table_of(PLAN | {"days": 10.0}, NOTHING).rows[0][-2] == "9.0-12.0"


def test_a_plan_whose_accelerator_has_no_price_says_so() -> None:
    table = table_of(PLAN, PLAN | {"cost": None})
    assert table.rows[1][-1] == "-"
    assert UNPRICED in table.note


def test_a_sweep_without_tokens_has_neither_days_nor_cost() -> None:
    table = table_of(PLAN | {"days": None, "cost": None})
    assert table.columns[-1] == "verdict"

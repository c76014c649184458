"""Plans: a plan and a row of plans say the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meshwright.layout.plan import Plan
from meshwright.layout.plans import COLUMNS, Plans, of_chunks, regrouped
from strategies import any_plans

SOME = st.lists(any_plans(), min_size=1, max_size=8)


@given(SOME)
def test_rows_of_a_table_are_the_plans_it_was_made_of(rows: list[Plan]) -> None:
    plans = Plans.of(rows)
    assert [plans[index] for index in range(len(plans))] == rows
    assert all(len(getattr(plans, name)) == len(rows) for name in COLUMNS)


@given(SOME, st.integers(1, 5))
def test_chunks_joined_are_the_table(rows: list[Plan], size: int) -> None:
    plans = Plans.of(rows)
    pieces = list(plans.chunks(size))
    assert max(map(len, pieces)) <= size
    joined = Plans.join(pieces)
    assert [joined[index] for index in range(len(joined))] == rows


@given(st.lists(SOME, max_size=5), st.integers(1, 7))
def test_regrouped_tables_hold_the_same_rows_in_order_and_all_but_the_last_are_full(
    tables: list[list[Plan]], size: int
) -> None:
    pieces = list(regrouped(map(Plans.of, tables), size))
    assert [piece[index] for piece in pieces for index in range(len(piece))] == [row for rows in tables for row in rows]
    assert all(len(piece) == size for piece in pieces[:-1])
    assert all(0 < len(piece) <= size for piece in pieces[-1:])


@given(any_plans())
def test_a_plan_survives_its_own_dictionary(plan: Plan) -> None:
    again = Plan.from_dict(plan.to_dict())
    assert again == plan
    assert again.to_dict() == plan.to_dict()


@given(any_plans())
def test_the_ranks_of_a_plan_are_the_product_of_its_degrees(plan: Plan) -> None:
    assert plan.num_gpus == plan.tp * plan.cp * plan.pp * plan.dp


def test_columns_that_are_not_given_stand_at_the_plans_defaults() -> None:
    plans = Plans.filled({"tp": np.array([2, 4])})
    assert [plans[0], plans[1]] == [Plan(tp=2), Plan(tp=4)]


def test_a_plan_reads_as_people_write_it() -> None:
    plan = Plan(tp=8, sp=True, pp=2, vpp=4, dp=4, zero=1, num_microbatches=64, schedule=1)
    assert str(plan) == "tp8 sp pp2 vpp4 dp4 zero1 mbs1 m64"


def test_named_chunks_keep_their_layers_when_tables_are_joined_and_cut() -> None:
    rows = [Plan(pp=2, chunk_layers=sizes) for sizes in ((), (3, 5), (4, 4), (3, 5))]
    plans = Plans.join([Plans.of(rows[2:]), Plans.of(rows[:2]).take(np.array([1, 0]))])
    assert [plans[row].chunk_layers for row in range(4)] == [(4, 4), (3, 5), (3, 5), ()]
    assert of_chunks(plans, sum).tolist() == [8, 8, 8, 0]
    assert of_chunks(plans, len).tolist() == [of_chunks(plans[row], len) for row in range(4)]

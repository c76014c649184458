"""The list of records: codes, names and what is derived from them."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from meshwright.answers.plan_file import json_schema
from meshwright.errors import InvalidSpec
from meshwright.schedules.peak import in_flight
from meshwright.schedules.pipeline import PassTimes, PipelineShape, PipelineTimes
from meshwright.schedules.records import SCHEDULE_NAMES, Schedule, by_code, splits_backward, v_shaped
from meshwright.specs.runtime import read_runtime
from orders import every_schedule, shape_of


def test_codes_count_up_from_zero_and_stay() -> None:
    """They stand in tables that others may have stored."""
    assert [int(each) for each in Schedule] == list(range(len(Schedule)))
    assert list(SCHEDULE_NAMES.values())[:11] == [
        "1f1b", "interleaved", "gpipe", "interleaved-zb", "zb-1p", "zb-2p", "zb-v", "v-half", "v-min", "dualpipe",
        "dualpipe-v",
    ]  # fmt: skip
    assert len(set(SCHEDULE_NAMES.values())) == len(Schedule)


@every_schedule
def test_a_schedule_travels_between_processes(schedule: Schedule) -> None:
    assert pickle.loads(pickle.dumps(schedule)) is schedule
    assert copy.deepcopy(schedule) is schedule
    assert Schedule(int(schedule)) is schedule


def test_facts_of_many_schedules_are_those_of_each() -> None:
    codes = np.array([*Schedule])
    assert splits_backward(codes).tolist() == [each.record.splits_backward for each in Schedule]
    assert v_shaped(codes).tolist() == [each.record.placement == "v-shaped" for each in Schedule]
    assert by_code(lambda record: record.exchanges)[codes].tolist() == [each.record.exchanges for each in Schedule]


@every_schedule
def test_a_schedule_splits_the_backward_pass_where_its_order_does(schedule: Schedule) -> None:
    kinds = {action.kind for actions in schedule.record.actions(shape_of(schedule, 4, 8)) for action in actions}
    assert schedule.record.splits_backward == ("weight_gradient" in kinds)


def test_the_plan_file_knows_every_name() -> None:
    assert json_schema()["$defs"]["schedule"]["enum"] == list(SCHEDULE_NAMES.values())


def test_a_runtime_with_an_unknown_schedule_is_refused_with_those_that_exist() -> None:
    plans = read_runtime("megatron-core").plans
    with pytest.raises(InvalidSpec, match=f"schedules.*must be one of {', '.join(SCHEDULE_NAMES.values())}.*pipedream"):
        plans.replace(schedules=("1f1b", "pipedream"))


DOMINATED = [each for each in Schedule if each.record.dominated_by]


@pytest.mark.parametrize("schedule", DOMINATED)
def test_a_dominated_schedule_takes_as_long_as_the_other_and_keeps_more(schedule: Schedule) -> None:
    (other,) = (each for each in Schedule if each.record.name == schedule.record.dominated_by)
    passes = PassTimes(1.0, 1.2, 0.9)
    times = PipelineTimes(passes, PassTimes(*(4.2 * each for each in passes)), 4, 1, 16, 1.0, False)
    assert schedule.record.bubble_time(times) == other.record.bubble_time(times)
    shape = PipelineShape(stages=4, micro_batches=16)
    assert (in_flight(schedule, np.arange(4), shape) > in_flight(other, np.arange(4), shape)).all()

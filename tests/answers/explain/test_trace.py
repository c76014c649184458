"""The trace: every action once, no two on one row at the same time, and as long as the pipeline of the price."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from meshwright.answers import files
from meshwright.answers.explain import trace
from meshwright.answers.explain.trace import COMMUNICATION, PIPELINE, STEP, slices, trace_events, write_trace
from meshwright.answers.files import writable
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput
from meshwright.layout.microbatches import pipeline_shape
from meshwright.layout.named import plan_of
from meshwright.layout.plan import Plan
from meshwright.schedules.records import Schedule
from meshwright.specs.inputs import Inputs
from orders import CHUNKS
from strategies import dense_model, llama_8b, llama_70b, mixture, question

LLAMA = question(llama_70b(), "4x8:h100", global_batch=64, sequence_length=8192)
EVEN = question(dense_model(layers=16, vocab_size=128), "1x8:h100", global_batch=32)
"""Ends so small that all stages are as long."""
ASKED: dict[str, tuple[Inputs, dict[str, Any]]] = {
    "1f1b": (LLAMA, {"tp": 8, "pp": 4}),
    "interleaved": (LLAMA, {"tp": 8, "pp": 4, "vpp": 5}),
    "one stage": (question(llama_8b(), "1x8:h100", global_batch=64), {"tp": 8}),
    "experts": (question(mixture(), "2x8:h100", global_batch=64), {"tp": 2, "pp": 2, "ep": 4}),
    "even 1f1b": (EVEN, {"tp": 2, "pp": 4}),
    "even interleaved": (EVEN, {"tp": 2, "pp": 4, "vpp": 2}),
}


def priced(name: str) -> tuple[Estimate, Inputs]:
    inputs, degrees = ASKED[name]
    return estimate_each([plan_of(inputs, **degrees)], inputs)[0], inputs


@pytest.mark.parametrize("name", ASKED)
def test_every_action_is_there_once(name: str) -> None:
    estimate, inputs = priced(name)
    plan = estimate.plan
    acted = [each for each in slices(estimate, inputs) if each.category in ("forward", "backward")]
    assert len(acted) == 2 * plan.pp * plan.vpp * plan.num_microbatches
    assert len({(each.row, each.category, *each.about.values()) for each in acted}) == len(acted)
    assert {each.row for each in acted} == set(range(plan.pp))
    ordered = plan.schedule.record.actions(pipeline_shape(plan))
    assert len(acted) == sum(map(len, ordered))


@pytest.mark.parametrize("name", ASKED)
def test_nothing_overlaps_on_a_row(name: str) -> None:
    rows = defaultdict(list)
    for each in slices(*priced(name)):
        assert each.end > each.start
        rows[each.process, each.row].append((each.start, each.end))
    for spans in rows.values():
        spans.sort()
        assert all(after[0] >= before[1] for before, after in pairwise(spans))


@pytest.mark.parametrize("name", ASKED)
def test_actions_and_bubbles_fill_every_row_of_the_pipeline_to_its_end(name: str) -> None:
    rows = defaultdict(int)
    drawn = [each for each in slices(*priced(name)) if each.process == PIPELINE]
    for each in drawn:
        rows[each.row] += each.end - each.start
    end = max(each.end for each in drawn)
    assert set(rows.values()) == {end}


@pytest.mark.parametrize("name", ASKED)
def test_the_pipeline_ends_where_the_priced_one_does(name: str) -> None:
    """Of equal stages exactly; the closed form is at most 8 % long with unequal ends, and with chunks of which each has
    its own time at most 0.3 % short.
    """
    estimate, inputs = priced(name)
    drawn = list(slices(estimate, inputs))
    played = max(each.end for each in drawn if each.process == PIPELINE)
    step = [each for each in drawn if each.process == STEP]
    exact, late = name == "even 1f1b" or estimate.plan.pp == 1, 3e-3 if estimate.plan.vpp > 1 else 1e-9
    assert played / step[0].end == pytest.approx(1, rel=2e-3) if exact else 0.92 <= played / step[0].end <= 1 + late
    assert step[-1].end == pytest.approx(estimate.step_time_s * 1e9, abs=len(step))
    time = estimate.time
    once = time.exposed_pp_s + time.exposed_dp_s + time.optimizer_s + inputs.runtime.host.host_s_per_step
    assert step[0].end == pytest.approx((estimate.step_time_s - once) * 1e9, abs=1)


@pytest.mark.parametrize("name", ASKED)
def test_exposed_communication_lies_within_an_action_and_adds_up_to_the_price(name: str) -> None:
    estimate, inputs = priced(name)
    drawn = list(slices(estimate, inputs))
    acted = {(each.row, each.end) for each in drawn if each.category in ("forward", "backward")}
    exposed = [each for each in drawn if each.process == COMMUNICATION and each.row == estimate.slowest_stage]
    assert {(each.row, each.end) for each in exposed if each.name == "tensor parallel"} <= acted or inputs.model.is_moe
    seconds = sum(each.end - each.start for each in exposed) / 1e9
    priced_s = estimate.time.exposed_tp_s + estimate.time.exposed_cp_s + estimate.time.exposed_ep_s
    assert seconds == pytest.approx(priced_s, rel=1e-4, abs=1e-6)


def test_the_file_is_a_chrome_trace(tmp_path: Path) -> None:
    estimate, inputs = priced("interleaved")
    path = writable(tmp_path / "step.json", "--trace")
    write_trace(path, estimate, inputs)
    written = json.loads(path.read_text("utf-8"))
    assert written["displayTimeUnit"] == "ms"
    assert written["otherData"]["plan"] == str(estimate.plan)
    assert written["traceEvents"] == list(trace_events(estimate, inputs))
    for event in written["traceEvents"]:
        assert event["ph"] in ("M", "X")
        assert event["ph"] == "M" or {"name", "cat", "pid", "tid", "ts", "dur"} <= event.keys()
    named = [event["args"]["name"] for event in written["traceEvents"] if event["name"] == "thread_name"]
    assert named[:4] == ["stage 0", "stage 1", "stage 2", "stage 3"]


def test_of_too_many_actions_the_first_and_the_last_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    estimate, inputs = priced("interleaved")
    whole = [each for each in slices(estimate, inputs) if each.process == PIPELINE]
    monkeypatch.setattr(trace, "MOST_SLICES", 1000)
    short = list(slices(estimate, inputs))
    assert len(short) <= 1100
    steady = [each for each in short if each.category == "steady"]
    acted = [each for each in short if each.category in ("forward", "backward")]
    assert {each.row for each in steady} == set(range(4))
    assert len(acted) + sum(each.about["actions"] for each in steady) == 2 * 4 * 5 * estimate.plan.num_microbatches
    assert max(each.end for each in acted) == max(each.end for each in whole)
    rows = defaultdict(list)
    for each in short:
        rows[each.process, each.row].append((each.start, each.end))
    for spans in rows.values():
        spans.sort()
        assert all(after[0] >= before[1] for before, after in pairwise(spans))


def test_as_many_slices_as_are_drawn_make_less_than_20_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = question(llama_70b(), "4x8:h100", global_batch=1024)
    estimate = estimate_each([plan_of(inputs, tp=8, pp=4, vpp=5)], inputs)[0]
    monkeypatch.setattr(trace, "MOST_SLICES", trace.MOST_SLICES // 10)
    text = sum(len(json.dumps(event, separators=(",", ":"))) + 2 for event in trace_events(estimate, inputs))
    assert 1e6 < text < 2e6


def test_the_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "step.json"
    path.write_text("before", "utf-8")

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", broken)
    with pytest.raises(InvalidInput, match="No space left"):
        write_trace(path, *priced("one stage"))
    assert path.read_text("utf-8") == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("schedule", [Schedule.ZERO_BUBBLE_1P, Schedule.ZERO_BUBBLE_V, Schedule.DUALPIPE_V])
def test_a_schedule_that_puts_off_weight_gradients_shows_them(schedule: Schedule) -> None:
    """Of each chunk and micro-batch on each of 4 ranks a forward, an input gradient and a weight gradient."""
    inputs = question(llama_8b(), "1x4:h100", "zero-bubble", global_batch=16, precision="bf16")
    chunks = CHUNKS[schedule]
    plan = Plan(pp=4, vpp=chunks, num_microbatches=16, schedule=schedule)
    (estimate,) = estimate_each([plan], inputs)
    drawn = Counter(each.category for each in slices(estimate, inputs) if each.process == trace.PIPELINE)
    joined = drawn.pop("backward", 0)
    assert drawn["forward"] == 4 * 16 * chunks
    assert drawn["input_gradient"] + joined == drawn["weight_gradient"] + joined == 4 * 16 * chunks

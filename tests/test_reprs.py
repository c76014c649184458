"""What a session shows of an object: a few lines of 100 columns, made without pricing anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

import meshwright
from meshwright.answers.sweep.run import SweepResult
from meshwright.reprs import WIDTH, list_of
from meshwright.search.find import find
from meshwright.specs.reading.inputs import read_inputs
from strategies import any_plans

JOB = meshwright.Job(sequence_length=8192, global_batch=64)


@pytest.fixture(scope="module")
def result() -> meshwright.SearchResult:
    return meshwright.plan("llama-3.1-8b", "1x8:h100", JOB, top=7)


def lines(thing: object, most: int) -> list[str]:
    """The lines of a repr, which are few and whole at 100 columns, and the same printed."""
    shown = repr(thing)
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert len(shown.splitlines()) <= most
    assert str(thing) == shown
    return shown.splitlines()


def test_a_search_shows_its_plans(result: meshwright.SearchResult) -> None:
    shown = " ".join(map(str.strip, lines(result, 14)))
    assert "llama-3.1-8b on 1x8:h100-sxm-80gb" in shown
    assert f"{result.considered:,} plans considered" in shown
    assert all(str(each.plan) in shown for each in result.best[:5])
    assert str(result.best[6].plan) + ":" not in shown
    assert "and 2 more>" in shown


def test_an_estimate_shows_its_plan_time_and_verdict(result: meshwright.SearchResult) -> None:
    best = result.best[0]
    (shown,) = lines(best, 1)
    assert shown.startswith(f"<Estimate {best.plan}: ")
    assert shown.endswith(f" GiB, {best.verdict}>")
    assert f"{best.step_time_s:.3g} s a step" in shown


def test_a_search_that_found_nothing_shows_what_needs_least() -> None:
    found = find(read_inputs("llama-3.1-70b", "1x8:h100", JOB))
    shown = lines(found, 4)
    assert str(found.leanest.plan) in shown[-1]
    assert "out-of-memory>" in shown[-1]


@pytest.mark.parametrize("read", [meshwright.read_model, meshwright.read_runtime, meshwright.read_cluster])
def test_what_is_read_shows_its_first_fields(read: object) -> None:
    name = {"read_model": "deepseek-v3", "read_runtime": "torchtitan", "read_cluster": "8x8:h100"}
    spec = read(name[read.__name__])  # type: ignore[operator, attr-defined]
    shown = lines(spec, 3)
    assert shown[0].startswith(f"{type(spec).__name__}(")
    assert shown[-1].endswith(" …")


def test_a_job_shows_the_call_that_makes_it() -> None:
    assert repr(JOB) == "Job(sequence_length=8192, global_batch=64)"


def test_a_plan_shows_the_call_that_makes_it() -> None:
    plan = meshwright.Plan(tp=2, recompute="selective", recompute_modules=["moe_act"], schedule="zb-v")  # type: ignore[arg-type]
    assert repr(plan) == "Plan(tp=2, recompute='selective', recompute_modules=['moe_act'], schedule='zb-v')"


@given(any_plans())
def test_the_call_makes_the_plan(plan: meshwright.Plan) -> None:
    assert max(map(len, repr(plan).splitlines())) <= WIDTH
    assert eval(repr(plan), {"Plan": meshwright.Plan}) == plan


def test_the_rest_of_a_list_is_counted() -> None:
    assert list_of("six", range(6)).splitlines()[-2:] == ["  4", "  and 1 more"]


def test_a_sweep_shows_its_counts() -> None:
    swept = SweepResult(({"status": "planned"}, {"status": "refused"}), Path("out/best.parquet"), None, Path("page"))
    assert lines(swept, 1) == ["<SweepResult of 2 questions: 1 planned, 1 refused; out/best.parquet>"]

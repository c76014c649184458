"""A site's own runs set the speed of its kernels, and narrow the interval."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest

from commands import asked
from meshwright.answers.basis.uncertainty import step_time_interval
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput
from meshwright.layout.plan import Plan
from meshwright.specs.reading.model import read_model
from meshwright.validation.rows.configurations import configurations
from meshwright.validation.rows.reading import read_case
from meshwright.validation.rows.table import Row, read_rows
from meshwright.validation.rows.written import row_of
from meshwright.validation.site import with_measured_runs
from strategies import question


@pytest.fixture
def run() -> Row:
    """Llama-3 8B on 8 H100 under megatron-core."""
    return next(each.rows[0] for each in configurations(read_rows()) if each.dataset == "dgxc-part")


def written(path: Path, *rows: Row) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize("times", [0.8, 1.4])
def test_runs_move_the_prediction_the_further_towards_what_they_say_the_more_there_are(
    tmp_path: Path, run: Row, times: float
) -> None:
    case = read_case(run)
    before = estimate_each([case.plan], case.inputs)[0].step_time_s
    moved = [0.0]
    for runs in (1, 4, 100):
        measured = {"config_key": "", "step_time_s": str(times * before)}
        rows = [run | measured | {"id": f"run {number}"} for number in range(runs)]
        inputs = with_measured_runs(case.inputs, written(tmp_path / "runs.csv", *rows))
        assert inputs.cluster.measured_runs == runs
        assert f"by {runs} of its own runs" in inputs.cluster.assumptions[-1]
        after = estimate_each([case.plan], inputs)[0].step_time_s
        moved.append(math.log(after / before) / math.log(times))
    assert moved == sorted(moved)
    assert 0.9 < moved[-1] < 1


def test_a_run_that_is_predicted_right_moves_nothing(tmp_path: Path, run: Row) -> None:
    case = read_case(run)
    seconds = estimate_each([case.plan], case.inputs)[0].step_time_s
    table = written(tmp_path / "runs.csv", run | {"step_time_s": str(seconds)})
    assert with_measured_runs(case.inputs, table).cluster.site_derate == pytest.approx(1, rel=1e-3)


def test_own_runs_narrow_the_interval_and_the_more_of_them_the_more(tmp_path: Path, run: Row) -> None:
    case = read_case(run)
    inputs = with_measured_runs(case.inputs, written(tmp_path / "runs.csv", run))
    several = inputs.replace(cluster=inputs.cluster.replace(measured_runs=8))
    estimate = estimate_each([case.plan], inputs)[0]
    before, one, eight = (step_time_interval(estimate, each) for each in (case.inputs, inputs, several))
    assert eight.p90 / eight.p10 < one.p90 / one.p10 < before.p90 / before.p10


def test_a_run_with_experts_that_is_predicted_right_changes_nothing_whether_or_not_it_says_how_it_routed(
    tmp_path: Path,
) -> None:
    """A blank was taken as even routing, so that the usual imbalance counted twice."""
    inputs = question(read_model("mixtral-8x7b"), "4x8:h100", global_batch=256, expert_imbalance=None)
    plan = Plan(dp=32, ep=8, zero=1, num_microbatches=8)
    seconds = estimate_each([plan], inputs)[0].step_time_s
    for routing in ("natural", ""):
        row = row_of(plan, inputs) | {"step_time_s": str(seconds), "routing": routing}
        assert with_measured_runs(inputs, written(tmp_path / "runs.csv", row)).cluster.site_derate == pytest.approx(
            1, rel=1e-3
        )


def test_runs_that_tell_nothing_are_refused_with_the_reason(tmp_path: Path, run: Row) -> None:
    inputs = read_case(run).inputs
    for change, told in (
        ({"step_time_s": "", "tokens_per_s_per_gpu": ""}, "no step time is printed"),
        (
            {"gpu": "A100-SXM-80GB", "precision": "bf16"},
            "the question is about h100-sxm-80gb",
        ),
        ({"step_time_s": "9999"}, "Is its row right?"),
        ({"runtime": "unheard-of"}, "unknown runtime 'unheard-of'"),
    ):
        with pytest.raises(InvalidInput, match=told.replace("?", r"\?")):
            with_measured_runs(inputs, written(tmp_path / "runs.csv", run | change))


def test_the_command_takes_measured_runs(tmp_path: Path, run: Row) -> None:
    table = written(tmp_path / "runs.csv", run | {"step_time_s": str(1.3 * float(run["step_time_s"]))})
    question = ("--model", "llama-3.1-8b", "--cluster", "1x8:h100", "--seq-len", "8192", "--global-batch", "64")
    usual, slow = (
        json.loads(asked("plan", *question, "--top", "1", "--json", *more).out)["plans"][0]["step_time_s"]
        for more in ((), ("--measured", str(table)))
    )
    assert 1.05 * usual < slow < 1.3 * usual


def test_runs_that_are_of_no_use_are_named(tmp_path: Path, run: Row) -> None:
    inputs = read_case(run).inputs
    bad = [run | {"id": f"bad {number}", "config_key": "", "runtime": "unheard-of"} for number in range(3)]
    said = with_measured_runs(inputs, written(tmp_path / "runs.csv", run, *bad)).cluster.assumptions[-1]
    assert "by 1 of its own runs, weighed with how sites and runs of one site differ" in said
    assert "; not by 3 others of the table (bad 0: unknown runtime 'unheard-of'" in said
    assert said.endswith("; ...)")

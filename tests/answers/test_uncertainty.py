"""Error bars: they lie around the prediction, are wider where runs are few, and say so."""

from __future__ import annotations

import pytest

from meshwright.answers.uncertainty import step_time_interval, step_time_line
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.residuals import EVERY, SHARES, like, residuals
from strategies import llama_8b, question, questions


@pytest.mark.parametrize("name", questions())
def test_the_prediction_lies_inside_its_interval(name: str) -> None:
    inputs = questions()[name]
    estimate = _estimate(question(llama_8b(), "1x8:h100"))
    interval = step_time_interval(estimate, inputs)
    assert 0 < interval.p10 < estimate.step_time_s < interval.p90


def test_without_like_runs_the_interval_is_wider_and_says_so() -> None:
    known, unknown = (question(llama_8b(), f"1x8:{name}", precision="bf16") for name in ("h100", "mi300x"))
    widths = []
    for inputs in (known, unknown):
        estimate = _estimate(inputs)
        interval = step_time_interval(estimate, inputs)
        widths.append(interval.p90 / interval.p10)
        assert ("because none is similar" in step_time_line(estimate, inputs)) == (interval.sources == 0)
    assert like(unknown) not in residuals()["step_time"]
    assert widths[0] < widths[1]


def test_a_plan_fits_the_more_surely_the_less_it_needs() -> None:
    inputs = question(llama_8b(), "1x8:h100", "torchtitan")
    chances = [_estimate(inputs, size).fit.probability for size in (1, 2, 3, 4)]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 0.9
    assert all(0 < chance < 1 for chance in chances)


def test_residuals_rise_with_the_share_of_runs_and_hold_one() -> None:
    for kinds in residuals().values():
        assert EVERY in kinds
        for each in kinds.values():
            ratios = [each.at(share) for share in SHARES]
            assert ratios == sorted(ratios)
            assert each.at(0.02) < 1.05
            assert each.at(0.98) > 0.95


def _estimate(inputs: Inputs, micro_batch: int = 1) -> Estimate:
    job = inputs.job.replace(global_batch=8 * micro_batch)
    return estimate_each([Plan(dp=8, zero=3, micro_batch=micro_batch)], inputs.replace(job=job))[0]

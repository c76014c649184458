"""Error bars: they lie around the prediction, are wider where runs are few, and say so."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.answers.basis import uncertainty
from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.basis.uncertainty import margin_line, step_time_interval, step_time_line
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict, bounds, fit_probability, safe_bytes, verdict
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.search.published.untested import Unpublished
from meshwright.specs import catalog
from meshwright.specs.inputs import Inputs
from meshwright.specs.predictive import of_a_new_source
from meshwright.specs.residuals import like, residuals
from meshwright.units import format_seconds
from strategies import llama_8b, mixture, question, questions, some_legal_plans


@pytest.mark.parametrize("name", questions())
def test_the_prediction_lies_inside_its_interval(name: str) -> None:
    inputs = questions()[name]
    estimate = _estimate(question(llama_8b(), "1x8:h100"))
    interval = step_time_interval(estimate, inputs)
    assert 0 < interval.p10 < estimate.step_time_s < interval.p90


def test_a_runtime_or_an_accelerator_without_a_source_makes_it_wider_and_is_named() -> None:
    known, unseen = (question(llama_8b(), f"1x8:{name}", precision="bf16") for name in ("h100", "l40s"))
    widths = []
    for inputs, missing in (
        (known, ()),
        (unseen, ("on l40s",)),
        (unseen.replace(runtime=unseen.runtime.replace(framework="new")), ("with new", "on l40s")),
    ):
        estimate = _estimate(inputs)
        interval, line = step_time_interval(estimate, inputs), step_time_line(estimate, inputs)
        widths.append(interval.p90 / interval.p10)
        assert ("none of them with new" in line, "none on l40s" in line) == (
            "with new" in missing,
            "on l40s" in missing,
        )
        assert ("widens the range" in line) == bool(missing)
        said = f"no published run {' or '.join(missing)} supports the step time, so its range is wider"
        assert [each for each in assumptions(inputs) if "supports the step time" in each] == ([said] if missing else [])
        assert list(interval.sources.values()).count(0) == len(missing)
        own = inputs.replace(cluster=inputs.cluster.replace(measured_runs=1))
        assert not [each for each in assumptions(own) if "supports the step time" in each]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


KNOWN = residuals("step_time")


def test_a_runtime_without_a_source_says_so_and_is_wider_than_the_others_of_its_family() -> None:
    known = question(llama_8b(), "1x8:h100")
    inputs = known.replace(runtime=known.runtime.replace(framework="new"))
    assert "none of them with new" in step_time_line(_estimate(inputs), inputs)
    asked = like(inputs)
    family = {cell.runtime for cell in KNOWN.cells if cell.family == asked.family}
    own, *others = (of_a_new_source(asked._replace(runtime=each), KNOWN).spread for each in ("new", *family))
    assert len(others) > 3
    assert own > max(others)


def test_a_runtime_whose_runs_are_all_dense_is_unseen_for_experts() -> None:
    dense, experts = (question(model, "1x8:h100", "deepspeed", global_batch=8) for model in (llama_8b(), mixture()))
    assert KNOWN.sources(group="dense", runtime="deepspeed")
    assert not KNOWN.sources(group="experts", runtime="deepspeed")
    told = [step_time_line(_estimate(each), each) for each in (dense, experts)]
    assert ["none of them with deepspeed" in each for each in told] == [False, True]
    said = "no published run of models with experts with deepspeed supports the step time"
    assert [any(each.startswith(said) for each in assumptions(asked)) for asked in (dense, experts)] == [False, True]


@pytest.mark.parametrize("name", catalog.names("accelerators"))
def test_every_accelerator_without_a_source_says_so_and_is_wider(name: str) -> None:
    inputs = question(llama_8b(), f"1x8:{name}")
    asked = like(inputs)
    is_seen = bool(KNOWN.sources(accelerator=asked.accelerator))
    assert (f"none on {asked.accelerator}" in step_time_line(_estimate(inputs), inputs)) != is_seen
    if not is_seen:
        seen = asked._replace(accelerator="hopper")
        assert of_a_new_source(asked, KNOWN).spread > of_a_new_source(seen, KNOWN).spread


def test_a_plan_fits_the_more_surely_the_less_it_needs() -> None:
    inputs = question(llama_8b(), "1x8:h100", "torchtitan")
    chances = [_estimate(inputs, size).fit.probability for size in (1, 2, 3, 4)]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 0.9
    assert all(0 < chance < 1 for chance in chances)


def test_the_verdict_and_its_probability_agree_for_every_memory() -> None:
    """Safe is 90 % and more, out of memory 10 % and less."""
    for runtime in ("megatron-core", "torchtitan", "deepspeed"):
        inputs = question(llama_8b(), "1x8:h100", runtime)
        for size in np.linspace(40e9, 100e9, 61):
            limits = bounds(size, 1.06 * size, 2e9, inputs)
            code = Verdict(int(verdict(limits, inputs)))
            chance = fit_probability(limits, inputs.cluster.accelerator.visible_memory_bytes)
            assert limits.least < limits.expected < limits.most
            assert (chance >= 0.9) == (code is Verdict.SAFE)
            assert (chance < 0.1) == (code is Verdict.OUT_OF_MEMORY)


@pytest.mark.parametrize("risk", [0.01, 0.1, 0.3, 0.5])
def test_a_plan_is_safe_up_to_the_accepted_risk(risk: float) -> None:
    inputs = question(llama_8b(), "1x8:h100")
    inputs = inputs.replace(job=inputs.job.replace(risk=risk))
    for size in np.linspace(60e9, 90e9, 61):
        limits = bounds(size, 1.06 * size, 2e9, inputs)
        chance = fit_probability(limits, inputs.cluster.accelerator.visible_memory_bytes)
        if abs(chance - (1 - risk)) > 1e-4:
            safe = int(verdict(limits, inputs)) == Verdict.SAFE
            assert safe == (chance > 1 - risk)


def test_a_bound_is_what_as_many_runs_stay_below() -> None:
    limits = bounds(60e9, 64e9, 2e9, question(llama_8b(), "1x8:h100"))
    for risk in (0.01, 0.05, 0.1, 0.25, 0.5):
        enough = float(safe_bytes(limits, risk))
        assert float(fit_probability(limits, enough)) == pytest.approx(1 - risk, abs=1e-5)


def test_memory_that_no_run_shows_may_lie_farther_off() -> None:
    """Nobody measured nanotron's; of the Megatron family allocated memory was, beside which its allocator was."""
    sizes = (50e9, 53e9, 2e9)
    known, unknown = (bounds(*sizes, question(llama_8b(), "1x8:h100", name)) for name in ("megatron-core", "nanotron"))
    assert known.most - known.least < unknown.most - unknown.least
    line = margin_line(
        _estimate(question(llama_8b(), "1x8:h100", "nanotron")), question(llama_8b(), "1x8:h100", "nanotron")
    )
    assert "none with nanotron" in line


@pytest.mark.parametrize("name", questions())
@pytest.mark.parametrize("measured_runs", [0, 3])
def test_an_unproven_plan_is_never_told_more_surely_than_if_it_were_proven(
    name: str, measured_runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By how far kinds of plans differ: the same prediction lies in the middle of both."""
    inputs = questions()[name]
    inputs = inputs.replace(cluster=inputs.cluster.replace(measured_runs=measured_runs))
    for plan in some_legal_plans(name, 5):
        (estimate,) = estimate_each([plan], inputs)
        monkeypatch.setattr(uncertainty, "unpublished", lambda *_: [])
        proven, line = step_time_interval(estimate, inputs), step_time_line(estimate, inputs)
        monkeypatch.setattr(uncertainty, "unpublished", lambda *_: [Unpublished("x", "none")])
        unproven, told = step_time_interval(estimate, inputs), step_time_line(estimate, inputs)
        assert unproven.p10 < proven.p10 < proven.p90 < unproven.p90
        assert f"if one had, the range would be {format_seconds(proven.p10)} to {format_seconds(proven.p90)}" in told
        assert "if one had, the range" not in line


def _estimate(inputs: Inputs, micro_batch: int = 1) -> Estimate:
    job = inputs.job.replace(global_batch=8 * micro_batch)
    return estimate_each([Plan(dp=8, zero=3, micro_batch=micro_batch)], inputs.replace(job=job))[0]

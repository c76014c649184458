"""Pipelines: plans that hold the same weights are priced as one, and what is said of it holds for each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.cost.footprint import footprints_of
from meshwright.cost.shapes import PIPELINE, pipelines_of
from meshwright.cost.step import estimate_plans, estimates_of
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.choices import Recompute
from strategies import questions, some_legal_plans

COUNT = 300


def _plans(name: str) -> Plans:
    return some_legal_plans(name, COUNT)


@pytest.mark.parametrize("name", questions())
def test_a_plan_and_its_pipeline_have_the_same_degrees_and_stages(name: str) -> None:
    plans, inputs = _plans(name), questions()[name]
    pipelines, stages = pipelines_of(plans, inputs, keep_all_stages=True)
    for field in set(PIPELINE) - {"num_microbatches", "microbatch_group"}:
        np.testing.assert_array_equal(getattr(pipelines.plans, field)[pipelines.of_plan], getattr(plans, field))
    np.testing.assert_array_equal(pipelines.stages.layers[pipelines.of_stage], stages.layers)
    np.testing.assert_array_equal(pipelines.stages.plan[pipelines.of_stage], pipelines.of_plan[stages.plan])
    assert len(stages.plan) == plans.pp.sum()


def test_plans_that_differ_in_what_one_micro_batch_does_share_a_pipeline() -> None:
    plan = Plan(tp=2, pp=2, dp=2, num_microbatches=8)
    alike = [replace(plan, sp=True), replace(plan, recompute=Recompute.FULL), replace(plan, micro_batch=2)]
    fuller, sharded = replace(plan, num_microbatches=64), replace(plan, zero=1)
    inputs = next(iter(questions().values()))
    pipelines, _ = pipelines_of(Plans.of([plan, *alike, fuller, sharded]), inputs, keep_all_stages=True)
    np.testing.assert_array_equal(pipelines.of_plan, [0, 0, 0, 0, 0, 1])


@pytest.mark.parametrize("name", questions())
def test_what_fits_is_known_without_the_time(name: str) -> None:
    plans, inputs = _plans(name), questions()[name]
    held, priced = footprints_of(plans, inputs), estimate_plans(plans, inputs)
    np.testing.assert_array_equal(held.verdict, priced.verdict)
    np.testing.assert_array_equal(held.worst_memory.device, priced.memory.device[priced.worst])


@pytest.mark.parametrize("name", questions())
def test_chosen_plans_cost_what_they_cost_alone(name: str) -> None:
    plans, inputs = _plans(name), questions()[name]
    chosen = np.arange(len(plans)) % 3 == 1
    taken, alone = estimates_of(footprints_of(plans, inputs).take(chosen)), estimate_plans(plans.take(chosen), inputs)
    for one, other in zip((*taken.time, *taken.worst_memory), (*alone.time, *alone.worst_memory), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_array_equal(taken.verdict, alone.verdict)
    np.testing.assert_array_equal(taken.stages.stage[taken.slowest], alone.stages.stage[alone.slowest])

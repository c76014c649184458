"""A hundred thousand plans: nothing negative, nothing infinite, nothing that is not a number."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.cost.estimate import Estimates
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_each, estimate_plans
from strategies import (
    dense_model,
    gemma_like,
    gpt_like,
    legal_plans,
    llama_8b,
    llama_70b,
    question,
    questions,
    some_legal_plans,
    three_levels,
)

LARGE = {
    "70b on 1024 h100": question(llama_70b(), "128x8:h100", global_batch=7680),
    "8b on 768 b200": question(llama_8b(), "96x8:b200", global_batch=9216, sequence_length=8192),
    "gemma on 384 a100": question(gemma_like(), "48x8:a100", global_batch=4608),
    "gpt on 96 v100": question(gpt_like(), "12x8:v100", "megatron-lm", global_batch=11520, sequence_length=1024),
    "120 layers on leaves": question(
        dense_model(layers=120, heads=48, kv_heads=12), three_levels(), global_batch=11520
    ),
    "windowed on 720 gb200": question(gemma_like(), "180x4:gb200", global_batch=10080, sequence_length=131072),
}


def _values(estimates: Estimates) -> list[np.ndarray]:
    totals = [estimates.step_time_s, estimates.mfu, estimates.tokens_per_s_per_gpu]
    memory = [*estimates.memory, estimates.memory.device]
    work = [*estimates.stage_time.forward, *estimates.stage_time.backward, *estimates.stage_time[2:]]
    return [np.asarray(value) for value in (*estimates.time, *estimates.compute, *totals, *memory, *work)]


@pytest.mark.parametrize("name", LARGE)
def test_nothing_is_negative_infinite_or_not_a_number(name: str) -> None:
    asked = LARGE[name]
    plans = legal_plans(asked)
    estimates = estimate_plans(plans, asked)
    for value in _values(estimates):
        assert np.isfinite(value).all()
        assert (value >= 0).all()
    assert (estimates.step_time_s > 0).all()
    np.testing.assert_allclose(sum(estimates.time), estimates.step_time_s, rtol=1e-12)
    np.testing.assert_allclose(sum(estimates.compute), estimates.time.compute_s, rtol=1e-12)
    assert set(estimates.verdict) <= set(Verdict)


def test_a_hundred_thousand_plans_were_looked_at() -> None:
    assert sum(len(legal_plans(asked)) for asked in LARGE.values()) > 100_000


@pytest.mark.parametrize("name", questions())
def test_both_ends_and_the_totals_of_one_plans_estimate_agree(name: str) -> None:
    asked = questions()[name]
    estimates = estimate_plans(legal_plans(asked), asked, keep_all_stages=True)
    for row in range(0, len(estimates), max(len(estimates) // 20, 1)):
        one = estimates[row]
        assert len(one.stages) == one.plan.pp
        assert one.stages[0].embedding
        assert one.stages[-1].head
        assert sum(stage.layers for stage in one.stages) == asked.model.num_layers
        assert one.memory.device == max(stage.memory.device for stage in one.stages)
        assert one.step_time_s == pytest.approx(float(estimates.step_time_s[row]), rel=1e-12)
        tokens = asked.job.tokens_per_step / one.step_time_s / asked.cluster.num_gpus
        assert one.tokens_per_s_per_gpu == pytest.approx(tokens, rel=1e-12)


@pytest.mark.parametrize("name", questions())
def test_plans_of_several_global_batches_are_priced_in_one_table(name: str) -> None:
    asked, plans = questions()[name], some_legal_plans(name, 3)
    twice = asked.replace(job=asked.job.replace(global_batch=2 * asked.job.global_batch))
    cases = [(plans[row], asked) for row in range(3)]
    cases += [(plan.replace(num_microbatches=2 * plan.num_microbatches), twice) for plan, _ in cases]
    for one, (plan, each) in zip(estimate_each([plan for plan, _ in cases], asked), cases, strict=True):
        (alone,) = estimate_each([plan], each)
        assert one.step_time_s == pytest.approx(alone.step_time_s, rel=1e-12)
        assert one.tokens_per_s_per_gpu == pytest.approx(alone.tokens_per_s_per_gpu, rel=1e-12)
        assert one.mfu == pytest.approx(alone.mfu, rel=1e-12)

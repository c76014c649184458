"""Best where: against looking at every legal plan."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_plans
from meshwright.search.find import best_where
from strategies import legal_plans, llama_8b, llama_70b, question


@pytest.mark.parametrize("stage", [1, 3])
def test_the_best_of_a_sort_is_the_best_of_all_of_that_sort(stage: int) -> None:
    inputs = question(llama_8b(), "2x8:h100", global_batch=64, precision="bf16")
    found = best_where(inputs, lambda plans: plans.zero == stage)
    every = legal_plans(inputs)
    estimates = estimate_plans(every.take(every.zero == stage), inputs)
    assert found
    assert found.plan.zero == stage
    safest = estimates.verdict.min()
    assert found.verdict == safest
    assert found.step_time_s == pytest.approx(estimates.step_time_s[estimates.verdict == safest].min(), rel=1e-12)


def test_where_none_fits_it_is_the_leanest() -> None:
    inputs = question(llama_70b(), "1x8:h100", global_batch=64, precision="bf16")
    found = best_where(inputs, lambda plans: plans.zero == 3)
    every = legal_plans(inputs)
    memory = estimate_plans(every.take(every.zero == 3), inputs).worst_memory.device
    assert found
    assert found.verdict == Verdict.OUT_OF_MEMORY
    assert found.memory.device == pytest.approx(float(np.min(memory)), abs=10)


def test_no_plan_of_a_sort_is_none() -> None:
    inputs = question(llama_8b(), "1x8:h100", "megatron-lm", global_batch=64)
    assert best_where(inputs, lambda plans: plans.zero == 3) is None

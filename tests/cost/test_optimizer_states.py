"""Optimizer states of Megatron-Bridge in bf16: what of fp32 weights each way of data parallelism keeps."""

from __future__ import annotations

import pytest

from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from strategies import llama_8b, question

BRIDGE = question(llama_8b(), "1x8:h200", "megatron-bridge", precision="bf16")
PARAMETERS = 8030261248


@pytest.mark.parametrize(
    ("plan", "states", "gradients"),
    [
        (Plan(tp=4, dp=2, zero=0), 12 / 4, 2 / 4),
        (Plan(tp=4, dp=2, zero=1), 10 / 8, 2 / 4),
        (Plan(tp=4, cp=2, zero=0), 12 / 4, 2 / 4),
        (Plan(tp=8, sp=True), 10 / 8, 2 / 8),
        (Plan(dp=8, zero=3), 12 / 8, 2 / 8),
    ],
    ids=["whole optimizer", "distributed optimizer", "over ranks of cp", "one rank", "Megatron-FSDP"],
)
def test_only_a_distributed_optimizer_keeps_remainders_of_weights(plan: Plan, states: float, gradients: float) -> None:
    (estimate,) = estimate_each([plan], BRIDGE)
    assert estimate.memory.optimizer_states / PARAMETERS == pytest.approx(states, rel=2e-3)
    assert estimate.memory.gradients / PARAMETERS == pytest.approx(gradients, rel=2e-3)


def test_without_a_distributed_optimizer_the_recipe_changes_nothing() -> None:
    """fp32 copies of weights and gradients, and as much to read and write."""
    plain = BRIDGE.replace(runtime=BRIDGE.runtime.replace(remainder_weights=()))
    for plan, alike in ((Plan(tp=4, dp=2), True), (Plan(tp=4, dp=2, zero=1), False)):
        with_recipe, without = (estimate_each([plan], inputs)[0] for inputs in (BRIDGE, plain))
        assert (with_recipe.memory == without.memory) == alike
        assert (with_recipe.step_time_s == without.step_time_s) == alike

"""Optimizer states in bf16: what of fp32 weights each way of data parallelism keeps."""

from __future__ import annotations

import pytest

from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.reading.model import read_model
from meshwright.specs.recompute_modules import RecomputeModules
from meshwright.units import GIB
from strategies import llama_8b, question

BRIDGE = question(llama_8b(), "1x8:h200", "megatron-bridge", precision="bf16")
AWARE = BRIDGE.replace(runtime=BRIDGE.runtime.replace(remainder_weights=("bf16",)))
"""With the precision-aware optimizer as Megatron-LM has it."""
PARAMETERS = 8030261248
MOONLIGHT = {"tp": 2, "sp": True, "ep": 8, "dp": 4, "zero": 1}


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
    (estimate,) = estimate_each([plan], AWARE)
    assert estimate.memory.optimizer_states / PARAMETERS == pytest.approx(states, rel=2e-3)
    assert estimate.memory.gradients / PARAMETERS == pytest.approx(gradients, rel=2e-3)


def test_without_a_distributed_optimizer_remainders_change_nothing() -> None:
    """fp32 copies of weights and gradients, and as much to read and write."""
    for plan, alike in ((Plan(tp=4, dp=2), True), (Plan(tp=4, dp=2, zero=1), False)):
        aware, plain = (estimate_each([plan], inputs)[0] for inputs in (AWARE, BRIDGE))
        assert (aware.memory == plain.memory) == alike
        assert (aware.step_time_s == plain.step_time_s) == alike


def test_megatron_bridge_takes_its_optimizer_for_that_of_fp8() -> None:
    """It is precision-aware, and yet keeps fp32 weights whole and casts gradients: its `MixedPrecisionConfig` names an
    fp8 recipe in bf16 too. Moonlight on 8 H100 held 33.4 to 34.1 GiB, whatever it recomputed.
    """
    inputs = question(
        read_model("moonlight-16b-a3b"), "1x8:h100", "megatron-bridge", sequence_length=4096, global_batch=4
    )
    behaviours = ["optimizer_states=bf16", "dispatcher=all_to_all"]
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, behaviours))
    parts = (RecomputeModules.CORE_ATTENTION, RecomputeModules.LATENT_UP_PROJECTION, RecomputeModules.EXPERT_ACTIVATION)
    selective = [Plan(recompute=Recompute.SELECTIVE, recompute_modules=modules, **MOONLIGHT) for modules in parts]
    held = [estimate.memory.allocated / GIB for estimate in estimate_each([Plan(**MOONLIGHT), *selective], inputs)]
    assert held == pytest.approx([34.103, 34.099, 33.436, 33.473], rel=0.05)
    assert max(held) - min(held) < 0.1  # while the optimizer works, when no activations are alive

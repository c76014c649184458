"""Sorting the rows of experts without fused kernels takes longer, is launched so, and is told."""

from __future__ import annotations

import pytest

from commands import asked
from meshwright.cost.step import estimate_each
from meshwright.layout.named import plan_of
from meshwright.specs.behaviours import PERMUTE_FUSION, with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.switches import with_kernels_on
from strategies import question

UNFUSED = ("--with", "permute_fusion=off")


def _step_time(inputs: Inputs) -> float:
    return estimate_each([plan_of(inputs, ep=8)], inputs)[0].step_time_s


@pytest.mark.parametrize("runtime", ["megatron-core", "megatron-bridge"])
def test_a_step_takes_longer_without_it(runtime: str) -> None:
    inputs = question(read_model("qwen3-30b-a3b"), "1x8:h200", runtime)
    unfused = inputs.replace(runtime=with_behaviours(inputs.runtime, [UNFUSED[1]]))
    assert _step_time(inputs) < _step_time(unfused) < 1.2 * _step_time(inputs)
    again = with_kernels_on(unfused, PERMUTE_FUSION)
    assert again is not None
    assert _step_time(again) == _step_time(inputs)
    assert with_kernels_on(inputs, PERMUTE_FUSION) is None


def test_plan_names_what_the_fused_kernels_would_save() -> None:
    asks = ("--model", "qwen3-30b-a3b", "--cluster", "2x8:h200", "--seq-len", "4096", "--global-batch", "256")
    said = " ".join(asked("plan", *asks, "--runtime", "megatron-core", *UNFUSED).out.split())
    assert "permute_fusion=on" in said
    assert "--moe-permute-fusion" in said

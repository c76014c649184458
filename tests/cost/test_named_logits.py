"""Logits that a training loop names until those of the next micro-batch are there."""

from __future__ import annotations

import pytest

from meshwright.cost.memory.components import Components
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from strategies import question
from torch_forks import verify

LENGTH = 2048
LOGITS = 2 * LENGTH * 151_936
"""Bytes of those of one sequence of Qwen3-0.6B."""


def asked(runtime: str, micro_batches: int = 1, **changes: object) -> Inputs:
    inputs = question(
        read_model("qwen3-0.6b"), "1x2:h100", runtime, sequence_length=LENGTH, global_batch=2 * micro_batches
    )
    return inputs.replace(runtime=inputs.runtime.replace(**changes))


def plan(runtime: str, micro_batches: int = 1) -> Plan:
    zero = 0 if runtime == "pytorch-ddp" else 3
    return Plan(dp=2, zero=zero, num_microbatches=micro_batches, recompute=Recompute.FULL)


def memory(runtime: str, **changes: object) -> Components[float]:
    return estimate_each([plan(runtime)], asked(runtime, **changes))[0].memory


@pytest.mark.parametrize("runtime", ["pytorch-ddp", "pytorch-fsdp1", "accelerate"])
def test_they_stand_beside_the_fp32_ones_in_place_of_the_hole_that_they_leave(runtime: str) -> None:
    without, named = (memory(runtime, keeps_logits=keeps) for keeps in (False, True))
    assert named.allocated - without.allocated == pytest.approx(LOGITS)
    assert named.reserved - without.reserved < LOGITS


def test_a_compiled_loss_saves_them_itself() -> None:
    """Sixteen sequences, whose peak is in the loss: the logits and their gradient, and nothing in fp32."""
    inputs = asked("pytorch-ddp", 16, cross_entropy="compiled")
    each = [inputs.replace(runtime=inputs.runtime.replace(keeps_logits=keeps)) for keeps in (False, True)]
    large = Plan(dp=2, micro_batch=16, recompute=Recompute.FULL)
    without, named = (estimate_each([large], one)[0].memory for one in each)
    assert named == without
    assert without.logits == pytest.approx(2 * 16 * LOGITS)


def test_the_update_has_them_too() -> None:
    short = {"cross_entropy": "compiled", "fused_update": False}
    without, named = (memory("pytorch-ddp", keeps_logits=keeps, **short) for keeps in (False, True))
    assert named.allocated - without.allocated == pytest.approx(LOGITS)


@pytest.mark.clients("torch", "transformers")
@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["pytorch-ddp", "accelerate"])
def test_peaks_are_those_of_pytorch(runtime: str) -> None:
    """Of several micro-batches; within 3e-3."""
    done = verify(plan(runtime, 3), asked(runtime, 3, keeps_logits=True))
    assert done.holds
    (stage,) = done.stages
    (peak,) = (each for each in stage.quantities if each.name == "peak allocated")
    assert peak.ratio == pytest.approx(1.0, abs=3e-3)

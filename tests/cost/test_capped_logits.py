"""Logits that a model caps by a tanh: what its three kernels keep and move, where no loss does it on the way."""

from __future__ import annotations

import pytest

from meshwright.cost.compute.ends import head_time
from meshwright.cost.memory.ends import head_memory
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import read_inputs

TOKENS, VOCABULARY = 2 * 4096, 256000
PLAN = Plan(dp=8, zero=3, micro_batch=2)


def asked(model: str = "gemma-2-2b", *behaviours: str) -> Inputs:
    inputs = read_inputs(model, "1x8:h100", Job(sequence_length=4096, global_batch=64), "accelerate")
    return inputs.replace(runtime=with_behaviours(inputs.runtime, list(behaviours)))


def uncapped(inputs: Inputs) -> Inputs:
    return inputs.replace(model=inputs.model.replace(head_softcap=False))


def test_two_bytes_of_every_logit_wait_for_backward() -> None:
    """PyTorch 2.13 on these operators: 12.1 and 10.1 bytes a logit forward at the most, 16.1 and 14.1 backward."""
    one, other = (head_memory(PLAN, each) for each in (asked(), uncapped(asked())))
    for name in ("working", "forward", "waiting"):
        assert float(getattr(one, name) - getattr(other, name)) == 2 * TOKENS * VOCABULARY


def test_the_kernels_take_their_bytes() -> None:
    accelerator = asked().cluster.accelerator
    one, other = (head_time(PLAN, each) for each in (asked(), uncapped(asked())))
    for way, size in (("forward", 12), ("backward", 14)):
        longer = float(getattr(one, way).total - getattr(other, way).total)
        least = size * TOKENS * VOCABULARY / accelerator.memory_bandwidth
        assert least < longer < 2 * least


@pytest.mark.parametrize("loss", ["compiled", "fused_linear"])
def test_a_loss_that_caps_them_itself_costs_no_more(loss: str) -> None:
    inputs = asked("gemma-2-2b", f"cross_entropy={loss}")
    assert head_memory(PLAN, inputs) == head_memory(PLAN, uncapped(inputs))
    assert head_time(PLAN, inputs).forward == head_time(PLAN, uncapped(inputs)).forward


def test_gemma_2_caps_what_gemma_3_does_not() -> None:
    for model, capped in (("gemma-2-9b", True), ("gemma-3-12b", False)):
        read = asked(model).model
        assert (read.head_softcap, read.modifies_scores) == (capped, capped)

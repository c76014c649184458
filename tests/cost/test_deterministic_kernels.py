"""Kernels that add up in a fixed order, and PyTorch filling what it allocates."""

from __future__ import annotations

import pytest

from meshwright.cost.compute.experts import expert_time
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidSpec
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime import read_runtime
from strategies import llama_8b, mixture, question

GIB = 2**30
LLAMA = question(llama_8b(), "1x8:h100", precision="bf16")
ALONE = Plan()
HEADS, LENGTH = 32, LLAMA.job.sequence_length


def ordered(inputs: Inputs, how: str, **changes: object) -> Inputs:
    return inputs.replace(runtime=inputs.runtime.replace(deterministic=how, **changes))


def backward(inputs: Inputs, plan: Plan = ALONE) -> float:
    """Seconds of the attention core's backward pass."""
    return float(layer_time(plan, inputs, inputs.model.layer_kinds[0]).backward.attention)


@pytest.mark.parametrize("card", ["a100-80gb", "h100", "b200", "mi300x", "l40s"])
def test_each_step_towards_a_fixed_order_takes_longer_and_forward_does_not(card: str) -> None:
    asked = question(llama_8b(), f"1x8:{card}", precision="bf16")
    ways = [ordered(asked, how) for how in ("off", "on", "filled")]
    steps = [estimate.step_time_s for each in ways for estimate in estimate_each([Plan(dp=8, zero=1)], each)]
    assert steps == sorted(set(steps))
    forward = {float(layer_time(Plan(), each, each.model.layer_kinds[0]).forward.attention) for each in ways}
    assert len(forward) == 1


def test_older_kernels_take_what_was_measured_longer() -> None:
    older = LLAMA.runtime.replace(attention_kernel="flash-2")
    old = LLAMA.replace(runtime=older)
    assert backward(ordered(old, "on")) == pytest.approx(1.6 * backward(old))


def test_hopper_keeps_a_number_for_each_score() -> None:
    kind = LLAMA.model.layer_kinds[0]
    working = [float(layer_memory(Plan(), each, kind).working) for each in (LLAMA, ordered(LLAMA, "on"))]
    square = 2 * HEADS * LENGTH**2
    saved = 2 * LENGTH * 3 * 14336
    assert working[1] == max(working[0], square - saved)
    documents = LLAMA.replace(job=LLAMA.job.replace(document_length=LENGTH // 8))
    gained = [backward(ordered(each, "on")) - backward(each) for each in (LLAMA, documents)]
    assert gained[1] == pytest.approx(gained[0] / 8)


def test_a_split_sequence_splits_it() -> None:
    one, four = (backward(ordered(LLAMA, "on"), plan) - backward(LLAMA, plan) for plan in (Plan(), Plan(tp=4)))
    assert four == pytest.approx(one / 4)


def test_experts_are_filled_too_and_gradients_where_no_product_adds_them() -> None:
    asked = question(mixture(), "1x8:h100", precision="bf16")
    kind = asked.model.layer_kinds[-1]
    moved = [
        float(expert_time(Plan(), each, kind).backward.experts.moved_bytes)
        for each in (
            asked,
            ordered(asked, "filled"),
            ordered(asked, "off", gradient_accumulation="unfused"),
            ordered(asked, "filled", gradient_accumulation="unfused"),
        )
    ]
    assert moved[3] - moved[2] > moved[1] - moved[0] > 0


def test_megatron_refuses_what_has_no_fixed_order() -> None:
    with pytest.raises(InvalidSpec, match="--with cross_entropy=unfused"):
        with_behaviours(read_runtime("megatron-bridge"), ["deterministic=on"])
    without = ["cross_entropy=unfused", "tensor_parallel_overlap=off"]
    with_behaviours(read_runtime("megatron-bridge"), [*without, "deterministic=on"])

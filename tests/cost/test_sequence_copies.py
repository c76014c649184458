"""Copies that put the sequence in order around the collectives of DTensor."""

from __future__ import annotations

import pytest

from meshwright.cost.comms.tensor import layer_tensor_exchanges
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.layer import layer_time
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from strategies import llama_8b, question


def seconds(inputs: Inputs, plan: Plan, **changes: object) -> dict[str, float]:
    """Of all tensor-parallel messages of a layer, by operation, if nothing ran beside them."""
    inputs = inputs.replace(runtime=inputs.runtime.replace(**changes))
    (kind,) = inputs.model.layer_kinds
    total: dict[str, float] = {}
    for each in layer_tensor_exchanges(plan, inputs, kind, layer_time(plan, inputs, kind)):
        for message in each.messages:
            taken = float(each.times * message.times * message.seconds)
            total[message.operation] = total.get(message.operation, 0.0) + taken
    return total


@pytest.mark.parametrize(
    ("copies", "batch", "gathers", "scatters"),
    [("none", 2, 0, 0), ("batched", 1, 0, 4), ("batched", 2, 4, 4), ("all", 1, 4, 4)],
)
def test_every_collective_takes_a_copy_of_its_buffer_more(copies: str, batch: int, gathers: int, scatters: int) -> None:
    """Two all-gathers and two reduce-scatters in each pass, of b s h elements that are read and written."""
    inputs = question(llama_8b(), "1x8:h100", "torchtitan", sequence_length=8192, global_batch=16)
    plan = Plan(tp=8, sp=True, micro_batch=batch)
    plain = seconds(inputs, plan, copies_sequences="none")
    copied = seconds(inputs, plan, copies_sequences=copies)
    copy = float(elementwise_time(2 * 2 * batch * 8192 * 4096, inputs.cluster.accelerator))
    assert copied["all_gather"] - plain["all_gather"] == pytest.approx(gathers * copy)
    assert copied["reduce_scatter"] - plain["reduce_scatter"] == pytest.approx(scatters * copy)


def test_a_collective_that_is_fused_with_its_product_is_not_copied() -> None:
    """Asynchronous tensor parallelism fuses all but the sums of several input gradients."""
    inputs = question(llama_8b(), "1x8:h100", "torchtitan@0.1.0", sequence_length=8192, global_batch=16)
    overlap = inputs.runtime.overlap.replace(tensor_parallel=0.5)
    plan = Plan(tp=8, sp=True, micro_batch=2)
    plain, fused = (seconds(inputs, plan, overlap=overlap, copies_sequences=copies) for copies in ("none", "all"))
    assert fused["all_gather"] == plain["all_gather"]
    copy = float(elementwise_time(2 * 2 * 2 * 8192 * 4096, inputs.cluster.accelerator))
    assert fused["reduce_scatter"] - plain["reduce_scatter"] == pytest.approx(2 * copy)


def test_only_releases_from_before_december_2025_copy_a_single_sequence() -> None:
    inputs = {
        name: question(llama_8b(), "1x8:h100", name) for name in ("torchtitan@0.1.0", "torchtitan@0.2.2", "torchtitan")
    }
    assert {name: each.runtime.communication.copies_sequences for name, each in inputs.items()} == {
        "torchtitan@0.1.0": "all",
        "torchtitan@0.2.2": "all",
        "torchtitan": "batched",
    }

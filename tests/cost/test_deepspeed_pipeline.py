"""The pipeline engine of DeepSpeed: messages in parts, and what a stage keeps of them."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.cost.comms.exchange import communicator
from meshwright.cost.comms.pipeline import message_bytes, message_parts, pipeline_exchanges
from meshwright.cost.memory.components import communicator_bytes
from meshwright.cost.messages import step_messages
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from strategies import llama_8b, mixture, question

WHOLE = 2 * 8192 * 4096
"""Bytes of one activation of 8B, one sequence."""
RUNTIMES = ("deepspeed", "megatron-deepspeed")


def _inputs(runtime: str = "megatron-deepspeed", **job: object) -> Inputs:
    return question(llama_8b(), "2x8:h100", runtime, precision="bf16", sequence_length=8192, global_batch=32, **job)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_tensor_parallel_ranks_send_a_part_each(runtime: str) -> None:
    inputs = _inputs(runtime)
    for tp in (1, 2, 4):
        assert float(message_bytes(Plan(tp=tp, pp=4), inputs)) == WHOLE / tp


def test_sequence_parallelism_and_experts_send_what_they_have() -> None:
    """Each rank has another part of the sequence; models with experts pass on several tensors."""
    assert int(message_parts(Plan(tp=4, sp=True, pp=4), _inputs())) == 1
    assert float(message_bytes(Plan(tp=4, sp=True, pp=4), _inputs())) == WHOLE / 4
    assert int(message_parts(Plan(tp=4, pp=2), question(mixture(), "2x8:h100", "megatron-deepspeed"))) == 1


@pytest.mark.parametrize(("stages", "gathers"), [(2, 2), (4, 3)])
def test_a_stage_gathers_what_arrives_and_its_own_output(stages: int, gathers: int) -> None:
    """A middle stage its input, the gradient and its output; the first of two has no input to gather."""
    inputs, plan = _inputs(), Plan(tp=2, pp=stages, dp=8 // stages, num_microbatches=16)
    steady, fill, _ = pipeline_exchanges(plan, inputs, 0.0)
    gathered = steady.messages[-1]
    assert (gathered.axis, gathered.operation, float(gathered.bytes)) == ("tp", "all_gather", WHOLE)
    assert float(gathered.times) == gathers * 16
    assert float(fill.times * fill.messages[-1].times) == 3 * (stages - 1)
    one = communicator("tp", plan, inputs).message("all_gather", "", WHOLE).seconds
    np.testing.assert_allclose(gathered.seconds, one)


def test_gathers_stand_among_the_messages_of_the_step() -> None:
    inputs, plan = _inputs(), Plan(tp=2, pp=4, dp=2, num_microbatches=16)
    rows = step_messages(estimate_plans(Plans.of([plan]), inputs, keep_all_stages=True))
    between = [row for row in rows if row.part == "pp" and row.unit == "stage"]
    assert {(row.axis, row.operation) for row in between} == {("pp", "send"), ("tp", "all_gather")}
    assert sum(row.times for row in between if row.axis == "tp") == 3 * 16 + 3 * 3


def test_a_stage_keeps_what_it_received_and_sent() -> None:
    """Each output of the p micro-batches in flight on the first stage; of scattered ones its part, and two whole."""
    inputs = _inputs(gradients="fp32")
    for tp, kept in ((1, 4), (2, 4 / 2 + 2)):
        without = inputs.replace(runtime=inputs.runtime.replace(keeps_messages=False))
        plan = Plan(tp=tp, pp=4, dp=4 // tp, num_microbatches=8, recompute=Recompute.FULL)
        more, less = (
            estimate_plans(Plans.of([plan]), each, keep_all_stages=True).memory.temporaries
            for each in (inputs, without)
        )
        assert float(more[0] - less[0]) == pytest.approx(kept * WHOLE)


def test_gradients_are_summed_in_2_bytes_and_tied_ones_in_4() -> None:
    inputs, plan = _inputs(), Plan(tp=2, pp=2, dp=4, zero=1, num_microbatches=8)
    rows = step_messages(estimate_plans(Plans.of([plan]), inputs, keep_all_stages=True))
    asked = _inputs(gradients="fp32")
    others = step_messages(estimate_plans(Plans.of([plan]), asked, keep_all_stages=True))
    half, full = (
        sum(row.bytes * row.times for row in each if row.operation == "all_reduce" and row.axis == "dp")
        for each in (rows, others)
    )
    assert full == pytest.approx(2 * half)


def test_the_engine_has_communicators_of_its_own() -> None:
    """One of the stages, and one of the tensor-parallel ranks where they gather messages."""
    inputs = _inputs()
    alone = inputs.replace(runtime=inputs.runtime.replace(own_groups=False))
    for plan, more in ((Plan(tp=2, pp=4, dp=2), 2), (Plan(tp=1, pp=4, dp=4), 1), (Plan(tp=2, dp=8), 0)):
        added = communicator_bytes(plan, inputs) - communicator_bytes(plan, alone)
        assert float(added) == more * inputs.runtime.memory.communicator_bytes


def test_one_flat_copy_does_not_fit_in_what_activations_leave() -> None:
    """The allocator holds both: activations at their peak, and the copy in which gradients are summed."""
    inputs = _inputs()
    plan = Plan(tp=2, pp=2, dp=4, zero=1, num_microbatches=8)
    (priced,) = estimate_each([plan], inputs)
    (asked,) = estimate_each([plan], _inputs(gradients="fp32"))
    assert priced.memory.reserved - asked.memory.reserved > 1e9

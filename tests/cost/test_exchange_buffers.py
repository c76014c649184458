"""The buffers of a fused dispatcher: their sizes as its sources allocate them, and what verdicts make of them."""

from __future__ import annotations

import pytest

from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.exchange_buffers import exchange_buffer_bytes
from meshwright.cost.memory.fit import Bounds
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import read_inputs

HIDDEN, EXPERTS, SCALES = 2048, 128, 2048 // 128
INSIDE = 2 * HIDDEN + 4 * EXPERTS + 4 * SCALES
"""Bytes of one token of Qwen3 30B in a buffer of one NVLink domain."""


def _inputs(*behaviours: str, model: str = "qwen3-30b-a3b", cluster: str = "2x8:h100") -> Inputs:
    job = Job(sequence_length=4096, global_batch=64, expert_imbalance=1.0)
    inputs = read_inputs(model, cluster, job, "megatron-bridge")
    return inputs.replace(runtime=with_behaviours(inputs.runtime, behaviours))


def _bytes(plan: Plan, *behaviours: str) -> float:
    return float(exchange_buffer_bytes(plan, _inputs(*behaviours)))


@pytest.mark.parametrize(("plan", "tokens"), [
    (Plan(dp=16, ep=8, num_microbatches=4), 4096 * 8),
    (Plan(dp=16, ep=8, micro_batch=2, num_microbatches=2), 2 * 4096 * 8),
    (Plan(dp=16, ep=4, num_microbatches=4), 4096 * 4),
    (Plan(tp=2, sp=True, dp=8, ep=8, num_microbatches=8), 2048 * 8),
    (Plan(tp=2, sp=True, dp=8, ep=4, etp=2, num_microbatches=8), 2048 * 8),
    (Plan(dp=16, ep=1, num_microbatches=4), 0),
])  # fmt: skip
def test_they_have_room_for_all_tokens_of_all_ranks_on_one_of_them(plan: Plan, tokens: int) -> None:
    assert _bytes(plan) == tokens * INSIDE


def test_over_two_domains_what_the_other_one_sends_and_what_is_sent_to_it_come_on_top() -> None:
    """rdma_inter_node_group_* of dispatch and combine, rdma_intra_node_red_* and attn_input_* of internode_doca.cu."""
    token, scores, scales = 2 * HIDDEN, 4 * EXPERTS, 4 * SCALES
    inside = 16 * (token + scores / 2 + scales)
    received = (token + scores / 2 + scales) + (token + scores / 2)
    reduced, sent = token + scores / 2, token + scores + scales
    assert _bytes(Plan(dp=16, ep=16, num_microbatches=4)) == 4096 * (inside + received + reduced + sent)


@pytest.mark.parametrize("behaviour", ["dispatcher=all_to_all", "dispatcher=all_gather", "fused_kernels=deep_ep"])
def test_other_dispatchers_have_none(behaviour: str) -> None:
    assert _bytes(Plan(dp=16, ep=8, num_microbatches=4), behaviour) == 0


def _estimate(plan: Plan, *behaviours: str) -> Estimate:
    return estimate_each([plan], _inputs(*behaviours))[0]


def test_the_device_holds_them_beside_what_the_allocator_holds_and_no_run_holds_less() -> None:
    plan, inputs = Plan(dp=16, ep=8, num_microbatches=4), _inputs()
    with_them, without = _estimate(plan).memory, _estimate(plan, "fused_kernels=deep_ep").memory
    assert with_them.reserved == without.reserved
    assert with_them.device - without.device == with_them.exchange_buffers == 4096 * 8 * INSIDE
    limits, others = Bounds.of(with_them, inputs), Bounds.of(without, inputs)
    assert [float(each) - float(other) for each, other in zip(limits, others, strict=True)] == pytest.approx(
        [with_them.exchange_buffers] * 3
    )


def test_models_without_experts_have_none() -> None:
    inputs = _inputs(model="llama-3.1-8b")
    assert float(exchange_buffer_bytes(Plan(dp=16, num_microbatches=4), inputs)) == 0

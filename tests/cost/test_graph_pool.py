"""The pool of CUDA graphs: what it holds beside the tensors that are alive, and what verdicts make of it."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import read_inputs

ROWS = 8 * 2 * 4096 * 2048 * 2
"""Bytes of the rows that one layer of Qwen3 30B sends for two sequences of 4096 tokens: 8 experts, 2048 wide."""
QWEN = Plan(ep=8, dp=64, zero=1, micro_batch=2, num_microbatches=16)


def _qwen(
    graphs: str,
    *changes: str,
    runtime: str = "megatron-bridge@25.11",
    precision: str = "bf16",
    cluster: str = "8x8:h200",
) -> Inputs:
    job = Job(sequence_length=4096, global_batch=2048, precision=precision, expert_imbalance=1.0)
    inputs = read_inputs("qwen3-30b-a3b", cluster, job, runtime)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, [f"host.graphs={graphs}", *changes]))


def _estimate(inputs: Inputs, plan: Plan = QWEN, **changes: Any) -> Estimate:
    return estimate_each([plan.replace(**changes)], inputs)[0]


@pytest.mark.parametrize(("graphs", "dispatcher", "layers"), [
    ("none", "all_to_all", 0),
    ("router", "all_to_all", 48 + 1),
    ("parts", "all_to_all", 48 + 1),
    ("router", "fused", 0),
])  # fmt: skip
def test_the_rows_that_graphs_of_layers_hand_to_an_all_to_all_stay(graphs: str, dispatcher: str, layers: int) -> None:
    """Of every layer in flight, and the gradient of those of one. One run's whole pool held 14.77 GiB, of which these
    are 12."""
    memory = _estimate(_qwen(graphs, f"dispatcher={dispatcher}")).memory
    assert memory.cuda_graphs == layers * ROWS


def test_they_are_counted_of_every_micro_batch_in_flight() -> None:
    inputs = _qwen("router")
    first, last = _estimate(inputs, pp=2, dp=32, num_microbatches=32).stages
    assert first.memory.cuda_graphs == (2 * 24 + 1) * ROWS
    assert last.memory.cuda_graphs == (24 + 1) * ROWS


def test_the_allocator_does_not_count_them_as_allocated_and_cannot_give_them_back() -> None:
    without, graphed = _estimate(_qwen("none")), _estimate(_qwen("router"))
    assert graphed.memory.allocated == without.memory.allocated
    pool = graphed.memory.cuda_graphs
    for name in ("least_bytes", "expected_bytes", "most_bytes"):
        assert getattr(graphed.fit, name) - getattr(without.fit, name) == pytest.approx(pool, rel=1e-9)


def test_experts_have_the_room_that_a_graph_of_the_whole_step_is_made_for() -> None:
    """Bytes kept grow with the room, as long as no more rows arrive; before the release that has it, they do not."""
    graph, new = "iteration", {"runtime": "megatron-bridge", "precision": "mxfp8", "cluster": "8x8:b200"}
    even, packed, wide = (
        _estimate(_qwen(graph, f"stashed_expert_rows={room}", **new)).memory.activations for room in ("1", "1.2", "1.4")
    )
    assert 0 < packed - even == pytest.approx(wide - packed)
    assert packed == _estimate(_qwen(graph, **new)).memory.activations
    assert even == _estimate(_qwen("none", **new)).memory.activations
    old = [_estimate(_qwen(graphs, runtime="megatron-bridge@26.04")).memory.activations for graphs in ("none", graph)]
    assert old[0] == old[1]


def test_rows_in_bf16_are_not_packed() -> None:
    """They are kept at the size of the buffers that they came in, 1.5 times an even share, whatever is packed else."""
    kept = [
        _estimate(_qwen("iteration", *changes, runtime="megatron-bridge")).memory.activations
        for changes in ((), ("stashed_expert_rows=1",), ("graphed_expert_rows=1.2",))
    ]
    assert kept[0] == kept[1] > kept[2]


def test_beside_a_graph_of_the_whole_step_the_optimizer_needs_memory_of_its_own() -> None:
    none, whole = (
        _estimate(_qwen(graphs, "gradient_bytes=2", runtime="megatron-core")).memory for graphs in ("none", "iteration")
    )
    assert none.cuda_graphs == 0 < whole.cuda_graphs < whole.optimizer_states
    assert whole.device - none.device == pytest.approx(whole.cuda_graphs)

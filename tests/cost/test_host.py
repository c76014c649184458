"""What the host needs to issue a layer, and where kernels wait for it."""

from __future__ import annotations

import pytest

from meshwright.cost.compute.host import issue_time
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.read_model import read_model
from strategies import question


def _qwen(*changes: str, precision: str = "mxfp8") -> Inputs:
    inputs = question(read_model("qwen3-30b-a3b"), "1x8:b200", "megatron-bridge", precision=precision, global_batch=512)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, changes))


def test_every_expert_of_a_rank_adds_kernels_to_issue() -> None:
    """16 experts a rank in mxfp8: 2.06 + 16 x 0.089 ms forward and 2.98 + 16 x 0.133 backward."""
    inputs = _qwen()
    (kind,) = inputs.model.layer_kinds
    time = issue_time(Plan(dp=8, ep=8), inputs, kind)
    assert [float(seconds) for seconds in time] == pytest.approx([3.484e-3, 5.108e-3])
    half = issue_time(Plan(dp=8, ep=8), _qwen(precision="bf16"), kind)
    assert [float(seconds) for seconds in half] == pytest.approx([2.412e-3, 3.684e-3])
    again = issue_time(Plan(dp=8, ep=8, recompute="full"), inputs, kind)
    assert float(again.backward) == pytest.approx(float(time.forward + time.backward))
    fused = issue_time(Plan(dp=8, ep=8), _qwen("expert_products=fused"), kind)
    assert [float(seconds) for seconds in fused] == [2.06e-3, 2.98e-3]


def test_graphs_take_parts_or_all_of_it_from_the_host() -> None:
    (kind,) = _qwen().model.layer_kinds
    times = [issue_time(Plan(dp=8, ep=8), _qwen(f"host.graphs={graphs}"), kind) for graphs in ("parts", "iteration")]
    assert [float(seconds) for seconds in times[0]] == pytest.approx([2.984e-3, 4.608e-3])
    assert tuple(times[1]) == (0, 0)


def test_small_micro_batches_of_many_experts_wait_for_the_host() -> None:
    """As measured on eight B200: micro-batch 1 took 28 s, and 4 took 9.8 s."""
    plans = [Plan(dp=8, ep=8, micro_batch=size, num_microbatches=64 // size) for size in (1, 4)]
    single, four = estimate_each(plans, _qwen())
    assert single.time.host_s > 0.3 * single.step_time_s
    assert four.time.host_s < 0.1 * four.step_time_s
    assert single.step_time_s > 2 * four.step_time_s
    assert single.step_time_s == pytest.approx(28.2, rel=0.15)

"""What adds the gradients of micro-batches up, where no product does."""

from __future__ import annotations

import pytest

from meshwright.cost.comms.sharded import gather_copies_time, gathers_per_step
from meshwright.cost.compute.accumulation import gradient_sum_bytes
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.ends import head_time
from meshwright.cost.compute.experts import expert_time
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.slowdown import slowdown
from meshwright.cost.memory.dummy_gradients import dummy_gradient_bytes
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs
from strategies import llama_8b, mixture, question, split_stages

HIDDEN, FFN, KEYS, VOCABULARY = 4096, 14336, 1024, 128256


def accumulating(inputs: Inputs, way: str) -> Inputs:
    """With weight-gradient products that are as fast either way."""
    changes = {"gradient_accumulation": way, "weight_gradient_slowdown": 1.0}
    return inputs.replace(runtime=inputs.runtime.replace(**changes))


LLAMA = question(llama_8b(), "1x8:h100", precision="bf16", gradients="fp32")
FUSED, UNFUSED = accumulating(LLAMA, "fused"), accumulating(LLAMA, "unfused")


def test_a_layer_reads_each_gradient_and_reads_and_writes_its_sum() -> None:
    weights = HIDDEN * (HIDDEN + 2 * KEYS) + HIDDEN * HIDDEN + 3 * HIDDEN * FFN
    fused, unfused = (layer_time(Plan(tp=2), of, of.model.layer_kinds[0]).backward for of in (FUSED, UNFUSED))
    added = elementwise_time((2 + 4 + 4) * weights / 2, LLAMA.cluster.accelerator) * slowdown(LLAMA)
    assert float(unfused.total - fused.total) == pytest.approx(float(added))
    assert float(unfused.gemm) == float(fused.gemm)


def test_so_does_the_head() -> None:
    fused, unfused = (head_time(Plan(), of).backward for of in (FUSED, UNFUSED))
    added = elementwise_time(10 * VOCABULARY * HIDDEN, LLAMA.cluster.accelerator) * slowdown(LLAMA)
    assert float(unfused.total - fused.total) == pytest.approx(float(added), rel=1e-6)


def test_and_every_expert_of_a_rank() -> None:
    inputs = question(mixture(), "1x8:h100", precision="bf16", gradients="half")
    (kind,) = inputs.model.layer_kinds
    block = kind.feed_forward
    weights = 2 * 3 * block.ffn_size * inputs.model.hidden_size  # type: ignore[union-attr]
    none, unfused = (
        expert_time(Plan(dp=8, ep=block.count // 2), accumulating(inputs, way), kind).backward.experts.moved_bytes  # type: ignore[union-attr]
        for way in ("autograd", "unfused")
    )
    assert float(unfused - none) == pytest.approx((2 + 2 + 2) * weights)


def test_deepspeed_copies_in_bf16_alone() -> None:
    bf16, fp16 = (question(llama_8b(), "1x8:a100", "megatron-deepspeed", precision=of) for of in ("bf16", "fp16"))
    assert [gradient_sum_bytes(each) for each in (bf16, fp16)] == [2 + 6 + 6 + 12, 6]


def test_a_table_says_what_each_plan_says_whatever_zero_shards() -> None:
    plans = [Plan(dp=8, zero=zero, num_microbatches=4) for zero in (0, 1, 2, 3)]
    table = estimate_plans(Plans.of(plans), UNFUSED).step_time_s
    each = [float(one.time.total) for one in estimate_each(plans, UNFUSED)]
    assert table.tolist() == pytest.approx(each)
    fused = estimate_plans(Plans.of(plans), FUSED).step_time_s
    assert ((table - fused)[:2] > 0).all()
    assert (table - fused)[2:].tolist() == [0.0, 0.0]


def test_scattered_gradients_are_copied_into_their_bucket() -> None:
    plan = Plan(dp=8, zero=2, num_microbatches=4)
    times = gathers_per_step(plan, LLAMA, in_flight=1, stage=0)
    copied = elementwise_time(4 * (2 + 4) * 1e9, LLAMA.cluster.accelerator) * slowdown(LLAMA)
    assert float(gather_copies_time(LLAMA, 1e9, 1e9, 0.0, times)) == pytest.approx(float(copied))


def test_a_pipeline_that_defers_reduction_adds_to_whole_gradients() -> None:
    inputs = question(llama_8b(), "1x8:h100", "torchtitan")
    whole, deferred = (Plan(dp=8 // pp, pp=pp, zero=2, num_microbatches=4) for pp in (1, 2))
    counts = [gathers_per_step(plan, inputs, in_flight=2, stage=0) for plan in (whole, deferred)]
    assert [(int(each.scatters), int(each.sums)) for each in counts] == [(4, 0), (1, 4)]
    without = counts[1]._replace(sums=0)
    seconds = [float(gather_copies_time(inputs, 1e9, 1e9, 0.0, each)) for each in (counts[1], without)]
    added = elementwise_time(4 * (2 + 4 + 4) * 1e9, inputs.cluster.accelerator) * slowdown(inputs)
    assert seconds[0] - seconds[1] == pytest.approx(float(added))


def test_autograd_is_handed_no_dummies_where_a_kernel_adds_gradients() -> None:
    plans = Plans.of([Plan(tp=2)])
    sizes = [dummy_gradient_bytes(plans, split_stages(of, plans, keep_all=True), of).item() for of in (FUSED, UNFUSED)]
    assert sizes[0] > sizes[1] == 0.0

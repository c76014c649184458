"""What PyTorch's experts run beside their products: rows that are taken by index, and a router in fp32."""

from __future__ import annotations

import pytest

from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.experts import expert_shard, expert_time
from meshwright.cost.routing import busiest_expert_rows
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import read_runtime
from strategies import question


@pytest.mark.parametrize("runtime", ["pytorch-fsdp1", "accelerate", "torchtitan"])
def test_the_backward_of_indexing_takes_what_was_measured(runtime: str) -> None:
    """196,608 rows of 2048 on a B200, eager: 1.848 ms (pytorch/ao pull request 4623)."""
    kernels = with_behaviours(read_runtime(runtime), ["compiled=false"]).kernels
    moved = 196_608 * 2048 * (kernels.permuted_rows.backward + kernels.indexed_rows)
    assert elementwise_time(moved, read_accelerator("b200")) == pytest.approx(1.848e-3, rel=0.03)


def permuted_bytes(ep: int, *changes: str, release: str = "torchtitan") -> tuple[float, float]:
    """Moved to permute and to unpermute one element of the routed rows, both passes together."""
    inputs = question(read_model("qwen3-30b-a3b"), "1x8:h100", release)
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, changes))
    plan, kind = Plan(dp=8, ep=ep), inputs.model.layer_kinds[0]
    time, elements = expert_time(plan, inputs, kind), inputs.model.hidden_size * expert_shard(plan, inputs, kind).rows
    passes = (time.forward, time.backward)
    permute, unpermute = (
        sum(float(getattr(each, part).moved_bytes) for each in passes) / elements for part in ("permute", "unpermute")
    )
    return permute, unpermute


@pytest.mark.parametrize(("ep", "times"), [(1, 1), (8, 2)])
def test_compiled_rows_add_their_gradients_without_sorting(ep: int, times: int) -> None:
    """torch.compile adds them atomically from Hopper on, once more where rows arrive; DeepEP's kernels do always."""
    compiled, eager = permuted_bytes(ep), permuted_bytes(ep, "compiled=false")
    assert eager[0] - compiled[0] == pytest.approx(times * (25 - 8))
    assert eager[1] - compiled[1] == 15 + 26
    assert permuted_bytes(8, "dispatcher=fused") == permuted_bytes(8, "dispatcher=fused", "compiled=false")


@pytest.mark.parametrize("release", ["torchtitan", "torchtitan@0.2.2"])
def test_deep_ep_of_torchtitan_indexes_rows_once(release: str) -> None:
    """torchtitan, distributed/deepep/deepep.py: index_select and scatter_add, one of each a pass."""
    runtime = read_runtime(release)
    exchanged = with_behaviours(runtime, ["dispatcher=all_to_all"])
    assert exchanged == runtime.replace(replaced=exchanged.replaced)
    for moved, fused in zip(
        permuted_bytes(8, release=release), permuted_bytes(8, "dispatcher=fused", release=release), strict=True
    ):
        assert moved > fused


@pytest.mark.parametrize(("runtime", "again"), [("torchtitan", False), ("megatron-core", True)])
def test_rows_that_never_left_are_sorted_again_where_the_code_asks_only_for_several_experts(
    runtime: str, again: bool
) -> None:
    inputs = question(read_model("qwen3-30b-a3b"), "1x8:h100", runtime)
    kind, kernels = inputs.model.layer_kinds[0], inputs.runtime.kernels
    for ep, received in ((1, again), (8, True)):
        plan = Plan(dp=8, ep=ep)
        shard = expert_shard(plan, inputs, kind)
        elements = inputs.model.hidden_size * shard.rows
        moved = kernels.permuted_rows.forward + 0.5 * received * kernels.received_rows.forward
        assert expert_time(plan, inputs, kind).forward.permute.moved_bytes == pytest.approx(moved * elements)


def test_a_router_in_fp32_takes_what_the_peak_without_tensor_cores_allows() -> None:
    """torchtitan's gate under autocast to float32 since pull request 2389."""
    model, plan = read_model("qwen3-30b-a3b"), Plan(dp=8, micro_batch=4)
    today, before = (question(model, "1x8:h100", name) for name in ("torchtitan", "torchtitan@0.2.2"))
    kind = model.layer_kinds[0]
    single, half = (float(expert_time(plan, inputs, kind).forward.router.gemm) for inputs in (today, before))
    rows = float(expert_shard(plan, today, kind).tokens)
    least = 2 * rows * 128 * 2048 / today.cluster.accelerator.peak_flops["fp32"]
    assert least < single < 2 * least
    assert single > 4 * half


def bias_gradients_s(model: str, runtime: str, imbalance: float | None = None) -> float:
    """Seconds of an expert layer's backward beside its products and bytes, which host and kernels do not explain."""
    inputs = question(read_model(model), "1x8:h200", runtime)
    inputs = inputs.replace(job=inputs.job.replace(expert_imbalance=imbalance))
    return float(expert_time(Plan(dp=8, micro_batch=4), inputs, inputs.model.layer_kinds[0]).backward.experts.fixed_s)


def test_rows_that_take_the_same_bias_by_index_add_their_gradients_one_by_one() -> None:
    """transformers takes biases by index, torchtitan repeats them; models without them have nothing to add."""
    inputs = question(read_model("gpt-oss-20b"), "1x8:h200", "accelerate", expert_imbalance=None)
    tokens = 4 * inputs.job.sequence_length
    rows = busiest_expert_rows(Plan(dp=8, micro_batch=4), inputs, inputs.model.layer_kinds[0], tokens)
    assert tokens * 4 / 32 < rows < 2 * tokens * 4 / 32
    assert bias_gradients_s("gpt-oss-20b", "accelerate") == pytest.approx(2 * 0.98e-6 * float(rows))
    assert bias_gradients_s("gpt-oss-20b", "torchtitan") == bias_gradients_s("qwen3-30b-a3b", "accelerate") == 0


def test_eager_torchtitan_adds_the_gradients_of_repeated_biases_atomically() -> None:
    """As long for every row, so that it matters little which expert they belong to."""
    inputs = question(read_model("gpt-oss-20b"), "1x8:h200", "torchtitan")
    runtime = with_behaviours(inputs.runtime, ["compiled=false"])
    plan, kind = Plan(dp=8, micro_batch=4), inputs.model.layer_kinds[0]
    seconds = [
        float(expert_time(plan, each, kind).backward.experts.fixed_s)
        for each in (inputs.replace(runtime=runtime), inputs)
    ]
    assert seconds[0] == pytest.approx(2 * 0.108e-6 * 4 * 4 * inputs.job.sequence_length)
    assert seconds[1] == 0


def test_no_expert_gets_more_rows_than_there_are_tokens() -> None:
    """Each token visits an expert once, 4 of 32 in all: the busiest has at most 8 times the mean."""
    even, most = (bias_gradients_s("gpt-oss-20b", "accelerate", imbalance) for imbalance in (1.0, 30.0))
    assert most == pytest.approx(8 * even)

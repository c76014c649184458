"""What torchtitan's selective recomputation computes again of a layer."""

from __future__ import annotations

import pytest

from meshwright.cost.comms.experts import expert_exchanges
from meshwright.cost.compute.experts import expert_shard
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.linear import linear_time
from meshwright.cost.compute.slowdown import slowdown
from meshwright.cost.memory.activations import layer_memory
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from strategies import llama_8b, mixture, of_torchtitan_0_1, question

PLAN = Plan(dp=8, zero=3, recompute="selective")


@pytest.mark.parametrize("fused", [True, False])
def test_every_second_product_runs_again_and_attention_does_not(fused: bool) -> None:
    """Output and up of five products, counted in the backward graph of a compiled block (12 products for 10), and of
    seven keys too (17 for 14).
    """
    inputs = question(llama_8b(), "1x8:h100", "torchtitan", sequence_length=4096, global_batch=8)
    inputs = inputs if fused else of_torchtitan_0_1(inputs)
    layer = layer_time(PLAN, inputs, inputs.model.layer_kinds[0])
    sizes = [(4096, 4096), (14336, 4096)] if fused else [(1024, 4096), (4096, 4096), (14336, 4096)]
    again = sum(linear_time(4096, outputs, features, inputs).forward for outputs, features in sizes)
    assert layer.recompute.gemm == pytest.approx(again * slowdown(inputs))
    assert layer.recompute.attention == 0
    assert 0 < layer.recompute.elementwise < layer.forward.elementwise


@pytest.mark.parametrize("recompute", ["selective", "full"])
@pytest.mark.parametrize(("runtime", "again"), [("torchtitan", False), ("torchtitan@0.2.2", True)])
def test_rows_of_experts_are_summed_again_where_no_compiler_sees_that_nothing_reads_it(
    recompute: str, runtime: str, again: bool
) -> None:
    """Counted in the graphs of a block with torchtitan 0.3.0's SelectiveAC and FullAC under PyTorch 2.13: its
    scatter_add once forward and never backward, its products again.
    """
    inputs = question(mixture(), "1x8:h100", runtime, sequence_length=4096, global_batch=8)
    layer = layer_time(Plan(dp=8, zero=3, recompute=recompute), inputs, inputs.model.layer_kinds[0])
    forward, recomputed = (parts.routed for parts in (layer.forward_parts, layer.recompute_parts))
    assert recomputed.unpermute.moved_bytes == again * forward.unpermute.moved_bytes
    assert recomputed.experts == forward.experts
    assert recomputed.permute == forward.permute


def test_grouped_products_of_experts_run_again() -> None:
    inputs = question(mixture(), "1x8:h100", "torchtitan", sequence_length=4096, global_batch=8)
    layer = layer_time(PLAN, inputs, inputs.model.layer_kinds[0])
    assert 0.5 * layer.forward.gemm < layer.recompute.gemm < layer.forward.gemm


@pytest.mark.parametrize(
    ("runtime", "qk_norm", "again"),
    [
        ("torchtitan", "head", False),
        ("torchtitan@0.2.2", "head", True),
        ("torchtitan@0.2.2", "none", False),
        ("megatron-core", "head", False),
    ],
)
def test_rows_of_experts_are_exchanged_again_where_they_are_not_kept(runtime: str, qk_norm: str, again: bool) -> None:
    """torchtitan 0.2.2's list of Qwen3 has no all_to_all_single, as those of its other models have; since pull request
    2357 all have one list.
    """
    plain = question(mixture(), "1x8:h100", runtime, sequence_length=4096, global_batch=8)
    kind = plain.model.layer_kinds[0]
    kind = kind.replace(attention=kind.attention.replace(qk_norm=qk_norm))
    inputs = plain.replace(model=plain.model.replace(layer_kinds=(kind,)))
    plan = Plan(dp=8, ep=8, zero=3, recompute="selective")
    exchanges = expert_exchanges(plan, inputs, kind, layer_time(plan, inputs, kind))
    assert [float(each.times) for each in exchanges if each.phase == "recompute"] == [again]
    if runtime == "megatron-core":
        return
    rows, hidden = float(expert_shard(plan, inputs, kind).rows), inputs.model.hidden_size
    changed = inputs.replace(runtime=inputs.runtime.replace(repeats_exchanges=() if again else ("qk_norm", "sinks")))
    saved = [float(layer_memory(plan, each, kind).saved) for each in (inputs, changed)]
    assert abs(saved[0] - saved[1]) == (qk_norm != "none") * 2 * hidden * 2 * rows


@pytest.mark.parametrize(
    ("runtime", "compiled", "kept"),
    [("torchtitan", "true", True), ("torchtitan@0.2.2", "false", True), ("torchtitan@0.2.2", "true", False)],
)
def test_no_product_is_kept_of_a_layer_of_experts_that_is_compiled_in_parts(
    runtime: str, compiled: str, kept: bool
) -> None:
    """Counted with PyTorch 2.13 on a CPU: of attention compiled by itself in a checkpointed layer, the policy sees the
    attention kernel and aten.mm.out.
    """
    asked = question(mixture(), "1x8:h100", runtime, sequence_length=4096, global_batch=8)
    inputs = asked.replace(runtime=with_behaviours(asked.runtime, [f"compiled={compiled}"]))
    (kind,) = inputs.model.layer_kinds
    layer = layer_time(PLAN, inputs, kind)
    around, again = layer.forward_parts.attention, layer.recompute_parts.attention
    assert (float(again.work.gemm) < 0.99 * float(around.work.gemm)) == kept
    assert again.work.attention == 0
    visible = inputs.replace(runtime=inputs.runtime.replace(hides_products_beside_experts=False))
    saved = [float(layer_memory(PLAN, each, kind).saved) for each in (visible, inputs)]
    assert (saved[0] == saved[1]) == kept


def test_attention_runs_again_where_its_output_is_not_kept() -> None:
    """torchtitan of May to November 2025 on Blackwell: cuDNN's attention was none of the operators that it kept."""
    inputs = question(llama_8b(), "1x8:h100", "torchtitan", sequence_length=4096, global_batch=8)
    changed = inputs.runtime.replace(selective_recompute="every_second_product_and_attention")
    again = inputs.replace(runtime=changed)
    kind = inputs.model.layer_kinds[0]
    kept, repeated = (layer_time(PLAN, each, kind) for each in (inputs, again))
    assert repeated.recompute.attention == kept.forward.attention
    assert repeated.recompute.gemm == kept.recompute.gemm
    saved = [float(layer_memory(PLAN, each, kind).saved) for each in (inputs, again)]
    assert saved[0] - saved[1] == 4096 * (2 * 4096 + 4 * 32)


@pytest.mark.parametrize(
    ("runtime", "again", "kept"),
    [("torchtitan", [], 4096), ("torchtitan@0.2.2", [4096, 1024, 1024, 4096], -(4096 + 1024))],
)
def test_a_product_with_a_bias_is_not_among_those_of_which_every_second_runs_again(
    runtime: str, again: list[int], kept: int
) -> None:
    """Queries, keys, values and output of a Llama with attention_bias are aten.addmm, which torchtitan saves since its
    pull request 2357 and computed again before. kept: outputs a token more than without biases.
    """
    plain = question(llama_8b(), "1x8:h100", runtime, sequence_length=4096, global_batch=8)
    attention = plain.model.layer_kinds[0].attention.replace(qkv_bias=True, output_bias=True)
    kind = plain.model.layer_kinds[0].replace(attention=attention)
    inputs = plain.replace(model=plain.model.replace(layer_kinds=(kind,)))
    expected = sum(linear_time(4096, outputs, 4096, inputs).forward for outputs in [*again, 14336])
    assert layer_time(PLAN, inputs, kind).recompute.gemm == pytest.approx(expected * slowdown(inputs))
    saved = [float(layer_memory(PLAN, each, each.model.layer_kinds[0]).saved) for each in (inputs, plain)]
    assert saved[0] - saved[1] == 2 * 4096 * kept

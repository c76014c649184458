"""What the host needs to issue a layer, and where kernels wait for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshwright.cost.compute.host import issue_time
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.step import estimate_each
from meshwright.cost.unit import layer_unit_time, shape_fields
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import read_runtime
from meshwright.validation.rows.reading import read_case
from meshwright.validation.rows.table import read_rows
from strategies import question


def _qwen(
    *changes: str, precision: str = "mxfp8", runtime: str = "megatron-bridge@25.11", cluster: str = "1x8:b200"
) -> Inputs:
    inputs = question(read_model("qwen3-30b-a3b"), cluster, runtime, precision=precision, global_batch=512)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, changes))


def test_every_expert_of_a_rank_adds_kernels_to_issue() -> None:
    """16 experts a rank in mxfp8: 8 kernels of 11.1 us for each expert forward and 12 backward."""
    inputs = _qwen()
    (kind,) = inputs.model.layer_kinds
    time = issue_time(Plan(dp=8, ep=8), inputs, kind)
    assert [float(seconds) for seconds in time] == pytest.approx(
        [4.1e-3 + 16 * 8 * 11.1e-6, 2.42e-3 + 16 * 12 * 11.1e-6, 16 * 8 * 11.1e-6]
    )
    half = issue_time(Plan(dp=8, ep=8), _qwen(precision="bf16"), kind)
    assert [float(seconds) for seconds in half] == pytest.approx([4.4552e-3, 3.1304e-3, 0.3552e-3])
    again = issue_time(Plan(dp=8, ep=8, recompute="full"), inputs, kind)
    assert float(again.backward) == pytest.approx(float(time.forward + time.backward))
    fused = issue_time(Plan(dp=8, ep=8), _qwen("expert_products=fused"), kind)
    assert [float(seconds) for seconds in fused] == [4.1e-3, 2.42e-3, 0]


def test_documents_are_rotated_one_after_the_other_where_that_is_not_fused() -> None:
    """10 documents of 200 tokens in 2000: 12 kernels forward and 7 backward for queries of each, and for keys."""
    (kind,) = _qwen().model.layer_kinds

    def issued(*changes: str, document: int | None, micro_batch: int = 1) -> tuple[float, float]:
        inputs = _qwen(*changes)
        job = inputs.job.replace(sequence_length=2000, document_length=document)
        time = issue_time(Plan(dp=8, ep=8, micro_batch=micro_batch), inputs.replace(job=job), kind)
        return float(time.forward), float(time.backward)

    usual = issued(document=200)
    assert usual == issued(document=None) == issued("rope_fusion=off", document=None)
    for micro_batch in (1, 2):
        forward, backward = issued("rope_fusion=off", document=200, micro_batch=micro_batch)
        assert forward - usual[0] == pytest.approx(micro_batch * 10 * 24 * 11.1e-6, rel=0.02)
        assert backward - usual[1] == pytest.approx(micro_batch * 10 * 14 * 11.1e-6, rel=0.03)
    assert issued("rope_fusion=off", "host.graphs=parts", document=200) == issued("host.graphs=parts", document=200)


def test_every_expert_of_a_fully_sharded_rank_is_gathered_by_itself() -> None:
    """Megatron-FSDP: Qwen3 30B on 8 GB200, 32 experts a rank, 26.1 ms of the host for each layer and micro-batch."""
    inputs = _qwen(precision="bf16", runtime="megatron-core", cluster="2x4:gb200")
    (kind,) = inputs.model.layer_kinds
    whole, sharded = (issue_time(Plan(dp=8, ep=4, zero=zero), inputs, kind) for zero in (1, 3))
    each = inputs.runtime.host.host_s_per_gathered_expert
    assert float(sharded.forward - whole.forward) == pytest.approx(1.29 * 32 * each.forward)
    assert float(sharded.forward + sharded.backward) == pytest.approx(26.1e-3, rel=0.01)
    assert sharded.experts == whole.experts
    fewer = issue_time(Plan(dp=8, ep=8, zero=3), inputs, kind)
    assert float(fewer.backward) < float(sharded.backward)


def test_the_stage_of_zero_tells_shapes_apart_where_the_host_issues_more_under_one() -> None:
    experts = question(read_model("qwen3-30b-a3b"), "1x8:h100")
    assert "zero" in shape_fields(experts)
    assert "zero" not in shape_fields(experts.replace(model=read_model("qwen3-8b")))


def test_experts_of_transformers_4_run_one_after_the_other() -> None:
    """Qwen3-30B-A3B, one sequence of 16,384 tokens on each of 16 H100 under ZeRO 3 of DeepSpeed took 46.0 s a step, and
    5.4 s (its start in it) with transformers 5: TRL, branch benchmark-sft-moe@20e8f6421."""
    model = read_model("qwen3-30b-a3b")
    (kind,) = model.layer_kinds
    plan = Plan(dp=16, zero=3, recompute=Recompute.FULL)
    old, new = (
        question(model, "2x8:h100", runtime, global_batch=16, sequence_length=16384)
        for runtime in ("deepspeed@transformers-4.57", "deepspeed")
    )
    loop, hooks = old.runtime.host.host_s_per_looped_expert, old.runtime.host.host_s_per_gathered_expert
    issued, product = (issue_time(plan, inputs, kind) for inputs in (old, new))
    assert float(issued.experts) == pytest.approx(128 * loop.forward)
    assert float(issued.forward - product.forward) == pytest.approx(128 * (loop.forward + hooks.forward))
    assert float(estimate_each([plan], old)[0].step_time_s) == pytest.approx(46.0, rel=0.15)
    assert float(estimate_each([plan], new)[0].step_time_s) < 6


def test_a_fused_dispatcher_leaves_less_to_the_host() -> None:
    """HybridEP permutes and exchanges in one operator each way; DeepEP is taken to issue as much as an all-to-all."""
    (kind,) = _qwen().model.layer_kinds
    changes = ("dispatcher=all_to_all",), ("dispatcher=fused",), ("dispatcher=fused", "fused_kernels=deep_ep")
    split, hybrid, deep = (issue_time(Plan(dp=8, ep=8), _qwen(*each), kind) for each in changes)
    assert float(split.forward - hybrid.forward) == pytest.approx(1.9e-3)
    assert float(split.backward - hybrid.backward) == pytest.approx(0.8e-3)
    assert deep == split


def test_latent_attention_and_a_shared_expert_are_issued_on_top() -> None:
    """38 and 79 operators more of 13.8 us for latent attention, 43 and 50 for the shared expert and its router."""
    inputs = question(read_model("deepseek-v3"), "32x8:h100", "megatron-core", global_batch=256)
    kind = inputs.model.layer_kinds[-1]
    block = kind.feed_forward.replace(shared_ffn_size=0)
    plain = kind.replace(attention=kind.attention.replace(latent=None), feed_forward=block)
    latent, shared = plain.replace(attention=kind.attention), plain.replace(feed_forward=kind.feed_forward)
    less, more, other = (issue_time(Plan(dp=256, ep=8), inputs, each) for each in (plain, latent, shared))
    assert float(more.forward - less.forward) == pytest.approx(38 * 13.8e-6, rel=0.01)
    assert float(more.backward - less.backward) == pytest.approx(79 * 13.8e-6, rel=0.01)
    assert float(other.forward - less.forward) == pytest.approx(43 * 13.8e-6, rel=0.01)
    assert float(other.backward - less.backward) == pytest.approx(50 * 13.8e-6, rel=0.01)


def test_tensor_parallelism_of_dtensor_is_issued_operator_by_operator_unless_it_is_compiled() -> None:
    """3.8 and 5.8 ms more of an eager layer of Llama, as measured with PyTorch 2.13; a compiled one has no DTensors."""
    added = []
    for compiled in ("false", "true"):
        inputs = question(read_model("llama-3.1-8b"), "1x8:h100", "torchtitan")
        inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, [f"compiled={compiled}"]))
        (kind,) = inputs.model.layer_kinds
        split, whole = (issue_time(plan, inputs, kind) for plan in (Plan(tp=4, sp=True, dp=2), Plan(dp=8)))
        added.append((float(split.forward - whole.forward), float(split.backward - whole.backward)))
    assert added == [pytest.approx((3.8e-3, 5.8e-3)), (0, 0)]


def test_hooks_of_recomputation_and_sharding_are_issued_on_top() -> None:
    """Of FSDP around every layer, compiled or not; of checkpoints around eager ones alone."""

    def issued(compiled: str, runtime: str = "torchtitan", **fields: object) -> tuple[float, float]:
        inputs = question(read_model("llama-3.1-8b"), "1x8:h100", runtime)
        inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, [f"compiled={compiled}"]))
        time = issue_time(replace(Plan(dp=8), **fields), inputs, inputs.model.layer_kinds[0])
        return float(time.forward), float(time.backward)

    def more(compiled: str, **fields: object) -> tuple[float, float]:
        pairs = zip(issued(compiled, **fields), issued(compiled), strict=True)
        forward, backward = (after - before for after, before in pairs)
        return forward, backward

    assert issued("false") == pytest.approx((0.71e-3, 0.93e-3))
    assert issued("true") == pytest.approx((0.49e-3, 0.52e-3))
    for compiled in ("false", "true"):
        assert more(compiled, zero=2) == pytest.approx((0.87e-3, 0.73e-3))
        assert more(compiled, zero=3) == pytest.approx((0.96e-3, 1.17e-3))
    assert more("false", runtime="pytorch-fsdp1", zero=2) == pytest.approx((0.73e-3, 0.65e-3))
    assert more("false", runtime="pytorch-fsdp1", zero=3) == pytest.approx((0.80e-3, 0.80e-3))
    assert more("false", recompute=Recompute.FULL) == pytest.approx((0.46e-3, (0.71 + 0.73) * 1e-3))
    assert more("true", recompute=Recompute.FULL) == pytest.approx((0, 0.49e-3))
    assert more("false", recompute=Recompute.SELECTIVE) == pytest.approx((1.87e-3, 2.57e-3))
    assert more("true", recompute=Recompute.SELECTIVE) == (0, 0)


def test_small_steps_of_eager_layers_take_as_long_as_a_host_of_others_does() -> None:
    """Llama 3.2 1B of transformers, 512 tokens with recomputation beside a B200, 58.8 ms: stas00/ml-engineering@744d01e
    training/performance/README.md. The host priced is the mean of this one and of a slower one."""
    row = next(row for row in read_rows() if row["id"] == "mleng-003")
    case = read_case(row)
    assert estimate_each([case.plan], case.inputs)[0].step_time_s == pytest.approx(0.0588, rel=0.2)


def test_graphs_take_parts_or_all_of_it_from_the_host() -> None:
    (kind,) = _qwen().model.layer_kinds
    times = [
        issue_time(Plan(dp=8, ep=8), _qwen(f"host.graphs={graphs}"), kind)
        for graphs in ("router", "parts", "iteration")
    ]
    assert [float(seconds) for seconds in times[0][:2]] == pytest.approx([4.7908e-3, 4.2512e-3])
    assert [float(seconds) for seconds in times[1][:2]] == pytest.approx([3.0908e-3, 2.9112e-3])
    assert tuple(times[2]) == (0, 0, 0)


def test_the_host_of_grace_takes_longer_for_all_that_it_issues() -> None:
    """By 1.29, as tests of small models in Megatron-LM's repository take on GB200 over H100."""
    (kind,) = _qwen().model.layer_kinds
    plan = Plan(dp=8, ep=8, recompute="full")
    grace, other = (
        issue_time(plan, _qwen(precision="bf16", cluster=cluster), kind) for cluster in ("2x4:gb200", "1x8:h100")
    )
    assert [float(seconds) for seconds in grace] == pytest.approx([1.29 * float(seconds) for seconds in other])


@pytest.mark.parametrize(("cluster", "slowdown"), [("1x8:h100", 1.48), ("1x8:b200", 1.48), ("2x4:gb200", 1.11)])
def test_ranks_that_are_not_bound_to_cores_take_the_host_longer(cluster: str, slowdown: float) -> None:
    """As the same tests of Megatron-LM took on DGX H100 and GB200 after the image that frees ranks, over before."""
    (kind,) = _qwen().model.layer_kinds
    plan = Plan(dp=8, ep=8, recompute="full")
    bound, free = (
        issue_time(plan, _qwen(*changes, precision="bf16", cluster=cluster), kind)
        for changes in ((), ("binds_ranks=false",))
    )
    assert [float(seconds) for seconds in free] == pytest.approx([slowdown * float(seconds) for seconds in bound])


def test_a_host_that_waits_for_each_kernel_adds_all_that_it_issues() -> None:
    """CUDA_LAUNCH_BLOCKING=1: the device waits as long as the host takes, however long its own work is."""
    inputs = _qwen("runs_ahead=false", precision="bf16")
    (kind,) = inputs.model.layer_kinds
    for plan in (Plan(dp=8, ep=8), Plan(dp=8, ep=8, micro_batch=4, recompute="full")):
        time, issue = layer_unit_time(plan, inputs, kind), issue_time(plan, inputs, kind)
        assert (time.host_forward, time.host_backward) == pytest.approx((issue.forward, issue.backward))


def test_small_micro_batches_of_many_experts_wait_for_the_host() -> None:
    """As measured on eight B200: micro-batch 1 took 28 s, and 4 took 9.8 s."""
    plans = [Plan(dp=8, ep=8, micro_batch=size, num_microbatches=64 // size) for size in (1, 4)]
    single, four = estimate_each(plans, _qwen())
    assert single.time.host_s > 0.3 * single.step_time_s
    assert four.time.host_s < 0.1 * four.step_time_s
    assert single.step_time_s > 2 * four.step_time_s
    assert single.step_time_s == pytest.approx(28.2, rel=0.15)


def test_passes_in_pieces_take_the_host_of_older_releases_longer() -> None:
    """NVIDIA's own comparison, Megatron-Bridge pull request 1760: Qwen3 235B on 64 B200 took 17.2 s in bf16 with the
    overlap and 16.0 s without, in mxfp8 20.1 and 16.9 s."""
    plan = Plan(dp=8, pp=8, vpp=4, ep=8, num_microbatches=128)
    asked = question(read_model("qwen3-235b-a22b"), "8x8:b200", "megatron-bridge@25.11", precision="mxfp8")
    overlapped = asked.replace(runtime=with_behaviours(asked.runtime, ["overlap.expert=0.66"]))
    (kind,) = asked.model.layer_kinds
    alone, beside = (issue_time(plan, inputs, kind) for inputs in (asked, overlapped))
    assert float(beside.forward - alone.forward) == pytest.approx(1.86e-3)
    assert float(beside.backward - alone.backward) == pytest.approx(1.86e-3)
    today = asked.replace(runtime=with_behaviours(read_runtime("megatron-bridge"), ["dispatcher=all_to_all"]))
    assert float(issue_time(plan, today, kind).forward) == float(alone.forward)


def test_the_host_is_not_ahead_of_the_products_of_experts() -> None:
    """Forward waits for what the host issues late, though all of the layer takes the device longer."""
    inputs = _qwen("host.graphs=parts", "pads_quantised_rows=false")
    (kind,) = inputs.model.layer_kinds
    plan = Plan(dp=8, ep=8, micro_batch=3)
    unit, issue = layer_unit_time(plan, inputs, kind), issue_time(plan, inputs, kind)
    products = layer_time(plan, inputs, kind).forward_parts.routed.experts.work.total
    assert unit.forward_total - products > issue.forward - issue.experts
    assert float(unit.host_forward) == pytest.approx(float(issue.experts - products))


def test_hooks_of_zero_3_keep_small_batches_waiting() -> None:
    """A GPT of 48 layers, 2048 tokens a GPU on 8 MI300X under DeepSpeed, 0.698 s a step within 10 %: deepspeedai/
    DeepSpeed@edaa72212 examples/sdma_allgather/README.md; without the hooks 0.44 s.
    """
    row = next(row for row in read_rows() if row["id"] == "deepspeed-sdma-003")
    case = read_case(row)
    hooks = case.inputs.runtime.host.host_s_per_gathered_layer
    assert estimate_each([case.plan], case.inputs)[0].step_time_s == pytest.approx(0.698, rel=0.1)
    sharded, whole = (
        issue_time(replace(case.plan, zero=zero), case.inputs, case.inputs.model.layer_kinds[0]) for zero in (3, 2)
    )
    assert float(sharded.forward - whole.forward) == pytest.approx(hooks.forward)
    assert float(sharded.backward - whole.backward) == pytest.approx(hooks.backward)

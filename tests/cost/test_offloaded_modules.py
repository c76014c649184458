"""What modules save for backward, waiting in the host's memory: bytes and seconds by hand."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.answers.basis.assumptions import assumptions
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.memory.offloaded import Offloaded, offloaded_bytes
from meshwright.cost.offloaded_layers import module_copy_time
from meshwright.cost.shard import layer_shard
from meshwright.cost.step import estimate_each
from meshwright.cost.unit import layer_unit_time
from meshwright.errors import InvalidSpec
from meshwright.layout.plan import Plan
from meshwright.pytorch.scope import CannotVerify, scope_of
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.offload_modules import OFFLOAD_MODULES
from meshwright.specs.reading.model import read_model
from meshwright.specs.recompute_modules import RecomputeModules
from strategies import llama_8b, question

PLAN = Plan(dp=8, zero=1, micro_batch=2, num_microbatches=4)
DEEP = Plan(pp=4, dp=16, ep=16, zero=1, num_microbatches=32)
COPY = 55e9
"""Bytes a second over PCIe 5.0, as the catalogue has them of an H100."""
ALL = "+".join(name for name in OFFLOAD_MODULES if name != "fused_group_mlp")


def offloading(inputs: Inputs, modules: str, *changes: str) -> Inputs:
    return inputs.replace(runtime=with_behaviours(inputs.runtime, [f"offloaded_modules={modules}", *changes]))


def llama(modules: str = "[]", *changes: str, runtime: str = "megatron-core", cluster: str = "1x8:h100") -> Inputs:
    """A question about Llama 3.1 8B, micro-batches of two sequences of 8192 tokens."""
    asked = question(llama_8b(), cluster, runtime, global_batch=64, precision="bf16", sequence_length=8192)
    return offloading(asked, modules, *changes)


def deepseek(modules: str = "[]", *changes: str, precision: str = "bf16") -> Inputs:
    """A question about DeepSeek-V3, sequences of 4096 tokens and experts on 16 ranks."""
    cluster = "8x8:b200" if precision != "bf16" else "8x8:h100"
    asked = question(read_model("deepseek-v3"), cluster, global_batch=512, precision=precision)
    return offloading(asked, modules, *changes)


def kind_of(inputs: Inputs) -> LayerKind:
    """Of the last layer, which has experts where any has."""
    return inputs.model.layer_kinds[-1]


def sizes(inputs: Inputs, plan: Plan = DEEP) -> Offloaded:
    kind = kind_of(inputs)
    return offloaded_bytes(plan, inputs, kind, layer_shard(plan, inputs, kind))


def priced(inputs: Inputs, plan: Plan = PLAN) -> Estimate:
    return estimate_each([plan], inputs)[0]


T, H = 4096, 7168
"""Tokens of a micro-batch of DeepSeek-V3 here, and its hidden size."""
HEADS, ROWS, INNER = 128, 8 * T, 2048
"""Heads, rows of experts on a rank where routing is even, and the inner size of one."""


@pytest.mark.parametrize(
    ("modules", "freed", "copied"),
    [
        ("attn_norm", 2 * T * H, None),
        ("mlp_norm", 2 * T * H, None),
        ("qkv_linear", 2 * T * (H + 2 * (1536 + 512) + 64), None),
        ("core_attn", 2 * T * HEADS * (192 + 192 + 128), 2 * T * HEADS * (192 + 192 + 128 + 128)),
        ("core_attn+attn_proj", 2 * T * HEADS * (192 + 192 + 128 + 128), 2 * T * HEADS * (192 + 192 + 3 * 128)),
        ("expert_fc1", 2 * ROWS * H, None),
        ("moe_act", 2 * ROWS * 2 * INNER, None),
    ],
)
def test_each_module_of_a_layer_frees_what_it_alone_saves(modules: str, freed: float, copied: float | None) -> None:
    """4096 tokens x 128 heads of log-sum-exp are 524,288 elements, fewer than go."""
    assert sizes(deepseek(modules)) == (freed, freed if copied is None else copied)


def test_small_tensors_stay_and_smaller_ones_go_where_the_limit_says_so() -> None:
    log_sum_exp = 4 * T * HEADS
    usual, lower, none = (
        sizes(deepseek("core_attn", f"least_offloaded_elements={least}")).freed for least in (2**20, 2**19, 10**9)
    )
    assert (lower - usual, none) == (log_sum_exp, 0)


@pytest.mark.parametrize(
    ("modules", "recomputed", "freed", "copied"),
    [
        ("core_attn+attn_proj", RecomputeModules.CORE_ATTENTION, 2 * T * HEADS * 128, 2 * T * HEADS * 128),
        ("core_attn", RecomputeModules.LATENT_UP_PROJECTION, 0, 2 * T * HEADS * (192 + 192 + 128 + 128)),
        ("qkv_linear", RecomputeModules.LATENT_UP_PROJECTION, 2 * T * (H + 2048 + 64), 2 * T * (H + 2048 + 64)),
        ("qkv_linear", RecomputeModules.LAYER_NORM, 2 * T * (2 * 2048 + 64), 2 * T * (H + 2 * 2048 + 64)),
        ("moe_act", RecomputeModules.EXPERT_ACTIVATION, 2 * ROWS * 2 * INNER, 2 * ROWS * 2 * INNER),
    ],
)
def test_what_is_computed_again_frees_nothing_and_may_travel_all_the_same(
    modules: str, recomputed: RecomputeModules, freed: float, copied: float
) -> None:
    plan = replace(DEEP, recompute="selective", recompute_modules=recomputed)
    assert sizes(deepseek(modules), plan) == (freed, copied)


def test_norms_that_are_part_of_a_product_go_with_it_alone() -> None:
    """Of Llama, whose norms are part of the products that they feed, and which has no experts."""
    others = "attn_norm+mlp_norm+expert_fc1+moe_act"
    assert sizes(llama(others), PLAN) == (0, 0)
    assert sizes(llama("qkv_linear"), PLAN).freed == 2 * 16384 * 2 * 4096


def test_graphs_keep_the_norms_at_their_borders() -> None:
    whole = sizes(deepseek("attn_norm+mlp_norm")).freed
    kept = {
        graphs: sizes(deepseek("attn_norm+mlp_norm", f"host.graphs={graphs}")).freed for graphs in ("router", "parts")
    }
    assert kept == {"router": whole / 2, "parts": 0}


def test_fused_experts_go_whole_and_others_unquantised_without_blocks_of_32() -> None:
    fused = sizes(deepseek("fused_group_mlp", "fused_experts=on", precision="mxfp8"))
    parts = sizes(deepseek("expert_fc1+moe_act", precision="mxfp8"))
    byte = deepseek(precision="mxfp8").recipe.saved_bytes
    assert fused.freed == fused.copied == pytest.approx(parts.freed + byte * ROWS * INNER)
    scaled = sizes(deepseek("expert_fc1", precision="fp8"))
    assert (scaled.freed, scaled.copied) == (ROWS * H, 2 * ROWS * H)


def test_one_layer_of_a_micro_batch_is_on_the_device_all_the_same() -> None:
    """Of four stages with 16, 15, 15 and 15 layers, 4 to 1 micro-batches are in flight. The last stage, with the layer
    of multi-token prediction, holds most while its logits are alive.
    """
    plan = replace(DEEP, chunk_layers=(16, 15, 15, 15))
    base, away = priced(deepseek(), plan), priced(deepseek("moe_act"), plan)
    saved = [
        each.memory.allocated - other.memory.allocated for each, other in zip(base.stages, away.stages, strict=True)
    ]
    layers = [4 * 13, 3 * 15, 2 * 15, 16]  # the first three have no experts
    size = 2 * ROWS * 2 * INNER
    assert [round(each / size, 6) for each in saved] == [count - 1 for count in layers]


def test_a_layer_keeps_what_is_not_offloaded_and_works_with_the_rest() -> None:
    kind = kind_of(deepseek())
    base, away = (layer_memory(DEEP, inputs, kind) for inputs in (deepseek(), deepseek(ALL)))
    freed = sizes(deepseek(ALL)).freed
    assert base.saved - away.saved == pytest.approx(freed)
    assert away.again - base.again == pytest.approx(freed)


def test_a_pass_takes_as_long_as_its_copies_where_these_take_longer() -> None:
    for modules in ("attn_norm", "core_attn+moe_act", ALL):
        none, some = deepseek(), deepseek(modules)
        kind = kind_of(some)
        copied = module_copy_time(DEEP, some, kind)
        assert copied == pytest.approx(sizes(some).copied / COPY)
        alone, beside = (layer_unit_time(DEEP, inputs, kind) for inputs in (none, some))
        for before, after in zip(alone.with_host, beside.with_host, strict=True):
            assert after == pytest.approx(max(before, copied))


@pytest.mark.parametrize("vpp", [1, 2, 4])
def test_of_several_chunks_one_waits_for_what_is_still_on_its_way(vpp: int) -> None:
    plan = replace(DEEP, vpp=vpp, schedule="interleaved" if vpp > 1 else "1f1b")
    none, some = deepseek(), deepseek(ALL)
    kind = kind_of(none)
    alone, beside = (layer_unit_time(plan, inputs, kind) for inputs in (none, some))
    copied = module_copy_time(plan, some, kind)
    assert copied > alone.with_host[0]
    assert (beside.host_forward - alone.host_forward) * vpp == pytest.approx(copied - alone.with_host[0])


def test_one_graph_of_the_whole_step_waits_in_every_forward_pass() -> None:
    plan = replace(DEEP, vpp=4, schedule="interleaved")
    parts, whole = (
        [layer_unit_time(plan, deepseek(each, graphs), kind_of(deepseek())) for each in ("[]", ALL)]
        for graphs in ("host.graphs=parts", "host.graphs=iteration")
    )
    waits = [with_copies.host_forward - without.host_forward for without, with_copies in (parts, whole)]
    assert waits[1] > waits[0] > 0
    inputs = deepseek(ALL, "host.graphs=iteration")
    assert whole[1].with_host[0] == pytest.approx(module_copy_time(plan, inputs, kind_of(inputs)))


def test_plans_with_other_chunks_are_other_shapes() -> None:
    plans = [
        replace(DEEP, vpp=vpp, schedule="interleaved", chunk_layers=(8,) * 7 + (5,) if vpp == 2 else (4,) * 15 + (1,))
        for vpp in (2, 4)
    ]
    together = [each.time.host_s for each in estimate_each(plans, deepseek(ALL))]
    assert together == pytest.approx([priced(deepseek(ALL), plan).time.host_s for plan in plans])
    assert together[0] > together[1]


def test_copies_over_a_faster_link_are_hidden() -> None:
    """NVLink-C2C of a GB200 carries 169 GB/s where PCIe 5.0 carries 55."""
    model, waits = read_model("deepseek-v3"), []
    for cluster in ("16x4:gb200", "8x8:b200"):
        asked = question(model, cluster, global_batch=512, precision="bf16")
        with_copies, without = (priced(offloading(asked, each), DEEP) for each in ("core_attn+attn_proj+moe_act", "[]"))
        waits.append(with_copies.time.host_s - without.time.host_s)
    assert waits[0] == 0
    assert waits[1] > 0


@given(st.sets(st.sampled_from(ALL.split("+"))), st.sampled_from(ALL.split("+")), st.integers(0, 3))
def test_more_modules_hold_less_and_never_run_faster(names: set[str], one: str, modules: int) -> None:
    plan = DEEP
    if modules:
        kinds = [RecomputeModules.LAYER_NORM, RecomputeModules.EXPERT_ACTIVATION, RecomputeModules.LATENT_UP_PROJECTION]
        plan = replace(DEEP, recompute="selective", recompute_modules=kinds[modules - 1])
    fewer = names | ({"core_attn"} if {"attn_proj"} & (names | {one}) else set())
    before, after = (priced(deepseek("+".join(each) or "[]"), plan) for each in (sorted(fewer), sorted(fewer | {one})))
    assert after.memory.allocated <= before.memory.allocated
    assert after.step_time_s >= before.step_time_s


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: llama("attn_proj"), "attn_proj without core_attn"),
        (lambda: llama("core_attn", runtime="torchtitan"), "core_attn, which torchtitan does not offload; it has none"),
        (lambda: llama("core_attn", runtime="megatron-core@nemo-25.04"), "does not offload; it has none"),
        (lambda: llama("core_attn", "offloaded_layers=4"), "does not go with whole layers on the host"),
        (lambda: llama("core_attn").replace(job=llama().job.replace(lora_rank=8)), "not priced beside adapters"),
        (lambda: llama("gdp_qkv"), "must be one of attn_norm, qkv_linear, core_attn"),
        (lambda: deepseek("fused_group_mlp"), "fused_group_mlp, which needs --with fused_experts=on"),
        (lambda: deepseek("fused_group_mlp+moe_act"), "fused_group_mlp with moe_act, which are parts of it"),
        (
            lambda: deepseek("moe_act", "fused_experts=on", precision="mxfp8"),
            "moe_act, but fused experts are offloaded whole; use fused_group_mlp",
        ),
        (
            lambda: deepseek("moe_act", "host.graphs=iteration", "graphed_expert_rows=1.5", "stashed_expert_rows=1.2"),
            "moe_act, whose rows are stashed already where one CUDA graph is the whole step",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(ask: object, says: str) -> None:
    with pytest.raises(InvalidSpec, match=re.escape(says)):
        ask()  # type: ignore[operator]


@pytest.mark.parametrize("written", ["moe_act+core_attn", "moe_act,core_attn", '["core_attn", "moe_act"]'])
def test_modules_are_written_as_those_that_are_recomputed(written: str) -> None:
    assert deepseek(written).runtime.activations.offloaded_modules == ("core_attn", "moe_act")


def test_the_assumptions_say_how_they_travel() -> None:
    said = "what core_attn, attn_proj save waits in host memory, of tensors of 1,048,576 elements or more"
    assert any(each.startswith(said) for each in assumptions(llama("core_attn+attn_proj")))
    assert not any("wait" in each and "host memory" in each for each in assumptions(llama()))


def test_verify_refuses_what_a_processor_cannot_show() -> None:
    with pytest.raises(CannotVerify, match="use --with offloaded_modules="):
        scope_of(Plan(dp=8, zero=1, num_microbatches=8), llama("core_attn"))

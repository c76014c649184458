"""Experts and latent attention: parameters per rank, states, activations, traffic and time."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.cost.compute.experts import expert_shard, expert_time
from meshwright.cost.compute.grouped import grouped_time
from meshwright.cost.compute.linear import linear_time, projections
from meshwright.cost.compute.parts import NO_EXPERT_KERNELS
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.memory.parameters import end_parameters, expert_parameters, layer_parameters
from meshwright.cost.memory.saved import attention_bytes, expert_bytes
from meshwright.cost.memory.timeline import Moment
from meshwright.cost.shard import layer_shard
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.weights import parameter_count
from strategies import broken, latent, legal_plans, mixture, question

MIXTRAL = {"attention": 2 * 4096**2 + 2 * 4096 * 1024, "router": 8 * 4096, "experts": 8 * 3 * 4096 * 14336}
QWEN = {"attention": 2 * 4096 * 8192 + 2 * 4096 * 512, "router": 128 * 4096, "experts": 128 * 3 * 4096 * 1536}
DEEPSEEK = {
    "attention": 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168,
    "compressed": 7168 * 1536 + 7168 * 576 + 1536 + 512,
    "router": 256 * 7168,
    "shared": 3 * 7168 * 2048,
    "experts": 256 * 3 * 7168 * 2048,
}


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize(("ep", "etp"), [(1, 1), (8, 1), (4, 2)])
def test_parameters_of_a_mixtral_rank(tp: int, ep: int, etp: int) -> None:
    inputs = question(read_model("mixtral-8x7b"), "8x8:h100", precision="bf16")
    plan, (kind,) = Plan(tp=tp, sp=tp > 1, dp=64 // tp, ep=ep, etp=etp, zero=1), inputs.model.layer_kinds
    dense = MIXTRAL["attention"] // tp + MIXTRAL["router"] + 2 * 4096
    assert layer_parameters(plan, inputs, kind) == dense
    assert expert_parameters(plan, inputs, kind) == MIXTRAL["experts"] // (ep * etp)


@pytest.mark.parametrize("ep", [1, 8, 64])
def test_parameters_of_a_qwen_rank(ep: int) -> None:
    inputs = question(read_model("qwen3-235b-a22b"), "32x8:h100", precision="bf16")
    plan, (kind,) = Plan(tp=4, sp=True, dp=64, ep=ep, zero=1), inputs.model.layer_kinds
    dense = QWEN["attention"] // 4 + QWEN["router"] + 2 * 4096 + 2 * 128
    assert layer_parameters(plan, inputs, kind) == dense
    assert expert_parameters(plan, inputs, kind) == QWEN["experts"] // ep


@pytest.mark.parametrize(("tp", "ep"), [(1, 64), (2, 32), (8, 8)])
def test_parameters_of_a_deepseek_rank(tp: int, ep: int) -> None:
    inputs = question(read_model("deepseek-v3"), "256x8:h100", precision="bf16")
    plan = Plan(tp=tp, sp=tp > 1, dp=2048 // tp, ep=ep, zero=1)
    first, routed = inputs.model.layer_kinds
    attention = DEEPSEEK["attention"] // tp + DEEPSEEK["compressed"] + 2 * 7168
    assert layer_parameters(plan, inputs, first) == attention + 3 * 7168 * 18432 // tp
    router_bias = layer_parameters(plan, inputs, routed) - (attention + DEEPSEEK["router"] + DEEPSEEK["shared"] // tp)
    assert router_bias in (0, 256)
    assert expert_parameters(plan, inputs, routed) == DEEPSEEK["experts"] // ep


@pytest.mark.parametrize("name", ["mixtral-8x7b", "qwen3-235b-a22b", "deepseek-v3"])
def test_one_rank_alone_holds_the_model(name: str) -> None:
    inputs = question(read_model(name), "1x1:b300", precision="bf16")
    inputs = inputs.replace(runtime=inputs.runtime.replace(vocabulary_multiple=1))
    plan, model = Plan(), inputs.model
    held = sum(end_parameters(plan, inputs))
    for kind, count in zip(model.layer_kinds, model.layers_per_kind, strict=True):
        held += count * (layer_parameters(plan, inputs, kind) + expert_parameters(plan, inputs, kind))
    assert held == parameter_count(model)


def test_experts_are_divided_over_the_ranks_that_hold_them_alike() -> None:
    """Dense states over dp, expert states over EDP = dp / ep (Megatron-LM, expert data parallel group)."""
    inputs = question(mixture(), "2x8:h100", global_batch=64)
    (kind,) = inputs.model.layer_kinds
    plans = [Plan(dp=16, ep=ep, zero=1, num_microbatches=4) for ep in (1, 8)]
    for plan, estimate in zip(plans, estimate_each(plans, inputs), strict=True):
        dense = 8 * layer_parameters(plan, inputs, kind) + sum(end_parameters(plan, inputs))
        experts = 8 * expert_parameters(plan, inputs, kind)
        assert estimate.memory.optimizer_states == pytest.approx(12 * (dense / 16 + experts / (16 / plan.ep)))
        assert estimate.memory.parameters == 2 * (dense + experts)


def test_routed_rows_keep_their_input_and_their_products() -> None:
    inputs = question(mixture(), "2x8:h100", global_batch=64)
    kind, plan = inputs.model.layer_kinds[0], Plan(dp=16, ep=8, zero=1)
    rows, tokens = 2 * 4096, 4096
    router = tokens * (9 * 8 + 12 * 2)
    assert expert_bytes(plan, inputs, kind) == router + rows * (2 * 2048 + 6 * 4096)
    hot = inputs.replace(job=inputs.job.replace(expert_imbalance=1.5))
    assert expert_shard(plan, hot, kind).rows == 1.5 * rows


def test_latent_attention_keeps_compressed_widths_around_their_norms() -> None:
    inputs = question(latent(), "2x8:b200", global_batch=64)
    kind = inputs.model.layer_kinds[0]
    shard = layer_shard(Plan(), inputs, kind)
    whole = 16 * (192 + 192 + 128 + 128)
    assert attention_bytes(Plan(), inputs, kind, shard) == 4096 * 2 * (whole + 2 * (768 + 512) + 64)


def test_latent_attention_projects_down_and_up() -> None:
    inputs = question(latent(), "2x8:b200", global_batch=64)
    kind = inputs.model.layer_kinds[0]
    linears = projections(inputs, kind, layer_shard(Plan(tp=2, sp=True, dp=8), inputs, kind))
    assert [(each.outputs, each.features) for each in linears.down] == [(768, 2048), (576, 2048)]
    assert [(each.outputs, each.features) for each in linears.attention] == [(8 * 192, 768), (8 * 256, 512)]
    assert linears.down[0].rows == 2048, "the compressed rows are divided by sequence parallelism"


def test_few_rows_per_expert_cost_more_per_row() -> None:
    inputs = question(mixture(), "2x8:h100")
    rows = np.array([64, 256, 1024, 8192])
    each = grouped_time(rows, 8192, 2048, np.full(4, 8), inputs).forward / rows
    assert (np.diff(each) < 0).all()
    plain = linear_time(65536, 8192, 2048, inputs)
    assert grouped_time(65536, 8192, 2048, 8, inputs).forward >= plain.forward


def test_imbalance_costs_time_and_memory() -> None:
    inputs = question(mixture(), "2x8:h100", global_batch=64)
    plan = Plan(dp=16, ep=8, zero=1, num_microbatches=4)
    steps, device = [], []
    for imbalance in (1.0, 1.3, 2.0):
        hot = inputs.replace(job=inputs.job.replace(expert_imbalance=imbalance))
        (estimate,) = estimate_each([plan], hot)
        steps.append(estimate.step_time_s)
        device.append(estimate.memory.device)
    assert (np.diff(steps) > 0).all()
    assert (np.diff(device) > 0).all()


@pytest.mark.parametrize("model", [mixture(), latent()], ids=["mixtral", "deepseek"])
@pytest.mark.parametrize("runtime", ["megatron-core", "torchtitan"])
def test_nothing_is_negative_and_experts_fold_into_the_mesh(model: object, runtime: str) -> None:
    inputs: Inputs = question(model, "2x8:b200", runtime, global_batch=32)  # type: ignore[arg-type]
    plans = legal_plans(inputs)
    plans = plans.take(np.random.default_rng(0).permutation(len(plans))[:2000])
    estimates = estimate_plans(plans, inputs)
    parts = np.array([*estimates.time, *estimates.worst_memory])
    assert np.isfinite(parts).all()
    assert (parts >= 0).all()
    folds = plans.tp * plans.cp * plans.dp % (plans.ep * plans.etp) == 0
    assert not broken(folds, plans)
    layers = estimates.stages.layers[estimates.slowest].sum(axis=1)
    assert (estimates.time.exposed_ep_s[(plans.ep > 1) & (layers > 0)] > 0).all()


def test_a_layer_without_experts_exchanges_nothing() -> None:
    inputs = question(latent(), "2x8:b200", global_batch=64)
    dense, routed = inputs.model.layer_kinds
    assert expert_time(Plan(), inputs, dense).forward == NO_EXPERT_KERNELS
    assert expert_time(Plan(), inputs, routed).forward.experts.moved_bytes > 0
    assert layer_memory(Plan(), inputs, routed).saved > 0


def test_biases_of_experts_move_what_megatron_counts() -> None:
    """gpt-oss, bytes per element counted with PyTorch 2.13 on meta tensors: `t + b * p` in fp32 for each expert, put
    together and cast, of the second products' outputs; the first products add theirs themselves, and sum its gradient.
    """
    inputs, plan = question(read_model("gpt-oss-120b"), "8x8:h100", precision="bf16"), Plan(dp=64, ep=8, zero=1)
    kind = inputs.model.layer_kinds[0]
    plain = kind.replace(feed_forward=kind.feed_forward.replace(bias=False))
    shard, biased, other = (
        expert_shard(plan, inputs, kind),
        *(expert_time(plan, inputs, each) for each in (kind, plain)),
    )
    forward, backward = (
        with_bias.experts.moved_bytes - without.experts.moved_bytes
        for with_bias, without in ((biased.forward, other.forward), (biased.backward, other.backward))
    )
    assert forward == pytest.approx(28 * shard.rows * 2880)
    assert backward == pytest.approx(shard.rows * (40 * 2880 + 2 * 2 * 2880))
    assert biased.forward.experts.gemm == other.forward.experts.gemm


def test_experts_of_transformers_keep_what_pytorch_counts() -> None:
    """A layer of Qwen3 30B with 4096 tokens: the experts' outputs of 2 bytes, and scores and places of every choice."""
    inputs = question(read_model("qwen3-30b-a3b"), "1x8:h100", "accelerate", sequence_length=4096, global_batch=8)
    memory = layer_memory(Plan(dp=8, zero=3), inputs, inputs.model.layer_kinds[0])
    assert memory.saved - memory.tables == 797_229_568
    in_fp32 = inputs.replace(runtime=inputs.runtime.replace(weighed_output_bytes=4))
    assert layer_memory(Plan(dp=8, zero=3), in_fp32, inputs.model.layer_kinds[0]).saved > 1.15 * memory.saved


def test_fully_shard_deals_out_whole_experts_where_nothing_places_them_otherwise() -> None:
    """Of 8 experts each of 16 ranks of torchtitan holds a part; under accelerate 8 ranks hold one each, and what is
    gathered is padded to 16. Bytes of fp32 weights as counted with PyTorch 2.13 on fake tensors.
    """
    inputs = question(read_model("mixtral-8x7b"), "2x8:h100", "accelerate", sequence_length=4096, global_batch=16)
    plan = Plan(dp=16, zero=3, recompute=Recompute.FULL)
    (scarce,) = estimate_each([plan], inputs)
    (divided,) = estimate_each([plan], inputs.replace(runtime=inputs.runtime.replace(divides_few_experts=True)))
    assert scarce.memory.optimizer_states == 2 * 22_950_249_472
    assert divided.memory.optimizer_states == 2 * 11_675_960_320


def test_with_zero_2_what_layers_were_sent_in_stands_while_the_last_one_is_put_together() -> None:
    """The peak of Mixtral 8x7B on 16 ranks, as counted with PyTorch 2.13 on fake tensors."""
    inputs = question(read_model("mixtral-8x7b"), "2x8:h100", "accelerate", sequence_length=4096, global_batch=32)
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, ["compiled=false"]))
    (estimate,) = estimate_each([Plan(dp=16, zero=2, num_microbatches=2, recompute=Recompute.FULL)], inputs)
    assert estimate.memory.allocated - estimate.memory.workspaces == pytest.approx(287_659_202_190, rel=1e-3)
    assert estimate.stages[0].peak_moment == Moment.LAST_LAYER_FORWARD


@pytest.mark.parametrize("runtime", ["megatron-bridge", "megatron-core"])
def test_experts_of_one_rank_take_the_same_time_with_a_dispatcher_that_sends_to_others(runtime: str) -> None:
    inputs = question(read_model("qwen3-30b-a3b"), "1x8:h200", runtime, precision="bf16", global_batch=64)
    one, spread = (
        {
            estimate_each([plan], inputs.replace(runtime=with_behaviours(inputs.runtime, [f"dispatcher={name}"])))[
                0
            ].step_time_s
            for name in ("fused", "all_to_all")
        }
        for plan in (Plan(dp=8, ep=ep, zero=1, num_microbatches=8) for ep in (1, 8))
    )
    assert (len(one), len(spread)) == (1, 2)

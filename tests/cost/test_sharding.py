"""Sharding: bytes per parameter and exchanges of every ZeRO stage, as the frameworks document them."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exchange_times import shard_times
from meshwright.cost.comms.collectives import collective_time
from meshwright.cost.comms.data import data_exchange, data_exchanges, earlier_reductions
from meshwright.cost.comms.exchange import communicator, exposed_seconds
from meshwright.cost.comms.group import axis_group
from meshwright.cost.comms.sharded import gathers_per_step
from meshwright.cost.comms.tensor import layer_collectives
from meshwright.cost.memory.stage_parameters import stage_parameters, stage_units
from meshwright.cost.memory.states import States, bucket_bytes, state_bytes
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.layout.groups import sharding_ranks
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.pytorch.planned.issued import issued
from meshwright.pytorch.planned.predicted import predicted_stages
from meshwright.schedules.records import Schedule
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.validation.outcomes import outcomes_of
from meshwright.validation.rows.configurations import configurations
from meshwright.validation.rows.table import read_rows
from strategies import legal_plans, llama_8b, of_torchtitan_0_1, question

COUNT = 8 * 10**9
LAYER, ENDS = 2 * 10**8, 10**9


def _states(runtime: str, plan: Plan, **job: object) -> States:
    inputs = question(llama_8b(), "8x8:h100", runtime, **{"precision": "bf16"} | job)
    return state_bytes(plan, inputs, COUNT, LAYER, ENDS, sharding_ranks(plan))


def _per_parameter(states: States) -> float:
    return (states.parameters + states.gradients + states.optimizer_states) / COUNT


@pytest.mark.parametrize(
    ("runtime", "zero", "gradients", "whole", "divided"),
    [
        ("megatron-core", 0, None, 18, 0),
        ("megatron-core", 1, None, 6, 12),
        ("megatron-core", 0, "half", 20, 0),
        ("megatron-core", 1, "half", 4, 16),
        ("deepspeed", 1, None, 4, 16),
        ("deepspeed", 2, None, 2, 18),
        ("internevo", 1, None, 4, 16),
        ("nanotron", 1, None, 8, 12),
        ("nanotron", 1, "half", 4, 16),
        ("megatron-deepspeed", 1, None, 10, 12),
        ("megatron-deepspeed", 1, "fp32", 8, 12),
    ],
)
def test_bytes_per_parameter_as_documented(
    runtime: str, zero: int, gradients: str | None, whole: int, divided: int
) -> None:
    """Megatron-LM, dist_optimizer.md: 18, 6 + 12/n, 20, 4 + 16/n, with what the step alone needs; DeepSpeed's
    estimator: 2 + 18/n; nanotron and Megatron-DeepSpeed keep 2-byte gradients beside the fp32 ones, which the latter
    sums in a 2-byte copy.
    """
    states = _states(runtime, Plan(dp=64, zero=zero), gradients=gradients)
    assert _per_parameter(states) + states.updating / COUNT == pytest.approx(float(whole + Fraction(divided, 64)))


@pytest.mark.parametrize(
    ("zero", "gradients", "whole", "divided"), [(0, None, 20, 0), (1, None, 4, 16), (1, "fp32", 6, 12)]
)
def test_fp16_gradients_are_summed_in_fp16_unless_told(
    zero: int, gradients: str | None, whole: int, divided: int
) -> None:
    """Megatron-LM, dist_optimizer.md: fp16 parameters with fp16 gradients, and with fp32 ones."""
    states = _states("megatron-core", Plan(dp=64, zero=zero), precision="fp16", gradients=gradients)
    assert _per_parameter(states) + states.updating / COUNT == pytest.approx(float(whole + Fraction(divided, 64)))


def _with(precision: str, zero: int, **changes: object) -> States:
    inputs = question(llama_8b(), "8x8:b200", precision=precision, gradients="half")
    inputs = inputs.replace(runtime=inputs.runtime.replace(**changes))
    return state_bytes(Plan(dp=64, zero=zero), inputs, COUNT, LAYER, ENDS, sharding_ranks(Plan(dp=64, zero=zero)))


def test_megatrons_fp32_gradients_of_2_byte_ones_live_only_in_the_step() -> None:
    assert _with("bf16", 1).gradients == 2 * COUNT
    assert _with("bf16", 1).updating == 4 * COUNT / 64
    assert _with("bf16", 1, keeps_gradient_copy=True).gradients == 2 * COUNT + 4 * COUNT / 64
    assert _with("bf16", 1, keeps_gradient_copy=True).updating == 0


def test_quantised_weights_stand_alone_where_the_runtime_says_so() -> None:
    """One copy of 1 byte on Blackwell, two of 1.03125 with their scales in mxfp8; the ends in 2 bytes, gathered all
    along under ZeRO 3, beside two layers.
    """
    alone = {"quantised_weights": ("fp8", "mxfp8")}
    assert _with("fp8", 1).parameters == 3 * (COUNT - ENDS) + 2 * ENDS
    assert _with("fp8", 1, **alone).parameters == (COUNT - ENDS) + 2 * ENDS
    assert _with("mxfp8", 1, **alone).parameters == 2.0625 * (COUNT - ENDS) + 2 * ENDS
    sharded = _with("fp8", 3, **alone).parameters
    assert sharded == pytest.approx((COUNT + ENDS) / 64 + 2 * LAYER + 2 * ENDS)


def test_an_optimizer_that_knows_precisions_keeps_less() -> None:
    """Remainders of 2 bytes beside bf16 weights, gradients taken as they are; moments of 2 bytes each."""
    remainders = _with("bf16", 1, remainder_weights=("bf16",))
    assert (remainders.optimizer_states, remainders.updating) == (10 * COUNT / 64, 0)
    assert _with("bf16", 1, moment_bytes=2).optimizer_states == 8 * COUNT / 64
    quantised = _with("fp8", 1, quantised_weights=("fp8",), remainder_weights=("fp8",))
    assert quantised.optimizer_states == 12 * COUNT / 64


def test_quantised_weights_are_gathered_in_one_byte_and_the_ends_in_two() -> None:
    given = question(llama_8b(), "8x8:b200", precision="fp8")
    alone = given.replace(runtime=given.runtime.replace(quantised_weights=("fp8",)))
    plan = Plan(dp=64)
    whole = shard_times(plan, given, COUNT)
    assert shard_times(plan, alone, COUNT)[0] == whole[0]
    assert shard_times(plan, alone, COUNT)[1] == shard_times(plan, given, COUNT // 2)[1]
    assert shard_times(plan, alone, COUNT, COUNT)[1] == whole[1]


def test_what_only_the_step_needs_counts_where_it_exceeds_activations() -> None:
    """One sequence of 512 tokens on one rank: 4 bytes a parameter, less the activations that are gone by then."""
    given = question(llama_8b(), "1x1:b200", precision="bf16", gradients="half", global_batch=1, sequence_length=512)
    given = given.replace(runtime=given.runtime.replace(dummy_gradients=False))
    (estimate,) = estimate_each([Plan()], given)
    kept = given.replace(runtime=given.runtime.replace(keeps_gradient_copy=True))
    (whole,) = estimate_each([Plan()], kept)
    copies = whole.memory.gradients - estimate.memory.gradients
    assert estimate.memory.temporaries == pytest.approx(
        copies - estimate.memory.activations - estimate.memory.logits, rel=1e-9
    )
    assert estimate.memory.allocated < whole.memory.allocated


def test_offloaded_layers_keep_their_activations_on_the_host() -> None:
    """32 layers, 9 of them away: 24 keep theirs, the one on its way among them."""
    given = question(llama_8b(), "1x8:h100")
    away = given.replace(runtime=given.runtime.replace(offloaded_layers=9))
    none, some = (estimate_each([Plan(dp=8, zero=3)], each)[0].memory for each in (given, away))
    beside = none.activations - 32 * (none.activations - some.activations) / 8
    assert 0 < beside < (none.activations - some.activations) / 8
    assert some.states == none.states


def test_deepspeed_zero_3_divides_18_bytes_and_gathers_two_layers() -> None:
    states = _states("deepspeed", Plan(dp=64, zero=3))
    assert _per_parameter(states) * COUNT == pytest.approx(18 * COUNT / 64 + 2 * max(2 * LAYER, ENDS))
    assert states.whole_gradients == 0


@pytest.mark.parametrize(
    ("runtime", "plan", "during", "after"),
    [
        ("deepspeed", Plan(dp=8), 0, 0),
        ("deepspeed", Plan(dp=8, zero=1), 2, 0),
        ("deepspeed", Plan(dp=8, zero=3), 1, 0),
        ("deepspeed", Plan(dp=4, pp=2, zero=1), 0, 1),
        ("megatron-core", Plan(dp=8, zero=1), 0, 0),
    ],
)
def test_deepspeed_allocates_whole_buckets(runtime: str, plan: Plan, during: int, after: int) -> None:
    """Of 500 million 2-byte gradients each, whatever the model: 2 with overlap_comm, 1 in ZeRO 3 or a pipeline."""
    buckets = bucket_bytes(plan, question(llama_8b(), "1x8:h100", runtime))
    assert tuple(map(float, buckets)) == (during * 10**9, after * 10**9)


def test_gradients_that_fit_in_one_bucket_are_joined_before_they_are_cast() -> None:
    """DeepSpeed's BF16_Optimizer: a flat tensor of the weights with decay and one of those without."""
    inputs = question(llama_8b(), "8x8:h100", "megatron-deepspeed", precision="bf16")
    one, several = (state_bytes(Plan(dp=64, zero=1), inputs, count, 0, 0, 64).joined for count in (4 * 10**8, COUNT))
    assert (float(one), float(several)) == ((2 + 4) * 4 * 10**8, 2 * COUNT)
    assert inputs.summed_bytes == 2


def _of_full_weights(runtime: str, plan: Plan, stage: int = 0, **changes: str) -> tuple[float, float]:
    """States of one stage of 8B at the peak, bytes, and its parameters before they are sharded."""
    batch = plan.dp * plan.num_microbatches
    inputs = question(llama_8b(), "8x8:h100", runtime, sequence_length=8192, global_batch=batch)
    inputs = inputs.replace(runtime=inputs.runtime.replace(**changes))
    priced = estimate_plans(Plans.of([plan]), inputs, keep_all_stages=True)
    whole, _ = stage_units(priced.plans, priced.stages, inputs)
    return float(priced.memory.states[stage]), float(whole.all[stage])


def test_fsdp2_divides_16_bytes_and_keeps_what_is_gathered() -> None:
    """At the loss: ZeRO 3 final norm and head, ZeRO 2 every weight."""
    states, count = _of_full_weights("torchtitan", Plan(dp=64, zero=3, num_microbatches=2))
    assert states == pytest.approx(16 * count / 64 + 2 * (128256 * 4096 + 4096))
    states, count = _of_full_weights("torchtitan", Plan(dp=64, zero=2, num_microbatches=2))
    assert states == pytest.approx((16 / 64 + 2) * count)


@pytest.mark.parametrize("stage", [0, 1])
def test_a_pipeline_of_fsdp2_holds_six_more_bytes_of_its_stage(stage: int) -> None:
    """Weights gathered for the step and gradients whole in fp32: 6 + 12/n bytes, whatever the micro-batches."""
    plan = Plan(dp=32, pp=2, zero=2, num_microbatches=8)
    states, count = _of_full_weights("torchtitan", plan, stage, cross_entropy="compiled")
    assert states == pytest.approx((6 + 12 / 32) * count)


def test_replicas_hold_22_bytes() -> None:
    """DDP copies gradients into its buckets and keeps autocast's 2-byte copies, of all but the embedding."""
    states, count = _of_full_weights("pytorch-ddp", Plan(dp=64, zero=0, num_microbatches=2))
    embedding = 128256 * 4096
    assert states == pytest.approx((4 + 2 + 8 + 8) * count - 2 * embedding)


@pytest.mark.parametrize(
    ("name", "measured_gib"),
    [("H100-HF-001", 48.4455), ("H100-HF-003", 31.8674), ("H100-HF-005", 53.3235), ("H100-HF-007", 42.4682)],
)
def test_replicas_hold_their_buckets_on_one_gpu_too(name: str, measured_gib: float) -> None:
    """Allocated by transformers 5.17 on an H100 under DDP, whose gradients are views of its buckets."""
    (outcome,) = outcomes_of(configurations([row for row in read_rows() if row["id"] == name]))
    assert outcome.memory
    assert outcome.memory.measured == measured_gib
    assert outcome.memory.predicted == pytest.approx(measured_gib, rel=0.002)


@pytest.mark.parametrize("runtime", ["megatron-core", "deepspeed"])
def test_smaller_sharding_groups_hold_more(runtime: str) -> None:
    stage = question(llama_8b(), "8x8:h100", runtime).runtime.plans.zero_stages[-1]
    held = [_per_parameter(_states(runtime, Plan(dp=64, zero=stage, dp_replicate=each))) for each in (1, 2, 8, 32)]
    assert (np.diff(held) > 0).all()
    alone = _states(runtime, Plan(dp=8, zero=stage))
    assert held[2] == pytest.approx(_per_parameter(alone))


def test_sharding_groups_stay_inside_a_node_and_replicas_cross() -> None:
    inputs = question(llama_8b(), "8x8:h100", "torchtitan")
    plan = Plan(dp=64, zero=3, dp_replicate=8)
    assert axis_group("dp_shard", plan, inputs).blocks[0] == 1
    assert axis_group("dp_replicate", plan, inputs).ranks == 8
    assert axis_group("dp_replicate", plan, inputs).members[0] == 1
    assert axis_group("dp", plan, inputs).blocks[0] == 8


@settings(max_examples=50)
@given(st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 10**10))
def test_hybrid_sharding_sums_one_shard_over_its_replicas(replicas: int, size: int) -> None:
    inputs = question(llama_8b(), "8x8:h100", "torchtitan")
    plan = Plan(dp=64, zero=3, dp_replicate=replicas)
    whole = Plan(dp=64, zero=3)
    scattered, _ = shard_times(plan, inputs, size)
    inside = collective_time("reduce_scatter", 4.0 * size, axis_group("dp_shard", plan, inputs), inputs.cluster)
    assert (scattered == pytest.approx(inside)) == (replicas == 1)
    assert scattered >= inside
    assert shard_times(whole, inputs, size)[0] > 0


def test_hybrid_sharding_pays_off_where_the_network_is_slow() -> None:
    """A node receives 3 x 2 P bytes with full sharding, an all-reduce of 2 P with groups inside nodes: a third less."""
    slow = question(llama_8b(), "8x8:a100", "torchtitan", sequence_length=2048, global_batch=64, gradients="half")
    levels = slow.cluster.levels
    narrow = levels[-1].replace(bandwidth=levels[-1].bandwidth / 8)
    slow = slow.replace(cluster=slow.cluster.replace(levels=(*levels[:-1], narrow)))
    whole, hybrid = estimate_each([Plan(dp=64, zero=3), Plan(dp=64, zero=3, dp_replicate=8)], slow)
    assert hybrid.time.exposed_dp_s < 0.8 * whole.time.exposed_dp_s
    assert hybrid.memory.states > whole.memory.states


def _exposed(plan: Plan, inputs: Inputs, parameters: int, forward: float, backward: float) -> float:
    """What a step waits for the gradients and weights of one stage."""
    exchange = data_exchange(plan, inputs, parameters, 0)
    exchanges = data_exchanges(exchange, inputs, forward, backward, earlier_reductions(plan))
    return float(exposed_seconds(exchanges, inputs))


def test_gradients_are_reduced_once_or_every_micro_batch() -> None:
    """ZeRO 1 once a step, ZeRO 2 after every micro-batch (DeepSpeed, stage_1_and_2.py)."""
    inputs = question(llama_8b(), "8x8:h100", "deepspeed", global_batch=512)
    inputs = inputs.replace(runtime=inputs.runtime.replace(overlap=inputs.runtime.overlap.replace(data_parallel=0.0)))
    plans = Plan(dp=64, zero=1), Plan(dp=64, zero=1, num_microbatches=8), Plan(dp=64, zero=2, num_microbatches=8)
    single, once, every = (_exposed(plan, inputs, COUNT, 1.0, 2.0) for plan in plans)
    assert once == pytest.approx(single)
    reduced = (every - once) / 7
    assert 0 < reduced < once


def _sharded_collectives(plan: Plan, inputs: Inputs) -> list[int]:
    """All-gathers before forward and backward and reduce-scatters of the last stage."""
    job = inputs.job.replace(global_batch=plan.dp * plan.num_microbatches)
    inputs = inputs.replace(job=job)
    issues = issued(plan, inputs, predicted_stages(plan, inputs)[-1]).items()
    kinds = ("all_gather", "forward"), ("all_gather", "backward"), ("reduce_scatter", "")
    return [
        sum(count for each, count in issues if (each.axis, each.kind) == ("dp", kind) and phase in each.phase)
        for kind, phase in kinds
    ]


@pytest.mark.parametrize(
    ("schedule", "count", "formats"),
    [
        (Schedule.INTERLEAVED_ZERO_BUBBLE, 2, ["bf16"]),
        (Schedule.INTERLEAVED_ZERO_BUBBLE, 4, ["fp32"]),
        (Schedule.INTERLEAVED, 2, ["fp32"]),
    ],
)
def test_gradients_that_wait_are_cast_by_the_next_backward(schedule: Schedule, count: int, formats: list[str]) -> None:
    """On the last stage of two, both input gradients of two micro-batches come before their weights' gradients; counted
    with PyTorch 2.13: 33 norms of Mixtral in bf16.
    """
    inputs = question(llama_8b(), "1x8:h100", "torchtitan", global_batch=2 * count)
    changes = ["compiled=false", "cross_entropy=eager"]
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, changes))
    plan = Plan(tp=2, sp=True, pp=2, vpp=2, dp=2, zero=2, num_microbatches=count, schedule=schedule)
    issues = issued(plan, inputs, predicted_stages(plan, inputs)[-1]).items()
    norms = {
        each: times for each, times in issues if (each.axis, each.kind, each.phase) == ("tp", "all_reduce", "pipeline")
    }
    assert [each.number_format for each in norms] == formats
    assert sum(norms.values()) == 33


@pytest.mark.parametrize(
    ("plan", "whole", "in_pieces"),
    [
        (Plan(dp=64, zero=3), [34, 33, 34], [1, 1, 1]),
        (Plan(dp=64, zero=2), [34, 0, 34], [1, 1, 1]),
        (Plan(dp=64, zero=3, num_microbatches=4), [4 * 34, 4 * 33, 4 * 34], [4, 4, 4]),
        (Plan(dp=32, pp=2, zero=2, num_microbatches=4), [17, 0, 17], [4, 4, 4]),
        (Plan(dp=32, pp=2, zero=3, num_microbatches=4), [17, 4 * 17, 17], [4, 0, 4]),
    ],
)
def test_collectives_of_fsdp2(plan: Plan, whole: list[int], in_pieces: list[int]) -> None:
    """L + 2 all-gathers forward, L + 1 backward (norm and head stay), L + 2 reduce-scatters; under a pipeline, on the
    last stage, weights stay gathered from a backward to the next forward, and norm and head are gathered again too.

    in_pieces: more of them where the loss goes in pieces, which reshards norm and head and reduces the head's gradients
    itself, in every micro-batch; counted of torchtitan 0.3.0's own loss and model on a fake process group.
    """
    inputs = question(llama_8b(), "8x8:h100", "torchtitan")
    assert _sharded_collectives(plan, inputs.replace(runtime=inputs.runtime.replace(cross_entropy="compiled"))) == whole
    more = [new - old for new, old in zip(_sharded_collectives(plan, inputs), whole, strict=True)]
    assert more == in_pieces


def test_a_last_layer_that_stays_is_not_gathered_again() -> None:
    """As torchtitan wrapped until 0.1.0: one root unit for both ends, L + 1, L - 1 and L + 1."""
    inputs = of_torchtitan_0_1(question(llama_8b(), "8x8:h100", "torchtitan"), keeps_last_layer_gathered=True)
    assert _sharded_collectives(Plan(dp=64, zero=3), inputs) == [33, 31, 33]


def test_whole_gradients_are_summed_by_an_all_reduce() -> None:
    """Nothing hidden: by 2 (n - 1) / n of the gradients' bytes in place of (n - 1) / n."""
    inputs, plan = question(llama_8b(), "8x8:h100", "deepspeed"), Plan(dp=64, zero=1)
    assert inputs.runtime.sharding.sums_whole_gradients
    scattering = inputs.replace(runtime=inputs.runtime.replace(sums_whole_gradients=False))
    parameters = inputs.runtime.sharding.gradient_bucket
    whole, divided = (_exposed(plan, each, parameters, 0.0, 0.0) for each in (inputs, scattering))
    summed = communicator("dp", plan, inputs).message("all_reduce", "", inputs.gradient_bytes * parameters)
    more = summed.seconds - shard_times(plan, inputs, parameters)[0]
    assert whole - divided == pytest.approx(more)
    assert more > 0


def test_a_bucket_of_gradients_holds_whole_weights() -> None:
    """8 billion parameters in 226 weights: no more all-reduces than weights, however small a bucket is."""
    inputs = question(llama_8b(), "8x8:h100", "pytorch-ddp")
    for matrices, times in ((226, 226), (10_000, 1221)):
        exchange = data_exchange(Plan(dp=64), inputs, 8e9, 0, matrices=matrices)
        (summed,) = (each for each in exchange.reduce if each.times)
        assert float(summed.times) == times
        assert float(summed.times * summed.bytes) == pytest.approx(4 * 8e9)


def test_internevo_broadcasts_the_weights_of_each_rank_in_turn() -> None:
    """InternLM's 32 layers of 5 matrices, embedding and head: 162 weights, that many ranks have some."""
    inputs = question(llama_8b(), "64x8:a100", "internevo")
    for ranks, turns in ((64, 64), (512, 162)):
        plan = Plan(dp=512, zero=1, dp_replicate=512 // ranks)
        exchange = data_exchange(plan, inputs, 8e9, 0, matrices=162)
        sent = [each for each in exchange.gather if each.times]
        assert [each.operation for each in sent] == ["broadcast"]
        assert float(sent[0].times) == turns
        assert float(sent[0].times * sent[0].bytes) == pytest.approx(2 * 8e9)
        assert float(sent[0].seconds) > ranks * 14e-6
    gathering = inputs.replace(runtime=inputs.runtime.replace(broadcasts_weights=False))
    assert {each.operation for each in data_exchange(Plan(dp=512, zero=1), gathering, 8e9, 0).gather} == {"all_gather"}


def test_a_stage_knows_how_many_weights_it_has() -> None:
    inputs = question(llama_8b(), "8x8:a100", "internevo")
    priced = estimate_plans(Plans.of([Plan(dp=32, pp=2, zero=1, num_microbatches=4)]), inputs, keep_all_stages=True)
    stages = priced.pipelines.stages
    assert stage_parameters(priced.pipelines.plans, stages, inputs).matrices.tolist() == [16 * 5 + 1, 16 * 5 + 1]


def test_fsdp1_gathers_the_last_layer_again() -> None:
    inputs = question(llama_8b(), "8x8:h100", "pytorch-fsdp1")
    assert _sharded_collectives(Plan(dp=64, zero=3), inputs)[1] == 32


def _tensor_counts(inputs: Inputs, plan: Plan) -> tuple[int, ...]:
    """All-gathers and reductions forward, then backward, of L layers, embedding and head."""
    (kind,) = inputs.model.layer_kinds
    layers, sequence = inputs.model.num_layers, int(plan.sp)
    layer = layer_collectives(plan, inputs, kind)
    gathers = layer.backward.gathers + layer.regathers + layer.recompute.gathers
    reductions = layer.backward.reductions + layer.recompute.reductions
    return (
        layers * int(layer.forward.gathers) + sequence,
        layers * int(layer.forward.reductions) + 1,
        layers * int(gathers) + sequence,
        layers * int(reductions) + 1,
    )


@pytest.mark.parametrize(
    ("plan", "counts"),
    [
        (Plan(tp=8, sp=True), (65, 65, 65, 65)),
        (Plan(tp=8, sp=True, recompute=Recompute.FULL), (65, 65, 65 + 64, 65 + 32)),
        (Plan(tp=8), (0, 65, 0, 2 * 32 + 1)),
    ],
)
def test_tensor_parallel_collectives_of_pytorch(plan: Plan, counts: tuple[int, ...]) -> None:
    """2 L + 1 in each direction with sequence parallelism, full recomputation 2 L and L more; without it 2 L + 1
    all-reduces each way.
    """
    assert _tensor_counts(question(llama_8b(), "1x8:h100", "torchtitan"), plan) == counts


def test_products_that_read_one_input_may_each_sum_its_gradient() -> None:
    """5 L + 1 all-reduces backward: q, k, v and both halves of the activation are products of their own."""
    inputs = of_torchtitan_0_1(question(llama_8b(), "1x8:h100", "torchtitan"))
    assert _tensor_counts(inputs, Plan(tp=8)) == (0, 65, 0, 5 * 32 + 1)


def test_without_a_compiler_checkpoints_of_torchtitan_run_to_their_end() -> None:
    """2 L reduce-scatters again: its checkpoints have early_stop=False, and only a compiler leaves out what nothing
    reads.
    """
    inputs = question(llama_8b(), "1x8:h100", "torchtitan")
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, ["compiled=false"]))
    plan = Plan(tp=8, sp=True, recompute=Recompute.FULL)
    assert _tensor_counts(inputs, plan) == (65, 65, 65 + 64, 65 + 64)


def test_tensor_parallel_collectives_of_megatron() -> None:
    """6 all-gathers and 4 reduce-scatters a layer with sequence parallelism; 2 all-reduces each way without."""
    inputs = question(llama_8b(), "1x8:h100", "megatron-core")
    (kind,) = inputs.model.layer_kinds
    with_sequence, without = (layer_collectives(Plan(tp=8, sp=sp), inputs, kind) for sp in (True, False))
    assert with_sequence.forward.gathers + with_sequence.backward.gathers + with_sequence.regathers == 6
    assert with_sequence.forward.reductions + with_sequence.backward.reductions == 4
    assert (without.forward.reductions, without.backward.reductions) == (2, 2)
    again = layer_collectives(Plan(tp=8, sp=True, recompute=Recompute.FULL), inputs, kind)
    assert tuple(again.recompute) == (2, 2)


@pytest.mark.parametrize("runtime", ["torchtitan", "deepspeed", "megatron-core", "pytorch-fsdp1"])
def test_more_replicas_never_hold_less_and_nothing_is_negative(runtime: str) -> None:
    inputs = question(llama_8b(), "2x8:h100", runtime, global_batch=16)
    plans = legal_plans(inputs)
    estimates = estimate_plans(plans, inputs)
    parts = np.array([*estimates.time, *estimates.worst_memory])
    assert np.isfinite(parts).all()
    assert (parts >= 0).all()
    replicated = plans.take(plans.dp_replicate > 1)
    whole = dataclasses.replace(replicated, dp_replicate=np.ones_like(replicated.dp))
    states = [estimate.memory.states for estimate in (estimate_plans(each, inputs) for each in (replicated, whole))]
    assert (states[0] >= states[1]).all()


def test_exchange_counts_hold_for_columns() -> None:
    inputs = question(llama_8b(), "2x8:h100", "torchtitan", global_batch=16)
    plans = legal_plans(inputs)
    counts = gathers_per_step(plans, inputs, 1, plans.pp - 1)
    assert (counts.backward <= plans.num_microbatches).all()
    assert (counts.scatters <= plans.num_microbatches).all()
    scatter, gather = shard_times(plans, inputs, COUNT)
    assert (gather <= scatter).all()

"""Adapters of Megatron-Bridge: how tensor-parallel ranks divide, keep and exchange them, beside frozen weights.

Shapes, collectives and saved tensors of one adapter are those of ParallelLinearAdapter of Megatron-Bridge@067f987df03b,
run with megatron-core 0.16.1 and PyTorch 2.13 on a fake process group.
"""

from __future__ import annotations

import pytest

from meshwright.cost.comms.adapters import adapter_exchanges
from meshwright.cost.comms.data import data_exchange, tied_embedding_exchange
from meshwright.cost.comms.tensor import layer_tensor_exchanges, tensor_region
from meshwright.cost.compute.elementwise import moved_bytes
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.linear import projections
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.memory.parameters import layer_parameters
from meshwright.cost.shard import layer_shard
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.quantised_weights import transposes_anew
from meshwright.specs.reading.inputs import read_inputs
from meshwright.specs.recompute_modules import RecomputeModules
from meshwright.specs.runtime import read_runtime

ALL = ("all-linear",)
QKV = ("q_proj", "k_proj", "v_proj")
HIDDEN, FFN, TOKENS, RANK, KEYS = 4096, 14336, 2048, 16, 1024
SPLIT = Plan(tp=4, sp=True)


def asked(
    rank: int = RANK,
    modules: tuple[str, ...] = ALL,
    behaviours: tuple[str, ...] = (),
    runtime: str = "megatron-bridge",
    model: str = "llama-3.1-8b",
    cluster: str = "1x8:h100",
    **fields: object,
) -> Inputs:
    job = {"sequence_length": TOKENS, "global_batch": 8, "lora_rank": rank, "lora_modules": modules} | fields
    return read_inputs(model, cluster, Job(**job), with_behaviours(read_runtime(runtime), behaviours))  # type: ignore[arg-type]


def priced(inputs: Inputs, **plan: object) -> Estimate:
    return estimate_each([Plan(**plan)], inputs)[0]  # type: ignore[arg-type]


def sent(inputs: Inputs, plan: Plan, phase: str) -> dict[tuple[str, float], float]:
    """How often every collective of adapters goes in a phase, by operation and bytes a token."""
    kind, counts = inputs.model.layer_kinds[0], dict[tuple[str, float], float]()
    for exchange in adapter_exchanges(plan, inputs, kind, tensor_region(plan, inputs).ranks):
        for each in exchange.messages:
            times = float(each.times) * float(exchange.times)
            if exchange.phase == phase and times:
                counts[each.operation, float(each.bytes) / TOKENS] = times
    return counts


@pytest.mark.parametrize("tp", [1, 4])
def test_ranks_divide_adapters_by_rank_or_by_what_is_read_and_by_what_is_put_out(tp: int) -> None:
    """linear_qkv: (16 / t, 4096) and (6144 / t, 16); linear_proj: (16, 4096 / t) and (4096 / t, 16); and so on."""
    counts = [layer_parameters(Plan(tp=tp), asked(rank), asked(rank).model.layer_kinds[0]) for rank in (RANK, 0)]
    sizes = (HIDDEN + HIDDEN + 2 * KEYS, 2 * HIDDEN, HIDDEN + 2 * FFN, FFN + HIDDEN)
    assert counts[0] - counts[1] == RANK * sum(sizes) / tp


def test_canonical_adapters_stand_beside_every_part_of_a_product() -> None:
    canonical = asked(behaviours=("canonical_lora=on",))
    names = [each.module for each in canonical.adapters(canonical.model.layer_kinds[0])]
    assert names == ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    assert [each.module for each in asked().adapters(asked().model.layer_kinds[0])] == [
        *("linear_qkv", "o_proj", "linear_fc1", "down_proj")
    ]
    assert priced(canonical, dp=8, zero=1).step_time_s > priced(asked(), dp=8, zero=1).step_time_s


def test_what_a_rank_gathers_for_adapters_is_the_low_rank_and_outputs_of_row_parallel_layers() -> None:
    low, whole = 2.0 * RANK, 2.0 * HIDDEN
    forward = {("all_gather", low): 2, ("all_reduce", low): 2, ("all_gather", whole): 2}
    inputs = asked(behaviours=("tensor_parallel_overlap=off",))
    assert sent(inputs, SPLIT, "forward") == forward
    assert sent(inputs, Plan(tp=4), "forward") == forward
    assert sent(inputs, SPLIT, "backward") == {("all_reduce", low): 4, ("all_gather", whole): 2}
    assert sent(inputs, Plan(tp=4), "backward") == {("all_reduce", low): 4, ("all_reduce", whole): 2}


def test_adapters_beside_fused_exchanges_gather_the_sequence_on_their_own() -> None:
    low, whole = 2.0 * RANK, 2.0 * HIDDEN
    fused = asked(modules=QKV)
    assert sent(fused, SPLIT, "forward") == {("all_gather", low): 1, ("all_gather", whole): 1}
    assert sent(fused, SPLIT, "backward") == {("all_reduce", low): 1, ("reduce_scatter", whole): 1}


@pytest.mark.parametrize(
    ("recompute", "modules", "times"),
    [(Recompute.FULL, RecomputeModules.CORE_ATTENTION, 2), (Recompute.SELECTIVE, RecomputeModules.MLP, 1)],
)
def test_what_is_computed_again_is_exchanged_again(recompute: Recompute, modules: RecomputeModules, times: int) -> None:
    inputs = asked(behaviours=("tensor_parallel_overlap=off",))
    plan = Plan(tp=4, sp=True, recompute=recompute, recompute_modules=modules)
    assert sent(inputs, plan, "recompute")["all_reduce", 2.0 * RANK] == times
    assert sent(inputs, SPLIT, "recompute") == {}


def test_frozen_layers_neither_gather_their_inputs_again_nor_hide_what_they_scatter() -> None:
    def exchanges(rank: int) -> list[tuple[str, float, float]]:
        inputs = asked(rank)
        kind = inputs.model.layer_kinds[0]
        every = layer_tensor_exchanges(SPLIT, inputs, kind, layer_time(SPLIT, inputs, kind))
        return [
            (message.operation, float(each.times * message.times), float(each.window))
            for each in every
            for message in each.messages
            if each.phase == "backward" and message.content == "activations"
        ]

    frozen, trained = exchanges(RANK), exchanges(0)
    assert sum(times for name, times, _ in trained if name == "all_gather") == 4
    assert sum(times for name, times, _ in frozen if name == "all_gather") == 2
    windows = [
        {window > 0 for name, times, window in each if name == "reduce_scatter" and times} for each in (trained, frozen)
    ]
    assert windows == [{True, False}, {False}]  # of keys and values no rank has a share


@pytest.mark.parametrize("tp", [1, 4])
def test_a_layer_keeps_what_its_adapters_read_gathered_and_no_inputs_of_its_own(tp: int) -> None:
    """Norms' inputs, q, k, v, the core's output, gate and up; of adapters both norms' outputs, whole on every rank, the
    product of gate and up, and 16 elements each.
    """
    plan, inputs = Plan(tp=tp, sp=tp > 1), asked()
    kept = layer_memory(plan, inputs, inputs.model.layer_kinds[0])
    norms, heads = 2 * HIDDEN / tp, (2 * HIDDEN + 2 * KEYS) / tp
    log_sums = 4 * 32 / tp
    adapters = 2 * HIDDEN + FFN / tp + 4 * RANK
    assert float(kept.saved - kept.tables) == TOKENS * (2 * (norms + heads + 2 * FFN / tp + adapters) + log_sums)


def test_adapters_of_one_product_share_what_it_reads() -> None:
    canonical = asked(behaviours=("canonical_lora=on",))
    one, each = (
        float(layer_memory(Plan(), inputs, inputs.model.layer_kinds[0]).saved) for inputs in (asked(), canonical)
    )
    assert each - one == 2 * TOKENS * 3 * RANK


def test_recomputing_the_block_leaves_out_what_its_adapters_keep() -> None:
    inputs = asked()
    kind = inputs.model.layer_kinds[0]
    plan = Plan(recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModules.MLP)
    again = float(layer_memory(plan, inputs, kind).again)
    assert again == 2 * TOKENS * (HIDDEN + 3 * FFN + 2 * RANK)


def test_the_attention_core_s_output_goes_where_no_adapter_reads_it() -> None:
    plan = Plan(recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModules.CORE_ATTENTION)
    again = [
        float(layer_memory(plan, inputs, inputs.model.layer_kinds[0]).again)
        for inputs in (asked(modules=QKV), asked(modules=(*QKV, "o_proj")))
    ]
    assert again[0] - again[1] == 2 * TOKENS * HIDDEN


def test_the_distributed_optimizer_has_adapters_alone() -> None:
    """2 bytes of each weight; 2 + 12 / 8 of each of the 35,651,584 parameters of adapters."""
    memory = priced(asked(), dp=8, zero=1).memory
    assert memory.parameters == pytest.approx(2 * (8_030_261_248 + 35_651_584), rel=1e-9)
    assert memory.gradients + memory.optimizer_states == pytest.approx((2 + 12 / 8) * 35_651_584, rel=1e-9)


def test_quantised_weights_stand_beside_adapters_in_two_bytes() -> None:
    """Two 8-bit copies on Hopper of the layers' weights, stored so alone; embedding, head and adapters in 2."""
    memory = priced(asked(precision="fp8"), dp=8, zero=1).memory
    ends, layers = 2 * 128_256 * 4096 + 4096, 8_030_261_248 - 2 * 128_256 * 4096 - 4096
    assert memory.parameters == pytest.approx(2 * layers + 2 * ends + 2 * 35_651_584, rel=1e-9)


ENDS = 2 * 128_256 * 4096 + 4096
LAYERS, ADAPTERS = 8_030_261_248 - ENDS, 35_651_584


def test_frozen_weights_in_4_bits_stand_alone_where_they_were_quantised_before() -> None:
    """By rows and by columns, 0.5625 bytes each: custom_callbacks.py of NVIDIA's MLPerf 5.1 asserts both."""
    stores = ('quantised_weights=["nvfp4"]',)
    each = (asked(precision="nvfp4", cluster="1x8:b200", behaviours=behaviours) for behaviours in ((), stores))
    beside, alone = (priced(inputs, dp=8, zero=1) for inputs in each)
    assert beside.memory.parameters == pytest.approx(3.125 * LAYERS + 2 * (ENDS + ADAPTERS), rel=1e-9)
    assert alone.memory.parameters == pytest.approx(1.125 * LAYERS + 2 * (ENDS + ADAPTERS), rel=1e-9)


def test_weights_without_transposed_copies_are_transposed_in_every_backward_pass() -> None:
    """One byte a weight on Hopper; one read and one written each time, nothing on Blackwell, which reads columns."""
    kept, anew = (asked(precision="fp8", behaviours=each) for each in ((), ("keeps_transposed_weights=false",)))
    assert priced(anew, dp=8, zero=1).memory.parameters == pytest.approx(LAYERS + 2 * (ENDS + ADAPTERS), rel=1e-9)
    kind, plan = kept.model.layer_kinds[0], Plan(dp=8)
    shard = layer_shard(plan, kept, kind)
    before, after = (moved_bytes(plan, each, kind, shard, projections(each, kind, shard)) for each in (kept, anew))
    more = [float(getattr(after, block).backward - getattr(before, block).backward) for block in before._fields]
    assert sum(more) == pytest.approx(2 * (LAYERS / 32 - 2 * 4096))
    assert before.attention.forward == after.attention.forward
    on_b200 = asked(precision="fp8", cluster="1x8:b200", behaviours=("keeps_transposed_weights=false",))
    assert not transposes_anew(on_b200)


def test_frozen_products_read_their_operands_by_rows_alone() -> None:
    frozen, trained = (asked(rank, precision="fp8") for rank in (RANK, 0))
    assert trained.quantise_bytes - frozen.quantise_bytes == 1  # the transposed copy that Hopper needs


def test_gradients_of_adapters_are_scattered_and_their_weights_gathered_in_two_bytes() -> None:
    inputs = asked(precision="fp8")
    exchange = data_exchange(Plan(dp=8, zero=1), inputs, 1e6, 0, ends=1e6)
    sizes = {each.operation: float(each.bytes) for each in (*exchange.reduce, *exchange.gather) if each.times}
    assert (sizes["reduce_scatter"], sizes["all_gather"]) == (2e6, 2e6)


def test_a_frozen_embedding_has_no_gradient_to_share() -> None:
    frozen, trained = (asked(rank, model="llama-3.2-1b") for rank in (RANK, 0))
    sizes = [float(tied_embedding_exchange(Plan(pp=2), each).messages[0].bytes) for each in (frozen, trained)]
    assert sizes[0] == 0 < sizes[1]


@pytest.mark.parametrize("plan", [{"dp": 8, "zero": 1}, {"tp": 2, "sp": True, "pp": 4, "num_microbatches": 8}])
def test_adapters_take_less_memory_and_compute_than_all_weights(plan: dict[str, object]) -> None:
    adapters, whole = (priced(asked(rank, sequence_length=8192), **plan) for rank in (RANK, 0))
    assert adapters.memory.allocated < whole.memory.allocated
    assert adapters.time.compute_s < whole.time.compute_s
    assert adapters.time.optimizer_s < 0.05 * whole.time.optimizer_s
    assert adapters.time.exposed_dp_s <= whole.time.exposed_dp_s

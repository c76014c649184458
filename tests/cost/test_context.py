"""Context parallelism: what its ranks send, and how attention, memory and time follow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.cost.comms.context import context_bytes
from meshwright.cost.compute.attention import fused_attention_time
from meshwright.cost.compute.elementwise import moved_bytes
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.linear import projections
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.messages import layer_messages
from meshwright.cost.shard import layer_shard
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.layout.groups import context_split
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import ContextExchange, Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.recompute_modules import RecomputeModules
from strategies import legal_plans, llama_8b, question

SEQUENCE = 65536
LOCAL = 2 * 2 * SEQUENCE * 8 * 128
"""Bytes of keys and values of the whole sequence, one layer."""


FULL = Plan(recompute=Recompute.FULL)
SELECTIVE = Plan(recompute=Recompute.SELECTIVE)


def long(runtime: str = "megatron-core", cluster: str = "8x8:h100") -> Inputs:
    return question(llama_8b(), cluster, runtime, sequence_length=SEQUENCE, global_batch=64)


@pytest.mark.parametrize("cp", [2, 4, 8, 16])
def test_a_ring_of_pytorch_sends_what_it_is_counted_to_send(cp: int) -> None:
    """Forward (cp - 1) times the local keys and values in 2 bytes; backward the same, and cp rotations of their
    gradients in fp32.
    """
    inputs = long("torchtitan")
    sent = context_bytes(Plan(cp=cp, context_exchange="ring"), inputs, inputs.model.layer_kinds[0])
    assert sent.local == LOCAL / cp
    assert sent.gradients == 2 * LOCAL / cp


@pytest.mark.parametrize("cp", [1, 2, 8])
def test_the_last_of_ranks_with_one_slice_each_sets_the_pace(cp: int) -> None:
    """It attends to cp - 1/2 slices of the sequence, where the mean is cp / 2."""
    plan, inputs = Plan(cp=cp, context_exchange="all_gather"), long("nanotron")
    even = inputs.replace(runtime=inputs.runtime.replace(balances_context=True))
    kind = inputs.model.layer_kinds[0]
    last, mean = (layer_time(plan, each, kind).forward.attention for each in (inputs, even))
    assert last / mean == pytest.approx((cp - 0.5) / (cp / 2))


def test_a_ring_of_transformer_engine_passes_gradients_on_in_two_bytes() -> None:
    inputs = long()
    sent = context_bytes(Plan(cp=8, tp=2), inputs, inputs.model.layer_kinds[0])
    assert sent.gradients == sent.local == LOCAL / 8 / 2


def test_an_all_to_all_exchanges_queries_keys_values_and_output() -> None:
    """2 s b (2 a d + 2 k d) / (c t) bytes a rank (Ulysses)."""
    inputs = long("deepspeed")
    sent = context_bytes(Plan(cp=8, context_exchange="all_to_all"), inputs, inputs.model.layer_kinds[0])
    assert sent.exchanged == 2 * SEQUENCE / 8 * (2 * 32 * 128 + 2 * 8 * 128)
    assert context_split(Plan(cp=8, context_exchange="all_to_all"), inputs).ring == 1


def test_more_ranks_than_key_value_heads_repeat_them() -> None:
    inputs = long()
    kind = inputs.model.layer_kinds[0]
    eight, sixteen = (
        context_bytes(Plan(cp=cp, context_exchange="all_to_all"), inputs, kind).exchanged * cp for cp in (8, 16)
    )
    assert sixteen - eight == 2 * SEQUENCE * 2 * 8 * 128


def test_hierarchical_exchanges_heads_inside_a_node_and_rings_across() -> None:
    inputs = long()
    split = context_split(Plan(tp=2, cp=16, context_exchange="hierarchical"), inputs)
    assert (split.heads, split.ring) == (4, 4)


@pytest.mark.parametrize("exchange", list(ContextExchange))
def test_activations_are_divided_by_the_degree(exchange: ContextExchange) -> None:
    inputs = long()
    kind = inputs.model.layer_kinds[0]
    whole = layer_memory(Plan(), inputs, kind).saved
    assert layer_memory(Plan(cp=8, context_exchange=exchange), inputs, kind).saved == pytest.approx(whole / 8)


@pytest.mark.parametrize("exchange", ["all_gather", "ring"])
@pytest.mark.parametrize("cp", [2, 8])
def test_pytorch_merges_the_attention_of_pieces_by_operators(cp: int, exchange: str) -> None:
    """_SDPAMerger: 38 bytes an element of each further piece's output (a cast, a difference, its product, another
    difference), 12 for two more casts; keys and values are laid out once and joined for every further piece.
    """
    inputs = long("accelerate")
    kind, plan = inputs.model.layer_kinds[0], Plan(cp=cp, context_exchange=exchange)
    whole = inputs.replace(runtime=inputs.runtime.replace(merges_context_pieces=False))
    of_ring = 5 * (cp - 1) * 4096 * (exchange == "ring")
    shard = layer_shard(plan, inputs, kind)
    merged, plain = (
        moved_bytes(plan, given, kind, shard, projections(given, kind, shard)).attention.forward
        for given in (inputs, whole)
    )
    counted = (12 + 38 * (cp - 1)) * 4096 + 4 * cp * 2 * 8 * 128
    assert merged - plain == pytest.approx(SEQUENCE / cp * (counted - of_ring))


def test_attention_work_is_dealt_evenly() -> None:
    accelerator = long().cluster.accelerator
    args = (32, 256, SEQUENCE, None, accelerator, 989e12)
    whole, eighth = fused_attention_time(1, *args), fused_attention_time(1, *args, 8, 1)
    assert eighth == pytest.approx(whole / 8, rel=0.02)
    assert fused_attention_time(1, *args, 8, 8) > eighth


def test_context_parallelism_shards_optimizer_states() -> None:
    inputs = question(llama_8b(), "8x8:h100", sequence_length=SEQUENCE, global_batch=64)
    alone, split = estimate_each(
        [Plan(tp=8, sp=True, dp=8, zero=1, num_microbatches=8), Plan(tp=8, sp=True, cp=8, zero=1, num_microbatches=64)],
        inputs,
    )
    assert split.memory.optimizer_states == pytest.approx(alone.memory.optimizer_states)
    assert split.memory.activations < alone.memory.activations


def test_every_exchange_is_in_the_space_of_a_long_sequence_and_costs_something() -> None:
    inputs = long(cluster="2x8:h100")
    plans = legal_plans(inputs)
    several = plans.take(plans.cp > 1)
    assert set(np.unique(several.context_exchange)) == set(map(int, ContextExchange))
    estimates = estimate_plans(several, inputs)
    assert (estimates.time.exposed_cp_s > 0).all()
    assert (estimate_plans(plans.take(plans.cp == 1), inputs).time.exposed_cp_s == 0).all()


def of_context(plan: Plan, inputs: Inputs, phase: str) -> list[tuple[str, str, float, float]]:
    """What a layer sends over cp in a phase: operation, content, bytes and how often."""
    rows = layer_messages(plan, inputs, inputs.model.layer_kinds[0])
    sent = [row for row in rows if (row.part, row.phase) == ("cp", phase)]
    return [(row.operation, row.content, row.bytes, row.times_a_unit) for row in sent]


@pytest.mark.parametrize("exchange", list(ContextExchange))
@pytest.mark.parametrize("plan", [FULL, SELECTIVE])
def test_a_layer_or_a_core_computed_again_sends_its_forward_pass_once_more(
    plan: Plan, exchange: ContextExchange
) -> None:
    inputs, plan = long(), replace(plan, cp=16, context_exchange=exchange)
    assert of_context(plan, inputs, "recompute") == of_context(plan, inputs, "forward") != []
    assert of_context(replace(plan, recompute=Recompute.NONE), inputs, "recompute") == []
    assert of_context(replace(plan, recompute=Recompute.NONE), inputs, "backward") == of_context(
        plan, inputs, "backward"
    )


def test_what_does_not_recompute_the_core_sends_nothing_again() -> None:
    plan = Plan(cp=8, recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModules.MLP)
    assert of_context(plan, long(), "recompute") == []


def test_torchtitan_gathers_again_by_operators_but_keeps_what_a_ring_brought() -> None:
    """Its policy saves the outputs of all-to-alls, of which PyTorch's ring is made, and of no all-gather."""
    inputs = long("torchtitan")
    gathered, ring = (replace(SELECTIVE, cp=8, context_exchange=each) for each in ("all_gather", "ring"))
    assert of_context(gathered, inputs, "recompute") == [("all_gather", "keys and values", LOCAL, 1)]
    assert of_context(ring, inputs, "recompute") == []
    assert of_context(replace(ring, recompute=Recompute.FULL), inputs, "recompute") == [
        ("send", "keys and values", LOCAL / 8, 7)
    ]


def test_full_recomputation_waits_for_its_ring_once_more() -> None:
    inputs = long()
    plans = [Plan(tp=8, sp=True, cp=8, num_microbatches=64, recompute=each) for each in ("none", "full")]
    plain, full = estimate_each([replace(plan, context_exchange="all_gather") for plan in plans], inputs)
    once = plain.time.exposed_cp_s / 3
    assert full.time.exposed_cp_s == pytest.approx(plain.time.exposed_cp_s + once)


def test_torchtitans_first_release_sends_keys_once_for_every_head() -> None:
    """repeat_kv ahead of attention: 32 heads of keys and values, where the model has 8; of 405B 16 on each of 8 ranks
    with one head of its own.
    """
    for tp, heads in ((1, 4), (8, 4)):
        plan = Plan(tp=tp, cp=4, context_exchange="all_gather")
        sent = [
            context_bytes(plan, inputs, inputs.model.layer_kinds[0])
            for inputs in (long("torchtitan"), long("torchtitan@0.1.0"))
        ]
        assert sent[0].local == LOCAL / 4 / tp
        assert sent[1].local == heads * sent[0].local
        assert sent[1].gathered == 4 * sent[1].local


@pytest.mark.parametrize(
    ("tp", "repeats", "cp", "kept"),
    [(2, "true", 2, 16384), (2, "true", 4, 32768), (1, "false", 2, 8192)],
)
def test_compiled_layers_of_torchtitan_keep_keys_and_values_of_every_piece(
    tp: int, repeats: str, cp: int, kept: int
) -> None:
    """Bytes a token that the forward graph of a layer of Llama 3 8B puts out for backward beyond those without context
    parallelism, with selective recomputation: compiled with PyTorch 2.13 on a group that does nothing, on the rank that
    sees every piece whole.
    """
    inputs = question(llama_8b(), "8x8:h100", "torchtitan@0.2.2", sequence_length=1024 * cp, global_batch=64)
    compiled, eager = (
        inputs.replace(runtime=with_behaviours(inputs.runtime, [f"repeats_keys={repeats}", f"compiled={compiled}"]))
        for compiled in ("true", "false")
    )
    plan = Plan(tp=tp, sp=tp > 1, cp=cp, context_exchange="all_gather", recompute=Recompute.SELECTIVE)
    kind = inputs.model.layer_kinds[0]

    def saved(each: Inputs, plan: Plan) -> float:
        one = each.replace(job=each.job.replace(sequence_length=1024 * plan.cp))
        return float(layer_memory(plan, one, kind).saved) / 1024

    without = plan.replace(cp=1, context_exchange="ring")
    assert saved(compiled, plan) - saved(compiled, without) == kept
    outputs = (cp - 1) * (2 * 4096 + 4 * 32) / tp
    assert saved(eager, plan) - saved(eager, without) == outputs

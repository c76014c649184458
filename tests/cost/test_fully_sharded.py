"""Fully sharded data parallelism: what PyTorch 2.13 itself holds and sends, counted on fake tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshwright.cost.comms.group import sent_bytes
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.memory.parameters import end_parameters, layer_parameters
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.schedules.records import Schedule
from meshwright.specs.choices import Recompute
from meshwright.units import GIB
from strategies import legal_plans, llama_8b, of_torchtitan_0_1, question

KINDS = (Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL)


@pytest.mark.parametrize(
    ("tp", "sp", "multiples"),
    [(1, False, (41.16, 15.53, 2.00)), (8, True, (8.75, 4.19, 0.25)), (8, False, (12.26, 5.44, 2.00))],
)
def test_a_llama_layer_keeps_what_pytorch_counts(tp: int, sp: bool, multiples: tuple[float, ...]) -> None:
    """As multiples of s b h for Llama-3 8B at 8192 tokens: no, per-operator selective and full recomputation."""
    inputs = question(llama_8b(), "1x8:h100", "torchtitan", sequence_length=8192, global_batch=8)
    inputs = of_torchtitan_0_1(inputs)
    (kind,) = inputs.model.layer_kinds
    saved = [layer_memory(Plan(tp=tp, sp=sp, recompute=recompute), inputs, kind).saved for recompute in KINDS]
    assert np.array(saved) / (8192 * 4096) == pytest.approx(multiples, abs=0.006)


@pytest.mark.parametrize(
    ("changes", "multiple"),
    [
        ({"elementwise": "transformers"}, 49.16),
        ({"attention_kernel": "eager", "score_bytes": 6}, 430),
        ({"selective_recompute": "attention_core"}, 41.13),
    ],
)
def test_other_ways_to_write_the_layer_keep_what_pytorch_counts(changes: dict[str, Any], multiple: float) -> None:
    """Hugging-Face norms keep fp32 copies, eager attention its scores; recomputing the core of flash saves nothing."""
    inputs = question(llama_8b(), "1x8:h100", "torchtitan", sequence_length=8192, global_batch=8)
    inputs = of_torchtitan_0_1(inputs, **changes)
    recompute = Recompute.SELECTIVE if "selective_recompute" in changes else Recompute.NONE
    saved = layer_memory(Plan(recompute=recompute), inputs, inputs.model.layer_kinds[0]).saved
    assert saved / (8192 * 4096) == pytest.approx(multiple, rel=0.015 if multiple > 100 else 2e-4)


def test_one_rank_holds_the_parameters_that_torchtitan_gives_it() -> None:
    """8B on 64 ranks with TP 8 and 8 shards; norm weights are replicated over TP."""
    inputs = question(llama_8b(), "8x8:h100", "torchtitan")
    plan, (kind,) = Plan(tp=8, sp=True, dp=8, zero=3), inputs.model.layer_kinds
    held = 32 * layer_parameters(plan, inputs, kind) + sum(end_parameters(plan, inputs))
    assert held / 8 == 125501952


@pytest.mark.parametrize(("ranks", "peak"), [(8, 68.76), (128, 58.24)])
def test_the_peak_of_8b_is_pytorchs(ranks: int, peak: float) -> None:
    """GiB allocated of 8B on 8 and 128 shards as torchtitan 0.1 wraps it: micro-batch 2 of 8192 tokens, per-operator
    selective. That count held two tensors of the residual stream, 0.25 GiB, more than the trainer of `verify` does,
    which agrees with the prediction to 1e-6; beside them it is met to 0.02 %.
    """
    inputs = question(llama_8b(), f"{ranks // 8}x8:h100", "torchtitan", sequence_length=8192, global_batch=2 * ranks)
    inputs = of_torchtitan_0_1(inputs, keeps_last_layer_gathered=True)
    plan = Plan(dp=ranks, zero=3, micro_batch=2, recompute=Recompute.SELECTIVE)
    memory, two_residuals = estimate_each([plan], inputs)[0].memory, 2 * (2 * 8192 * 4096 * 2)
    assert (memory.allocated - memory.workspaces) / GIB == pytest.approx(peak - two_residuals / GIB, rel=2e-4)
    assert memory.logits > 0


def test_ends_that_stay_gathered_cost_a_resharding_pipeline_no_more() -> None:
    """torchtitan 0.1 keeps embedding and head gathered over all micro-batches, whatever it does with layers."""

    def exposed(vocabulary: int, zero: int) -> float:
        model = llama_8b().replace(vocab_size=vocabulary)
        inputs = of_torchtitan_0_1(question(model, "2x8:h100", "torchtitan", global_batch=64))
        plan = Plan(dp=4, pp=4, zero=zero, num_microbatches=16, schedule=Schedule.ONE_F_ONE_B)
        return estimate_each([plan], inputs)[0].time.exposed_dp_s

    more = [exposed(512_000, zero) - exposed(256_000, zero) for zero in (2, 3)]
    assert more[0] == pytest.approx(more[1])
    assert more[0] > 0


def test_sixteen_bytes_a_parameter_are_divided_by_all_ranks() -> None:
    """While the cross-entropy works backward, final norm and head alone are gathered."""
    inputs = question(llama_8b(), "8x8:h100", "torchtitan", global_batch=128)
    inputs = inputs.replace(runtime=inputs.runtime.replace(cross_entropy="eager"))
    memory = estimate_each([Plan(dp=64, zero=3, num_microbatches=2)], inputs)[0].memory
    count = 8030261248
    gathered = 2 * (128256 * 4096 + 4096)
    assert memory.logits > 0
    assert memory.states == pytest.approx(16 * count / 64 + gathered)


def test_keeping_weights_gathered_costs_memory_and_saves_traffic() -> None:
    inputs = question(llama_8b(), "8x8:h100", "torchtitan", sequence_length=4096, global_batch=64)
    kept, resharded = estimate_each([Plan(dp=64, zero=stage) for stage in (2, 3)], inputs)
    assert kept.memory.parameters > resharded.memory.parameters
    assert kept.time.exposed_dp_s < resharded.time.exposed_dp_s
    assert kept.time.compute_s == resharded.time.compute_s


def test_traffic_is_paid_by_every_micro_batch() -> None:
    inputs = question(llama_8b(), "8x8:h100", "torchtitan", sequence_length=512, global_batch=256)
    once, four = estimate_each(
        [Plan(dp=64, zero=3, micro_batch=4), Plan(dp=64, zero=3, micro_batch=1, num_microbatches=4)], inputs
    )
    assert four.time.exposed_dp_s > 3 * once.time.exposed_dp_s


def test_exposed_traffic_never_exceeds_all_of_it() -> None:
    inputs = question(llama_8b(), "8x8:a100", "torchtitan", sequence_length=2048, global_batch=64)
    plans = legal_plans(inputs)
    estimates = estimate_plans(plans, inputs)
    network = inputs.cluster.levels[-1].bandwidth
    sent = sent_bytes("all_gather", 8.1e9 * (4 + 4), plans.dp * plans.cp) * plans.num_microbatches
    latency = 68 * plans.num_microbatches * 64 * 20e-6
    assert (estimates.time.exposed_dp_s <= 2 * sent / network + latency).all()
    assert {2, 3} <= set(np.unique(plans.zero))


def test_memory_falls_when_sharding_grows() -> None:
    inputs = question(llama_8b(), "8x8:h100", "torchtitan", global_batch=64)
    plans = Plans.of([Plan(dp=dp, zero=3) for dp in (2, 4, 8, 16, 32, 64)])
    device = estimate_plans(plans, inputs).memory.states
    assert (np.diff(device) < 0).all()


def test_an_eager_score_matrix_is_not_part_of_selective_recomputation() -> None:
    inputs = question(llama_8b(), "1x8:h100", "torchtitan", sequence_length=8192)
    (kind,) = inputs.model.layer_kinds
    none, selective, full = (layer_memory(Plan(recompute=each), inputs, kind).saved for each in KINDS)
    assert full < selective < none


@pytest.mark.parametrize(("micro_batches", "same"), [(1, True), (2, False)])
def test_one_micro_batch_has_no_gradients_to_add_up(micro_batches: int, same: bool) -> None:
    """FSDPParam has no accumulated gradient before a micro-batch without reduction (torch 2.13)."""
    plan = Plan(dp=8, zero=3, num_microbatches=micro_batches)
    inputs = question(llama_8b(), "1x8:h100", "accelerate", sequence_length=2048, global_batch=8 * micro_batches)
    whole = inputs.replace(runtime=inputs.runtime.replace(accumulates_whole=True))
    every, once = (estimate_plans(Plans.of([plan]), each) for each in (inputs, whole))
    assert bool((every.step_time_s == once.step_time_s).all()) is same
    assert bool((every.memory.gradients == once.memory.gradients).all()) is same

"""Schedules in a priced plan: where chunks lie, what is kept, what passes take, what is sent."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from exchange_times import pipeline_time
from meshwright.cost.comms.group import axis_group, group
from meshwright.cost.comms.pipeline import message_bytes
from meshwright.cost.comms.sends import line_time, message_time, opposite_message_time
from meshwright.cost.compute.slowdown import slowdown
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.in_flight import waiting_bytes
from meshwright.cost.step import estimate_each
from meshwright.cost.unit import unit_times
from meshwright.distinct import combined
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.schedules.peak import chunks_at_peak
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule, blocks
from meshwright.specs.inputs import Inputs
from meshwright.validation.rows.reading import read_case
from meshwright.validation.rows.table import read_rows
from orders import CHUNKS, every_schedule
from strategies import dense_model, llama_8b, question, split_stages

GIVEN = question(llama_8b(), "1x8:h100", global_batch=64)


def plan_of(schedule: Schedule, **fields: int) -> Plan:
    return Plan(pp=4, dp=2, vpp=CHUNKS[schedule], num_microbatches=32, schedule=schedule, **fields)


@cache
def estimate_of(schedule: Schedule) -> Estimate:
    return estimate_in(GIVEN, schedule)


def estimate_in(inputs: Inputs, schedule: Schedule) -> Estimate:
    return estimate_each([plan_of(schedule)], inputs)[0]


@pytest.mark.parametrize("schedule", [Schedule.ZERO_BUBBLE_V, Schedule.V_MIN, Schedule.DUALPIPE_V])
def test_a_v_holds_both_ends_on_its_first_rank(schedule: Schedule) -> None:
    """32 layers in 8 chunks, of which rank r holds r and 7 - r."""
    stages = estimate_of(schedule).stages
    assert [(stage.embedding, stage.head) for stage in stages] == [(True, True), *[(False, False)] * 3]
    assert blocks(schedule, 4, 2).tolist() == [[0, 1, 2, 3], [7, 6, 5, 4]]


def test_unequal_chunks_of_a_v_land_on_their_own_ranks() -> None:
    inputs = question(dense_model(layers=9), "1x4:h100")
    plan = Plan(pp=2, vpp=2, num_microbatches=8, chunk_layers=(1, 2, 2, 4), schedule=Schedule.ZERO_BUBBLE_V)
    stages = split_stages(inputs, Plans.of([plan]), keep_all=True)
    assert stages.layers[:, 0].tolist() == [5, 4]


def test_dualpipe_holds_the_model_twice_and_works_as_long_on_it() -> None:
    once, twice = estimate_of(Schedule.ONE_F_ONE_B), estimate_of(Schedule.DUALPIPE)
    assert [stage.layers for stage in twice.stages] == [2 * stage.layers for stage in once.stages]
    assert all(
        (stage.embedding, stage.head) == ((True, True) if stage.stage in (0, 3) else (False, False))
        for stage in twice.stages
    )
    assert [stage.live_micro_batches for stage in twice.stages] == [5] * 4
    parameters = [sum(stage.memory.parameters for stage in each.stages) for each in (once, twice)]
    assert parameters[1] == pytest.approx(2 * parameters[0])
    seconds = [sum(stage.forward_s + stage.backward_s for stage in each.stages) for each in (once, twice)]
    assert seconds[1] == pytest.approx(seconds[0])


@every_schedule
def test_a_priced_stage_keeps_what_its_schedule_says(schedule: Schedule) -> None:
    """Eight layers a rank; with two chunks four each."""
    plan = plan_of(schedule)
    stages = split_stages(GIVEN, Plans.of([plan]), keep_all=True)
    chunks = 1 if schedule == Schedule.DUALPIPE else plan.vpp
    layers = np.full((plan.vpp, 4), 8 // chunks)
    pipeline = PipelineShape(4, 32, plan.vpp, 4)
    kept, waiting = chunks_at_peak(schedule, pipeline, layers, all_worked=False)
    assert stages.in_flight_layers[:, 0].tolist() == (kept.sum(axis=0) * 8 // chunks).tolist()
    assert stages.waiting_layers[:, 0].tolist() == (waiting.sum(axis=0) * 8 // chunks).tolist()


def test_kept_activations_are_in_the_order_of_the_published_tables() -> None:
    """V-Min < V-Half < 1F1B = ZB-1p = ZB-V < interleaved < ZB-2p < GPipe of the rank that keeps most, with what head
    and tokens keep."""
    most = {schedule: max(stage.memory.activations for stage in estimate_of(schedule).stages) for schedule in Schedule}
    order = (Schedule.V_MIN, Schedule.V_HALF, Schedule.ZERO_BUBBLE_V, Schedule.INTERLEAVED, Schedule.ZERO_BUBBLE_2P)
    kept = [most[schedule] for schedule in (*order, Schedule.GPIPE)]
    assert kept == sorted(kept)
    assert most[Schedule.ZERO_BUBBLE_V] == pytest.approx(most[Schedule.ONE_F_ONE_B], rel=0.05)
    assert most[Schedule.ZERO_BUBBLE_1P] == pytest.approx(most[Schedule.ONE_F_ONE_B], rel=0.05)


def test_weight_gradients_of_a_gpt_layer_wait_with_32_sbh() -> None:
    """Inputs of the four products, 8 s b h elements with outputs of 8 s b h: arXiv:2401.10241, section 3.1."""
    inputs = question(dense_model(hidden_size=1024, heads=8, kv_heads=8, ffn_size=4096, gated=False), "1x1:h100")
    sbh = inputs.job.sequence_length * 2 * 1024
    (kind,) = inputs.model.layer_kinds
    assert waiting_bytes(Plan(micro_batch=2), inputs, kind) == 32 * sbh


def test_a_split_backward_pass_idles_less_and_costs_the_same_compute() -> None:
    parts = {schedule: estimate_of(schedule).time for schedule in Schedule}
    bubbles = [parts[each].bubble_s for each in (Schedule.ZERO_BUBBLE_1P, Schedule.ONE_F_ONE_B)]
    assert 0 < bubbles[0] < 0.8 * bubbles[1]
    assert parts[Schedule.GPIPE].bubble_s == parts[Schedule.ONE_F_ONE_B].bubble_s
    assert parts[Schedule.INTERLEAVED_ZERO_BUBBLE].bubble_s == pytest.approx(bubbles[0] / 2, rel=1e-9)
    assert parts[Schedule.ZERO_BUBBLE_1P].compute_s == parts[Schedule.ONE_F_ONE_B].compute_s


def test_overlapped_steps_leave_less_of_the_bubble() -> None:
    overlapped = GIVEN.replace(runtime=GIVEN.runtime.replace(overlaps_steps=True))
    for schedule in (Schedule.ZERO_BUBBLE_2P, Schedule.ZERO_BUBBLE_V):
        assert estimate_in(overlapped, schedule).time.bubble_s < estimate_of(schedule).time.bubble_s


def test_what_is_computed_again_belongs_to_the_input_gradient() -> None:
    plain, again = (
        unit_times(Plans.of([Plan(recompute=kind)]), GIVEN, some_not_recomputed=False).layers[0].passes  # type: ignore[arg-type]
        for kind in ("none", "full")
    )
    assert again.weight_gradient == plain.weight_gradient
    assert again.input_gradient > plain.input_gradient + 0.9 * plain.forward


PROFILED = {
    ("GPT-3-like 1.5B", "6"): (18.522, 18.086, 9.337),
    ("GPT-3-like 6.2B", "3"): (29.718, 29.444, 19.927),
    ("GPT-3-like 14.6B", "1"): (11.347, 11.248, 8.132),
    ("GPT-3-like 28.3B", "1"): (10.419, 10.207, 7.715),
}
"""Milliseconds of forward, input gradient and weight gradient of one stage, by model and micro-batch:
sail-sg/zero-bubble-pipeline-parallelism@f68d38794764, megatron/core/pipeline_parallel/mem.py, iclr_mem."""


@pytest.mark.parametrize(("model", "micro_batch"), PROFILED)
def test_passes_of_a_stage_are_near_the_profiled_ones(model: str, micro_batch: str) -> None:
    """Run alone: weight gradients within 10 %, input gradients within 10 %, forward, in which the profile has waits for
    the host, within 20 %."""
    rows = (each for each in read_rows() if each["dataset"] == "zerobubble")
    row = next(each for each in rows if (each["model"], each["micro_batch_size"]) == (model, micro_batch))
    case = read_case(row)
    layers = (int(row["layers"]) + 2) // int(row["pp"])
    layer = unit_times(Plans.of([case.plan]), case.inputs, some_not_recomputed=False).layers[0]
    passes = combined(lambda part: part * layers, layer).passes
    forward, gradient, weight = (slowdown(case.inputs) * each for each in PROFILED[model, micro_batch])
    assert 1e3 * passes.forward == pytest.approx(forward, rel=0.20)
    assert 1e3 * passes.input_gradient == pytest.approx(gradient, rel=0.10)
    assert 1e3 * passes.weight_gradient == pytest.approx(weight, rel=0.10)


def test_a_rank_that_is_alone_on_its_node_sends_across_on_both_sides() -> None:
    cluster = question(llama_8b(), "4x8:h100").cluster
    shared, alone = group(16, 2, cluster), group(4, 8, cluster)
    across = message_time(1e8, shared, cluster)
    assert opposite_message_time(1e8, alone, cluster) == across == message_time(1e8, alone, cluster)
    assert opposite_message_time(1e8, shared, cluster) < across / 5


def test_a_message_goes_from_node_to_node_once() -> None:
    """16 stages, four on each of four nodes: 12 hops inside, 3 across."""
    cluster = question(llama_8b(), "4x8:h100").cluster
    stages = group(16, 2, cluster)
    inside, across = opposite_message_time(1e8, stages, cluster), message_time(1e8, stages, cluster)
    assert line_time(1e8, stages, cluster) == pytest.approx(12 * inside + 3 * across, rel=1e-12)


def test_chunks_send_as_often_as_they_are_and_two_stages_have_one_side() -> None:
    inputs = question(llama_8b(), "1x8:h100", "megatron-lm")
    inputs = inputs.replace(runtime=inputs.runtime.replace(scatters_messages=False))

    def messages(plan: Plan) -> float:
        one = message_time(message_bytes(plan, inputs), axis_group("pp", plan, inputs), inputs.cluster)
        return float(pipeline_time(plan, inputs, 0.0) / one)

    plain = Plan(pp=4, dp=2, num_microbatches=32)
    assert messages(plain) == pytest.approx(2 * 32 + 6)
    for schedule in (Schedule.INTERLEAVED, Schedule.ZERO_BUBBLE_V):
        assert messages(replace(plain, vpp=2, schedule=schedule)) == pytest.approx(4 * 32 + 6)
    assert messages(replace(plain, schedule=Schedule.DUALPIPE)) == pytest.approx(2 * 32 + 6)
    assert messages(Plan(pp=2, dp=4, num_microbatches=32)) == pytest.approx(32 + 2)


def test_an_exchange_that_the_runtime_waits_for_takes_its_host() -> None:
    inputs = question(llama_8b(), "1x8:h100", "megatron-lm")
    slow = inputs.replace(runtime=inputs.runtime.replace(host_s_per_exchange=1e-3))
    plain = Plan(pp=4, dp=2, num_microbatches=32)
    for schedule, vpp, exchanges in (
        (Schedule.ONE_F_ONE_B, 1, 64),
        (Schedule.INTERLEAVED, 3, 96),
        (Schedule.ZERO_BUBBLE_1P, 1, 0),
    ):
        plan = replace(plain, schedule=schedule, vpp=vpp)
        more = pipeline_time(plan, slow, 1.0) - pipeline_time(plan, inputs, 1.0)
        assert more == pytest.approx(exchanges * 1e-3, abs=1e-12)


def test_a_v_keeps_one_copy_of_a_tied_embedding() -> None:
    tied = question(dense_model(layers=32, tied_embeddings=True), "1x8:h100", global_batch=64)
    apart, together = estimate_in(tied, Schedule.INTERLEAVED), estimate_in(tied, Schedule.ZERO_BUBBLE_V)
    parameters = [sum(stage.memory.parameters for stage in each.stages) for each in (apart, together)]
    assert parameters[0] - parameters[1] == pytest.approx(2 * tied.model.vocab_size * tied.model.hidden_size, rel=0.01)

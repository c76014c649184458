"""Laws that every plan's time obeys, over random legal plans of random models, clusters and jobs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exchange_times import pipeline_time
from meshwright.cost.comms.collectives import collective_time
from meshwright.cost.comms.data import data_exchange, data_exchanges, tied_embedding_exchange
from meshwright.cost.comms.exchange import exposed_seconds
from meshwright.cost.comms.group import group
from meshwright.cost.comms.sends import message_time
from meshwright.cost.comms.tensor import layer_tensor_exchanges
from meshwright.cost.compute.gemm import gemm_time
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.step import estimate_plans, least_step_time
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.schedules.records import Schedule
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.specs.reading.cluster import read_cluster
from strategies import (
    MEASURED,
    Planned,
    broken,
    dense_model,
    planned,
    question,
    questions,
    some_legal_plans,
    three_levels,
)

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
CLUSTERS = ("4x8:h100", "4x8:a100", "4x8:b200", "4x8:mi300x", "20x4:gb200", "4x8:v100")
BYTES = np.logspace(0, 11, 200)
PLANNED = planned()
FEW = settings(max_examples=40)
SLACK = 1 + 1e-9


@FEW
@given(PLANNED)
def test_degrees_multiply_to_the_cluster(case: Planned) -> None:
    inputs, plans = case.inputs, case.plans
    assert (plans.tp * plans.cp * plans.pp * plans.dp == inputs.cluster.num_gpus).all()
    assert (plans.dp * plans.micro_batch * plans.num_microbatches == inputs.job.global_batch).all()


@FEW
@given(PLANNED)
def test_no_step_takes_less_than_its_micro_batches(case: Planned) -> None:
    estimates = estimate_plans(case.plans, case.inputs)
    once = estimates.time.exposed_dp_s + estimates.time.optimizer_s
    least = least_step_time(estimates)
    assert (least <= estimates.step_time_s).all()
    np.testing.assert_allclose(least + once, estimates.step_time_s, rtol=1e-12)


@FEW
@given(PLANNED)
def test_the_parts_of_the_waterfall_add_up_to_the_step(case: Planned) -> None:
    inputs, plans = case.inputs, case.plans
    estimates = estimate_plans(plans, inputs)
    np.testing.assert_allclose(np.sum(estimates.time, axis=0), estimates.step_time_s, rtol=1e-12)
    np.testing.assert_allclose(sum(estimates.compute), estimates.time.compute_s, rtol=1e-12)
    assert sum(estimates[0].time) == pytest.approx(estimates[0].step_time_s, rel=1e-12)


@FEW
@given(PLANNED)
def test_leaving_out_dominated_stages_changes_no_answer(case: Planned) -> None:
    inputs, plans = case.inputs, case.plans
    few, all_ = (estimate_plans(plans, inputs, keep_all_stages=keep) for keep in (False, True))
    np.testing.assert_allclose(few.step_time_s, all_.step_time_s, rtol=1e-12)
    for one, other in zip((*few.time, *few.compute), (*all_.time, *all_.compute), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    for one, other in zip(few.worst_memory, all_.worst_memory, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_array_equal(few.verdict, all_.verdict)
    np.testing.assert_array_equal(few.stages.stage[few.worst], all_.stages.stage[all_.worst])


@FEW
@given(PLANNED, st.sampled_from([1.01, 1.3, 3.0]))
def test_a_slower_site_never_makes_a_faster_step(case: Planned, derate: float) -> None:
    inputs, plans = case.inputs, case.plans
    slower = inputs.cluster.replace(site_derate=inputs.cluster.site_derate * derate)
    never = _step(plans, inputs) <= _step(plans, inputs.replace(cluster=slower)) * SLACK
    assert not broken(never, plans)


@FEW
@given(PLANNED, st.sampled_from([1.01, 2.0, 10.0]), st.integers(0, 3))
def test_more_bandwidth_never_makes_a_slower_step(case: Planned, factor: float, which: int) -> None:
    inputs, plans = case.inputs, case.plans
    faster = inputs.replace(cluster=_with_bandwidth(inputs.cluster, factor, which))
    assert not broken(_step(plans, faster) <= _step(plans, inputs) * SLACK, plans)


@pytest.mark.parametrize("derate", [1.01, 3.0])
def test_a_slower_site_never_makes_a_faster_step_where_the_host_sets_the_pace(derate: float) -> None:
    model = dense_model(heads=12, ffn_size=1536, vocab_size=1000)
    inputs = question(model, "4x1:h100", sequence_length=512, global_batch=4)
    plans = Plans.of([Plan(dp=4, zero=1)])
    assert estimate_plans(plans, inputs).time.host_s > inputs.runtime.host.host_s_per_step
    slower = inputs.replace(cluster=inputs.cluster.replace(site_derate=derate))
    assert not broken(_step(plans, inputs) <= _step(plans, slower) * SLACK, plans)


@pytest.mark.parametrize("zero", [0, 1])
def test_leaving_out_dominated_stages_changes_no_answer_at_the_edge_of_a_gradient_bucket(zero: int) -> None:
    model = dense_model(heads=8, layers=16, ffn_size=2200, vocab_size=2000)
    inputs = question(model, "8x8:h100", global_batch=128, sequence_length=512)
    schedule = Schedule.INTERLEAVED
    plans = Plans.of([Plan(pp=4, vpp=4, dp=16, zero=zero, num_microbatches=8, schedule=schedule)])
    few, all_ = (estimate_plans(plans, inputs, keep_all_stages=keep) for keep in (False, True))
    parameters = all_.memory.parameters / 2
    assert parameters.min() < inputs.runtime.sharding.gradient_bucket < parameters[0]
    np.testing.assert_allclose(few.step_time_s, all_.step_time_s, rtol=1e-12)


def _step(plans: Plans, inputs: Inputs) -> np.ndarray:
    return estimate_plans(plans, inputs).step_time_s


def _with_bandwidth(cluster: Cluster, factor: float, which: int) -> Cluster:
    """The cluster with one level of links, or its memory, `factor` times as fast."""
    if which >= len(cluster.levels):
        memory = cluster.accelerator.memory_bandwidth * factor
        return cluster.replace(accelerator=cluster.accelerator.replace(memory_bandwidth=memory))
    levels = list(cluster.levels)
    levels[which] = levels[which].replace(bandwidth=levels[which].bandwidth * factor)
    return cluster.replace(levels=tuple(levels))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize(("ranks", "distance"), [(2, 1), (4, 1), (8, 1), (3, 1), (4, 8), (10, 8), (80, 1), (6, 4)])
def test_a_collective_takes_longer_with_more_bytes_and_less_with_more_bandwidth(
    operation: str, cluster: str, ranks: int, distance: int
) -> None:
    where = read_cluster(cluster)
    time = collective_time(operation, BYTES, group(ranks, distance, where), where)
    assert (np.diff(time) > 0).all()
    for level in range(len(where.levels)):
        faster = _with_bandwidth(where, 2.0, level)
        assert (collective_time(operation, BYTES, group(ranks, distance, faster), faster) <= time).all()


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_message_takes_longer_with_more_bytes_and_less_with_more_bandwidth(cluster: str) -> None:
    where = read_cluster(cluster)
    for distance in (1, 8):
        time = message_time(BYTES, group(4, distance, where), where)
        assert (np.diff(time) > 0).all()
        for level in range(len(where.levels)):
            faster = _with_bandwidth(where, 2.0, level)
            assert (message_time(BYTES, group(4, distance, faster), faster) <= time).all()


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_group_of_one_rank_takes_no_time(cluster: str) -> None:
    where = read_cluster(cluster)
    alone = group(1, 1, where)
    assert all((collective_time(operation, BYTES, alone, where) == 0).all() for operation in OPERATIONS)
    assert (message_time(BYTES, alone, where) == 0).all()


@pytest.mark.parametrize("name", questions())
def test_an_axis_of_degree_one_communicates_nothing(name: str) -> None:
    inputs = questions()[name]
    alone = Plan()
    (kind, *_) = inputs.model.layer_kinds
    exchanges = layer_tensor_exchanges(alone, inputs, kind, layer_time(alone, inputs, kind))
    assert exposed_seconds(exchanges, inputs) == 0
    assert pipeline_time(alone, inputs, 1.0) == 0
    exchanges = data_exchanges(data_exchange(alone, inputs, 1e9, 0), inputs, 1.0, 1.0, 0)
    assert exposed_seconds(exchanges, inputs) == 0
    assert tied_embedding_exchange(alone, inputs).seconds == 0


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("cluster", [*CLUSTERS, "leaves"])
def test_a_placement_inside_a_block_is_never_slower_than_one_across_blocks(operation: str, cluster: str) -> None:
    where = three_levels() if cluster == "leaves" else read_cluster(cluster)
    block = where.levels[0].size
    for ranks in (2, 3, 4, 8):
        inside = collective_time(operation, BYTES, group(ranks, 1, where), where)
        for distance in (block // 2, block, 2 * block):
            if ranks * distance <= where.num_gpus:
                across = collective_time(operation, BYTES, group(ranks, distance, where), where)
                assert (inside <= across * SLACK).all(), (ranks, distance)


@pytest.mark.parametrize("accelerator", [*MEASURED, "v100"])
def test_a_matrix_product_takes_longer_when_any_dimension_grows(accelerator: str) -> None:
    machine = read_accelerator(accelerator)
    sizes = np.array([64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384])
    m, n, k = (axis.ravel() for axis in np.meshgrid(sizes, sizes, sizes))
    peak = machine.peak_flops["fp16"]
    time = gemm_time(m, n, k, machine, peak)
    for larger in ((2 * m, n, k), (m, 2 * n, k), (m, n, 2 * k)):
        assert (gemm_time(*larger, machine, peak) >= time).all()
    assert (time >= 2.0 * m * n * k / peak).all()


@pytest.mark.parametrize("name", questions())
def test_a_step_is_never_faster_than_the_peak(name: str) -> None:
    estimates = estimate_plans(some_legal_plans(name, 500), questions()[name])
    assert (estimates.mfu > 0).all()
    assert (estimates.mfu < 1).all()

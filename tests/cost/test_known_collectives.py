"""Known answers of communication: the fitted forms with their published constants, and measured systems."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from exchange_times import pass_times, pipeline_time
from meshwright.cost.comms.collectives import collective_time, reached_bandwidths
from meshwright.cost.comms.data import data_exchange, data_exchanges
from meshwright.cost.comms.exchange import exposed_seconds, exposed_time
from meshwright.cost.comms.group import axis_group, group, sent_bytes
from meshwright.cost.comms.pipeline import message_bytes
from meshwright.cost.comms.sends import message_time
from meshwright.cost.comms.tensor import layer_tensor_exchanges
from meshwright.cost.compute.layer import layer_time
from meshwright.layout.plan import Plan
from meshwright.schedules.records import Schedule
from meshwright.specs.choices import Recompute
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.specs.reading.cluster import read_cluster
from strategies import dense_model, llama_70b, question, three_levels

NODE = {
    "h100": {
        "all_reduce": (15.37, 0.2068, 481.0),
        "all_gather": (10.53, 0.1744, 369.3),
        "reduce_scatter": (10.26, 0.0925, 342.5),
        "all_to_all": (8.44, 0.1498, 339.8),
    },
    "a100": {
        "all_reduce": (21.3, 0.27, 230),
        "all_gather": (15.0, 0.29, 217),
        "reduce_scatter": (14.4, 0.26, 221),
        "all_to_all": (12.8, 0.31, 224),
    },
    "b200": {
        "all_reduce": (24.8, 0.16, 745),
        "all_gather": (16.6, 0.17, 745),
        "reduce_scatter": (16.0, 0.16, 722),
        "all_to_all": (11.5, 0.18, 709),
    },
}
"""Of 8 accelerators in one node: alpha in us, gamma in us per root of kB, bandwidth in GB/s."""
LARGE = (64e6, 256e6, 1e9, 4e9)
EFA = Path(__file__).parents[1] / "data" / "efa_collectives.csv"


def _bus_bandwidth(operation: str, buffer: float, nodes: int, accelerator: str = "h100") -> float:
    return _bus(operation, buffer, read_cluster(f"{nodes}x8:{accelerator}"))


def _bus(operation: str, buffer: float, cluster: Cluster) -> float:
    """GB/s as nccl-tests define it, over all accelerators of a cluster."""
    seconds = collective_time(operation, buffer, group(cluster.num_gpus, 1, cluster), cluster)
    return float(sent_bytes(operation, buffer, cluster.num_gpus) / seconds / 1e9)


@pytest.mark.parametrize("operation", NODE["h100"])
@pytest.mark.parametrize("accelerator", NODE)
@pytest.mark.parametrize("buffer", [1e5, 1e7, 2.0**30])
def test_a_node_of_8_takes_what_its_fitted_table_says(operation: str, accelerator: str, buffer: float) -> None:
    alpha, gamma, bandwidth = NODE[accelerator][operation]
    sent = buffer * 7 / 8 * (2 if operation == "all_reduce" else 1)
    expected = alpha * 1e-6 + gamma * 1e-6 * math.sqrt(sent / 1e3) + sent / (bandwidth * 1e9)
    cluster = read_cluster(f"1x8:{accelerator}")
    rounding = 1e-9 if accelerator == "h100" else 0.03
    assert collective_time(operation, buffer, group(8, 1, cluster), cluster) == pytest.approx(expected, rel=rounding)


def test_large_all_reduces_in_an_h100_node_reach_its_published_481_gb_per_s() -> None:
    assert _bus_bandwidth("all_reduce", 2.0**30, 1) == pytest.approx(447, abs=1)
    assert _bus_bandwidth("all_reduce", 1e13, 1) == pytest.approx(481, rel=0.002)


@pytest.mark.parametrize(
    ("buffer", "microseconds"), [(536870912, 2984.6), (2147483648, 11163.0), (8589934592, 43980.0)]
)
def test_all_reduces_over_12_h100_nodes_take_what_was_measured(buffer: int, microseconds: float) -> None:
    """coreweave/nccl-tests@cb865533, README: 96 accelerators, 400 Gb/s each."""
    cluster = read_cluster("12x8:h100")
    seconds = collective_time("all_reduce", buffer, group(96, 1, cluster), cluster)
    assert seconds == pytest.approx(microseconds * 1e-6, rel=0.1)


@pytest.mark.parametrize("nodes", [2, 4, 16, 64, 128])
@pytest.mark.parametrize(("buffer", "tolerance"), [(64e6, 0.35), (256e6, 0.3), (1e9, 0.25), (4e9, 0.18)])
def test_rings_across_nodes_follow_the_measured_law(nodes: int, buffer: float, tolerance: float) -> None:
    """busbw = 0.973 NIC / (1 + n 1.82e6 / S), and no more than the domain itself reaches."""
    for operation in ("all_gather", "reduce_scatter"):
        law = 0.973 * 400 / (1 + 8 * nodes * 1.82e6 / buffer)
        found = _bus_bandwidth(operation, buffer, nodes)
        assert found == pytest.approx(law, rel=tolerance)
        assert found < NODE["h100"][operation][2]


@pytest.mark.parametrize("nodes", [4, 16, 64, 128])
@pytest.mark.parametrize("buffer", LARGE)
def test_all_reduces_across_nodes_lie_between_the_ring_and_the_network(nodes: int, buffer: float) -> None:
    """A tree has fewer hops than the ring whose law was fitted, and no more bandwidth than the adapters."""
    found = _bus_bandwidth("all_reduce", buffer, nodes)
    assert 0.85 * 0.973 * 400 / (1 + 8 * nodes * 1.82e6 / buffer) < found < 0.973 * 400


@pytest.mark.parametrize(
    ("cluster", "source", "operation", "error"),
    [
        ("aws-p5", "crazyguitar", "all_reduce", 0.07),
        ("aws-p5", "crazyguitar", "all_gather", 0.08),
        ("aws-p5", "aws-samples", "all_reduce", 0.06),
        ("aws-p6-b200", "stas00", "all_reduce", 0.09),
        ("aws-p4de", "aws-samples", "all_reduce", 0.06),
    ],
)
def test_collectives_over_efa_take_what_was_measured(cluster: str, source: str, operation: str, error: float) -> None:
    """Mean error of 32 MB to 17 GB on 2 to 32 nodes; sources in tests/data/README.md."""
    errors = [
        math.log(
            _bus(operation, float(row["bytes"]), read_cluster(f"{row['nodes']}x{cluster}")) / float(row["bus_gb_per_s"])
        )
        for row in csv.DictReader(EFA.read_text().splitlines())
        if (row["cluster"], row["operation"]) == (cluster, operation) and row["source"].startswith(source)
    ]
    assert len(errors) >= 7
    assert np.mean(np.abs(errors)) < error


@pytest.mark.parametrize(("buffer", "fastest"), [(64e6, "tree"), (8e9, "ring")])
def test_an_all_reduce_takes_the_faster_of_a_ring_and_a_tree(buffer: float, fastest: str) -> None:
    """Over EFA a tree has 0.4 of the bandwidth and few hops: on 32 nodes it is faster for small buffers alone."""
    cluster = read_cluster({"accelerator": "h100", "nodes": 32, "library": "nccl-efa"})
    kernels = cluster.accelerator.kernels

    def without(share: str) -> Cluster:
        slow = kernels.replace(library=kernels.library.replace(**{share: 1e-6}))
        return cluster.replace(accelerator=cluster.accelerator.replace(kernels=slow))

    alone = {
        "ring": _bus("all_reduce", buffer, without("tree_efficiency")),
        "tree": _bus("all_reduce", buffer, without("network_efficiency")),
    }
    assert max(alone, key=alone.__getitem__) == fastest
    assert _bus("all_reduce", buffer, cluster) == pytest.approx(alone[fastest])


def test_two_and_three_domains_reduce_inside_first_and_gain_2_and_4_thirds() -> None:
    bandwidths = [_bus_bandwidth("all_reduce", 1e13, nodes, "b200") for nodes in (2, 3, 4)]
    np.testing.assert_allclose(np.divide(bandwidths[:2], bandwidths[2]), [745 / 389.2, 4 / 3], rtol=0.005)


def test_members_that_share_a_node_share_its_network_adapters() -> None:
    cluster = read_cluster("16x8:h100")
    alone, pairs = (collective_time("all_gather", 1e11, group(16, distance, cluster), cluster) for distance in (8, 4))
    assert alone / pairs == pytest.approx(2, rel=0.01)


def test_messages_run_at_the_measured_348_and_36_gb_per_s() -> None:
    cluster = read_cluster("2x8:h100")
    inside, across = (message_time(1e12, group(2, distance, cluster), cluster) for distance in (1, 8))
    assert (1e3 / inside, 1e3 / across) == pytest.approx((348, 36), rel=0.02)


def test_the_outer_of_three_levels_limits_with_its_oversubscription() -> None:
    cluster = three_levels()
    inside_leaf, across_leaves = group(4, 8, cluster), group(12, 8, cluster)
    assert (inside_leaf.members, inside_leaf.blocks) == ((1, 4, 4), (4, 1, 1))
    assert (across_leaves.members, across_leaves.blocks) == ((1, 4, 12), (12, 3, 1))
    large = 1e13
    within = sent_bytes("all_gather", large, 4) / collective_time("all_gather", large, inside_leaf, cluster)
    beyond = sent_bytes("all_gather", large, 12) / collective_time("all_gather", large, across_leaves, cluster)
    assert within / 1e9 == pytest.approx(0.973 * 50, rel=0.01)
    assert beyond / 1e9 == pytest.approx(0.973 * min(50, 4 * 25), rel=0.01)


def test_megatrons_groups_are_numbered_tp_fastest_then_dp_then_pp() -> None:
    inputs = question(llama_70b(), "8x8:h100")
    plan = Plan(tp=4, dp=8, pp=2)
    assert axis_group("tp", plan, inputs) == (4, (4, 4), (1, 1))
    assert axis_group("dp", plan, inputs) == (8, (2, 8), (4, 1))
    assert axis_group("pp", plan, inputs) == (2, (1, 2), (2, 1))


def _tensor_seconds(plan: Plan, inputs: Inputs) -> tuple[float, float]:
    bare = inputs.runtime.overlap.replace(tensor_parallel_backward=0.0)
    inputs = inputs.replace(runtime=inputs.runtime.replace(overlap=bare))
    kind = inputs.model.layer_kinds[0]
    return pass_times(layer_tensor_exchanges(plan, inputs, kind, layer_time(plan, inputs, kind)), inputs)


def test_a_sequence_parallel_layer_sends_6_all_gathers_and_4_reduce_scatters() -> None:
    inputs = question(llama_70b(), "8x8:h100", sequence_length=8192)
    cluster, tensor = inputs.cluster, 2.0 * 8192 * 8192
    gather, scatter = (
        float(collective_time(operation, tensor, group(8, 1, cluster), cluster))
        for operation in ("all_gather", "reduce_scatter")
    )
    forward, backward = _tensor_seconds(Plan(tp=8, sp=True), inputs)
    assert forward == pytest.approx(2 * gather + 2 * scatter)
    assert backward == pytest.approx(4 * gather + 2 * scatter)
    _, again = _tensor_seconds(Plan(tp=8, sp=True, recompute=Recompute.FULL), inputs)
    assert again == pytest.approx(6 * gather + 4 * scatter)


def test_a_tensor_parallel_layer_without_sequence_parallelism_sends_4_all_reduces() -> None:
    inputs = question(llama_70b(), "8x8:h100", sequence_length=8192)
    tensor = 2.0 * 8192 * 8192
    reduce = collective_time("all_reduce", tensor, group(8, 1, inputs.cluster), inputs.cluster)
    assert _tensor_seconds(Plan(tp=8), inputs) == pytest.approx((2 * reduce, 2 * reduce))


def test_zero_1_scatters_fp32_gradients_and_gathers_2_byte_parameters_once_a_step() -> None:
    inputs = question(llama_70b(), "4x8:h100", precision="bf16")
    bare = inputs.replace(
        runtime=inputs.runtime.replace(
            overlap=inputs.runtime.overlap.replace(data_parallel=0.0), gradient_bucket=10**12
        )
    )
    plan, parameters, where = Plan(tp=8, dp=4, zero=1), 4.41e9, inputs.cluster
    ranks = group(4, 8, where)
    scattered = collective_time("reduce_scatter", 4 * parameters, ranks, where)
    gathered = collective_time("all_gather", 2 * parameters, ranks, where)
    reduced = collective_time("all_reduce", 4 * parameters, ranks, where)
    for each, seconds in ((plan, scattered + gathered), (Plan(tp=8, dp=4), reduced)):
        exchange = data_exchange(each, bare, parameters, 0)
        exposed = exposed_seconds(data_exchanges(exchange, bare, 1.0, 1.0, 0), bare)
        assert exposed == pytest.approx(float(seconds))


def test_a_stage_message_of_70b_over_tp8_with_sequence_parallelism_is_16_mib() -> None:
    inputs = question(llama_70b(), "8x8:h100", sequence_length=8192)
    assert message_bytes(Plan(tp=8, sp=True, pp=2), inputs) == 16 * 2**20
    assert message_bytes(Plan(tp=8, pp=2), inputs) == 128 * 2**20


def test_interleaving_sends_v_times_the_messages_and_hides_them() -> None:
    inputs = question(dense_model(), "8x8:h100")
    plain = Plan(pp=4, num_microbatches=16)
    chunked = Plan(pp=4, vpp=3, num_microbatches=16, schedule=Schedule.INTERLEAVED)
    one = message_time(message_bytes(plain, inputs), axis_group("pp", plain, inputs), inputs.cluster)
    assert pipeline_time(plain, inputs, 1.0) == pytest.approx((2 * 16 + 6) * one)
    taken = 24 / 132
    assert pipeline_time(chunked, inputs, 1.0) == pytest.approx((6 + 2 * 16 * 3 * taken) * one)


@pytest.mark.parametrize(
    ("window", "share", "first", "exposed"),
    [(0.0, 0.9, 0.0, 10.0), (5.0, 0.0, 0.0, 10.0), (5.0, 1.0, 0.0, 5.0), (100.0, 0.9, 2.0, 2.0), (5.0, 0.9, 0.0, 5.5)],
)
def test_overlap_hides_a_share_of_the_window_but_never_the_first_chunk(
    window: float, share: float, first: float, exposed: float
) -> None:
    inputs = question(dense_model(), "1x8:h100")
    slowed = (10.0 - exposed) * 24 / 132
    assert exposed_time(10.0, window, share, first, inputs) == pytest.approx(exposed + slowed)


def test_cards_on_pcie_reach_two_fifths_of_their_links() -> None:
    """RTX PRO 6000: 0.4 of PCIe 5.0 x16 with 4 and 8 cards; pairs of L40S reach 21 GB/s, as measured."""
    for cards, reached in (("1x8:l40s", 12.7), ("1x8:h100-pcie", 25.1), ("1x8:a100-pcie", 12.7), ("1x2:l40s", 20.6)):
        (bandwidth,) = reached_bandwidths(read_cluster(cards))
        assert bandwidth / 1e9 == pytest.approx(reached, rel=0.01)


def test_the_slow_host_that_was_measured_is_a_table_of_its_own() -> None:
    slow, usual = (read_accelerator({"like": "l40s", "kernels": name}) for name in ("l40s-across-roots", "l40s"))
    assert slow.kernels.collectives["all_gather"][-1].bandwidth == 1.4e9
    assert usual.kernels.collectives["all_gather"][-1].bandwidth == 12.85e9
    assert slow.kernels.gemm == usual.kernels.gemm
    assert slow.kernels.sources["gemm"] == usual.kernels.sources["gemm"]
    assert slow.kernels.sources["collectives"] != usual.kernels.sources["collectives"]

"""Scale: links between nodes are another speed, and nothing else is another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.errors import InvalidInput
from meshwright.specs.cluster import Cluster
from meshwright.specs.quantities import LEAST_BANDWIDTH, MOST
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.scale import network_levels, with_gpus, with_network, with_nodes
from strategies import clusters, three_levels


@pytest.mark.parametrize(
    ("cluster", "names"),
    [
        ("8x8:h100", ["fabric"]),
        ("1x8:h100", []),
        ("18x4:gb200", []),
        ("32x4:gb200", ["fabric"]),
        ("4x1:h100", ["fabric"]),
        (three_levels(12), ["leaf", "spine"]),
        (three_levels(4), ["leaf"]),
        (three_levels(12).replace(gpus_per_node=32, num_nodes=3), ["spine"]),
        (three_levels(12).replace(gpus_per_node=32, num_nodes=1), []),
    ],
    ids=str,
)
def test_the_levels_between_nodes_are_those_that_join_nodes_of_the_cluster(
    cluster: str | Cluster, names: list[str]
) -> None:
    where = read_cluster(cluster) if isinstance(cluster, str) else cluster
    assert [level.name for level in network_levels(where)] == names


@given(clusters() | st.builds(three_levels, st.integers(1, 16)), st.sampled_from([1 / 16, 0.3, 1.0, 7.0]))
def test_only_the_bandwidth_between_nodes_is_scaled(cluster: Cluster, factor: float) -> None:
    scaled, between = with_network(cluster, factor), network_levels(cluster)
    for before, after in zip(cluster.levels, scaled.levels, strict=True):
        times = factor if before in between else 1.0
        assert after.bandwidth == pytest.approx(times * before.bandwidth, rel=1e-12)
        assert after.replace(bandwidth=before.bandwidth) == before
    assert scaled.replace(levels=cluster.levels) == cluster


@given(clusters())
def test_a_factor_of_one_is_the_same_cluster(cluster: Cluster) -> None:
    assert with_network(cluster, 1.0) == cluster


@pytest.mark.parametrize(("bandwidth", "factor", "kept"), [(MOST / 2, 16, MOST), (2.0, 1 / 16, LEAST_BANDWIDTH)])
def test_a_link_is_never_scaled_beyond_what_a_link_may_be(bandwidth: float, factor: float, kept: float) -> None:
    cluster = read_cluster("2x8:h100")
    domain, fabric = cluster.levels
    odd = cluster.replace(levels=(domain, fabric.replace(bandwidth=bandwidth)))
    assert with_network(odd, factor).levels[1].bandwidth == kept


@given(st.integers(1, 7))
def test_a_part_of_a_node_keeps_its_inner_links(gpus: int) -> None:
    whole = read_cluster("4x8:h100")
    part = with_gpus(whole, gpus)
    assert (part.num_gpus, part.num_nodes) == (gpus, 1)
    assert part.levels[0].bandwidth == whole.levels[0].bandwidth
    assert part.levels[-1].size == gpus


@given(st.integers(1, 16))
def test_whole_nodes_keep_their_network(nodes: int) -> None:
    whole = read_cluster("4x8:h100")
    scaled = with_gpus(whole, 8 * nodes)
    assert (scaled.num_gpus, scaled.gpus_per_node) == (8 * nodes, 8)
    if nodes > 1:
        assert scaled.levels[-1].effective_bandwidth == whole.levels[-1].effective_bandwidth


@pytest.mark.parametrize(("gpus", "near"), [(12, "8 or 16"), (31, "24 or 32")])
def test_what_is_between_nodes_is_refused_with_the_nearest(gpus: int, near: str) -> None:
    with pytest.raises(
        InvalidInput, match=f"{gpus} accelerators are no whole number of nodes of 8; the nearest: {near}"
    ):
        with_gpus(read_cluster("4x8:h100"), gpus)


@pytest.mark.parametrize("before", [16, 64])
@pytest.mark.parametrize("nodes", [18, 20, 36, 64])
def test_racks_are_divided_again_into_equal_segments_as_nodes_change(before: int, nodes: int) -> None:
    changed, asked = with_nodes(read_cluster(f"{before}x4:gb200"), nodes), read_cluster(f"{nodes}x4:gb200")
    assert changed.levels == asked.levels
    racks = [[note for note in each.assumptions if note.startswith("Racks")] for each in (changed, asked)]
    assert racks[0] == racks[1]

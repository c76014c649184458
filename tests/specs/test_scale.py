"""Scale: links between nodes are another speed, and nothing else is another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.specs.cluster import Cluster
from meshwright.specs.quantities import LEAST_BANDWIDTH, MOST
from meshwright.specs.read_cluster import read_cluster
from meshwright.specs.scale import network_levels, with_network
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

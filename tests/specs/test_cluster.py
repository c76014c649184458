"""The cluster specification: its rules, and that a written cluster reads back."""

from __future__ import annotations

import pytest

from meshwright.errors import InvalidSpec
from meshwright.specs.cluster import Cluster, Level
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.specs.reading.cluster import read_cluster


def level(name: str, size: int) -> Level:
    return Level(name=name, size=size, bandwidth="50GB/s", latency_s="5us")


def test_quantities_may_carry_their_unit() -> None:
    assert level("leaf", 8).bandwidth == 50e9
    assert level("leaf", 8).latency_s == pytest.approx(5e-6)


def test_oversubscription_divides_the_bandwidth() -> None:
    assert level("spine", 64).replace(oversubscription=4.0).effective_bandwidth == 12.5e9


def test_every_broken_rule_is_told() -> None:
    with pytest.raises(InvalidSpec) as refused:
        Cluster(
            name="bad",
            accelerator=read_accelerator("h100"),
            num_nodes=8,
            gpus_per_node=8,
            levels=(level("nvlink", 6), level("leaf", 16), level("spine", 40)),
        )
    assert [fault.where for fault in refused.value.faults] == [
        "levels[0].size",
        "levels[1].size",
        "levels[2].size",
        "levels[2].size",
    ]


@pytest.mark.parametrize("text", ["8x8:h100", "20x4:gb200", "meta-24k", "dgx-2"])
def test_a_cluster_survives_its_own_json(text: str) -> None:
    cluster = read_cluster(text)
    assert Cluster.model_validate_json(cluster.model_dump_json()) == cluster


def test_a_cluster_does_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        read_cluster("1x8:h100").levels[0].size = 4  # type: ignore[misc]

"""Cluster files: the documented form, defaults, and every way to get it wrong."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from meshwright.errors import InvalidInput, InvalidSpec
from meshwright.specs.reading.cluster import read_cluster
from meshwright.units import GIB

DOCUMENT = Path(__file__).parents[3] / "docs" / "cluster.md"
EXAMPLES = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
NVLINK = {"name": "nvlink", "size": 8, "bandwidth": "450GB/s"}
SPINE = {"name": "spine", "size": 32, "bandwidth": "400Gb/s"}


def test_the_documented_short_file_shares_adapters() -> None:
    cluster = read_cluster(tomllib.loads(EXAMPLES[0]))
    assert [(level.size, level.bandwidth) for level in cluster.levels] == [(8, 300e9), (64, 12.5e9)]
    assert cluster.site_derate == 1.1
    assert cluster.accelerator.visible_memory_bytes == pytest.approx(79.1 * GIB)
    assert not any("Network" in note for note in cluster.assumptions)


def test_the_documented_full_file_reads_from_disk(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(EXAMPLES[1], "utf-8")
    for given in (path, str(path)):
        cluster = read_cluster(given)
        assert (cluster.name, cluster.num_gpus) == ("two-tier", 512)
        assert [level.effective_bandwidth for level in cluster.levels] == [450e9, 50e9, 25e9]
        assert [level.latency_s for level in cluster.levels] == pytest.approx([3.4e-6, 5e-6, 9e-6])


def test_the_documented_accelerator_is_like_a_catalogued_one() -> None:
    cluster = read_cluster(tomllib.loads(EXAMPLES[2]))
    assert (cluster.accelerator.id, cluster.accelerator.memory_bandwidth) == ("h100-capped", 3e12)
    assert cluster.gpus_per_node == 8


def test_a_file_without_a_name_is_called_after_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('accelerator = "h100"', "utf-8")
    assert read_cluster(path).name == "mine"


def test_levels_inside_a_node_and_adapters_around_it() -> None:
    cluster = read_cluster(
        {
            "accelerator": "a100",
            "nodes": 3,
            "nics_per_node": 2,
            "nic_bandwidth": "200Gb/s",
            "levels": [
                {"name": "nvlink", "size": 2, "bandwidth": "300GB/s"},
                {"name": "pcie", "size": 8, "bandwidth": 32e9},
            ],
        }
    )
    assert [(level.name, level.size, level.bandwidth) for level in cluster.levels] == [
        ("nvlink", 2, 300e9),
        ("pcie", 8, 32e9),
        ("fabric", 24, 6.25e9),
    ]


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"nodes": 0}, "nodes", "greater than 0"),
    ({"nodes": 2.5}, "nodes", "must be a whole number (given: 2.5)"),
    ({"nodes": 10**8}, "nodes", "less than or equal to 10000000"),
    ({"nodes": 10**6, "gpus_per_node": 16}, "nodes", "16000000 accelerators in all; at most 10000000"),
    ({"nics_per_node": 10**400, "nic_bandwidth": 1}, "nics_per_node", "less than or equal to"),
    ({"gpu_per_node": 8}, "gpu_per_node", "is not a field; nearest: gpus_per_node"),
    ({"accelerator": "h1000"}, "accelerator", "nearest: h100-sxm-80gb"),
    ({"accelerator": 5}, "accelerator", "write a name such as h100"),
    (
        {"accelerator": {"like": "h100", "memory_bandwith": 1}},
        "accelerator.memory_bandwith",
        "nearest: memory_bandwidth",
    ),
    ({"accelerator": {"like": "h100", "kernels": "h1000"}}, "accelerator", "unknown kernel 'h1000'"),
    ({"accelerator": {"id": "x"}}, "accelerator.peak_flops", "is missing"),
    ({"nics_per_node": 4}, "nic_bandwidth", "go together"),
    ({"nic_bandwidth": "400Gb/s"}, "nics_per_node", "go together"),
    ({"nics_per_node": 4, "nic_bandwidth": "fast"}, "nic_bandwidth", "400Gb/s"),
    ({"nics_per_node": 4, "nic_bandwidth": "1Gb/s", "levels": [NVLINK, SPINE]}, "nics_per_node", "level 'spine'"),
    ({"site_derate": 0.4}, "site_derate", "greater than or equal to 0.5"),
    ({"site_derate": float("nan")}, "site_derate", "finite"),
    ({"visible_memory": "80"}, "visible_memory", "79.6GiB"),
    ({"visible_memory": "10TB"}, "visible_memory", "exceeds memory_bytes"),
    ({"gpus_per_node": 64}, "gpus_per_node", "nearest: 16"),
    ({"levels": [NVLINK]}, "levels[0].size", "the cluster has 4 x 8 = 32"),
    ({"levels": [NVLINK, SPINE | {"size": 36}]}, "levels[1].size", "whole number"),
    ({"levels": [NVLINK, SPINE | {"size": 8}]}, "levels[1].size", "whole number"),
    ({"levels": [NVLINK | {"size": 3}, SPINE | {"size": 48}]}, "levels[0].size", "must divide the 8 ranks of a node"),
    ({"levels": [NVLINK | {"bandwidth": 0}, SPINE]}, "levels[0].bandwidth", "greater than 0"),
    ({"levels": [NVLINK | {"bandwidth": "-1GB/s"}, SPINE]}, "levels[0].bandwidth", "not a bandwidth"),
    ({"levels": [NVLINK | {"bandwidth": float("inf")}, SPINE]}, "levels[0].bandwidth", "finite"),
    ({"levels": [NVLINK, SPINE | {"oversubscription": 0.5}]}, "levels[1].oversubscription", "equal to 1"),
    ({"levels": [NVLINK, SPINE | {"latency": "soon"}]}, "levels[1].latency", "5us"),
    ({"levels": [NVLINK, SPINE | {"bandwith": 1}]}, "levels[1].bandwith", "nearest: bandwidth"),
    ({"levels": [{"size": 8}, SPINE]}, "levels[0].name", "is missing"),
    ({"levels": "nvlink"}, "levels", "must be a list (given: 'nvlink')"),
    ({"levels": [8]}, "levels[0]", "must be a table (given: 8)"),
]


@pytest.mark.parametrize(("change", "where", "what"), WRONG)
def test_a_wrong_file_is_refused_at_the_right_place(change: dict[str, Any], where: str, what: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        read_cluster({"accelerator": "h100", "nodes": 4, **change})
    told = [fault.what for fault in refused.value.faults if fault.where == where]
    assert any(what in text for text in told), refused.value


def test_every_fault_of_a_file_is_told_at_once() -> None:
    with pytest.raises(InvalidSpec) as refused:
        read_cluster(
            {
                "accelerator": "h1000",
                "nodes": 0,
                "gpu_per_node": 8,
                "nics_per_node": 4,
                "levels": [NVLINK | {"bandwidth": "-5GB/s"}, SPINE | {"size": 12, "oversubscription": 0.5}],
            }
        )
    assert {fault.where for fault in refused.value.faults} == {
        "accelerator",
        "nodes",
        "gpu_per_node",
        "nic_bandwidth",
        "levels[0].bandwidth",
        "levels[1].size",
        "levels[1].oversubscription",
    }


def test_a_file_without_an_accelerator_says_so() -> None:
    with pytest.raises(InvalidSpec, match="accelerator: is missing"):
        read_cluster({"nodes": 2})


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"nodes = = 2\n", "line 1"),
        (b'accelerator = "h100"\nnodes = 2\nnodes = 3\n', "line 3"),
        (b"\x00\xff\xfe\x89PNG", "not UTF-8"),
        (b"\x00\x01", "line 1"),
        (b"", "accelerator: is missing"),
    ],
)
def test_a_file_that_is_no_cluster_file(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "site.toml"
    path.write_bytes(content)
    with pytest.raises(InvalidInput) as refused:
        read_cluster(path)
    assert told in str(refused.value)
    assert "site.toml" in str(refused.value)


def test_a_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").touch()
    with pytest.raises(InvalidInput, match=r"no cluster file .*clutser\.toml.*nearest: cluster\.toml"):
        read_cluster(tmp_path / "clutser.toml")
    with pytest.raises(InvalidInput, match="cannot read"):
        read_cluster(tmp_path)
    with pytest.raises(InvalidInput, match="cannot read"):
        read_cluster("nul\0.toml")


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bom.toml"
    path.write_bytes(b'\xef\xbb\xbfaccelerator = "h100"\n')
    assert read_cluster(path).num_gpus == 8

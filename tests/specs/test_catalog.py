"""The catalogue of accelerators, kernels and clusters: complete, sourced, unambiguous, and right."""

from __future__ import annotations

from itertools import pairwise

import pytest

from meshwright.errors import InvalidSpec, UnknownName
from meshwright.specs import catalog
from meshwright.specs.catalog import Kind
from meshwright.specs.kernels import Operation
from meshwright.specs.reading.accelerator import read_accelerator, read_kernels
from meshwright.specs.reading.cluster import read_cluster
from meshwright.units import GIB

PUBLISHED_NAMES = (
    "A100-SXM-40GB",
    "A100-SXM-80GB",
    "A800-80GB",
    "B200-SXM-180GB",
    "B300-SXM-288GB",
    "GB200-NVL72-186GB",
    "GB300-NVL72-288GB",
    "H20-SXM-96GB",
    "H100-SXM-64GB",
    "H100-SXM-80GB",
    "H100-SXM-96GB",
    "H200-SXM-141GB",
    "V100-SXM3-32GB",
)
"""How published training runs write their accelerators."""

ACCELERATORS = catalog.names("accelerators")
OPERATIONS: frozenset[Operation] = frozenset(("all_reduce", "all_gather", "reduce_scatter", "all_to_all"))


@pytest.mark.parametrize("name", ACCELERATORS)
def test_every_accelerator_loads_with_sources(name: str) -> None:
    accelerator = read_accelerator(name)
    assert accelerator.id == name
    assert {"flops", "memory", "links", "compute_capability", "latency"} <= accelerator.sources.keys()
    assumed = [str(note) for note in accelerator.assumed]
    assert accelerator.compute_capability
    assert "multiprocessors" in accelerator.sources or any("multiprocessors" in note for note in assumed)
    assert "visible" in accelerator.sources or any("Visible" in note for note in assumed)
    assert "nic" in accelerator.sources


@pytest.mark.parametrize("name", ACCELERATORS)
def test_an_accelerator_is_physically_plausible(name: str) -> None:
    accelerator = read_accelerator(name)
    assert accelerator.nic_bandwidth <= accelerator.scale_up_bandwidth <= accelerator.memory_bandwidth
    assert 0.92 * GIB / 1e9 <= accelerator.visible_memory_bytes / accelerator.memory_bytes <= 1.0 * GIB / 1e9
    peaks = accelerator.peak_flops
    assert peaks["fp16"] == peaks.get("bf16", peaks["fp16"])
    assert peaks.get("fp32", 0) < peaks["fp16"] < peaks.get("fp8", float("inf"))
    assert accelerator.scale_up_domain % accelerator.node_size == 0


def test_the_visible_share_of_an_unknown_accelerator_is_the_least_published_one() -> None:
    known = [each for each in map(read_accelerator, ACCELERATORS) if "visible" in each.sources]
    least = min(each.visible_memory_bytes / GIB / (each.memory_bytes / 1e9) for each in known)
    assert catalog.table("accelerator_defaults")["visible_share"] == int(100 * least) / 100


@pytest.mark.parametrize("name", catalog.names("kernels"))
def test_every_kernel_table_loads_with_sources(name: str) -> None:
    kernels = read_kernels(name)
    demanded = {"gemm", "attention", "unaligned", "head_multiple", "communication", "expert_exchange"}
    assert demanded <= kernels.sources.keys()
    assert kernels.collectives or any("Collectives" in str(note) for note in kernels.assumed) or name == "assumed"
    assert kernels.attention.backward_ratio > 2


@pytest.mark.parametrize("name", catalog.names("kernels"))
def test_a_library_of_collectives_says_what_it_has_from_another(name: str) -> None:
    library = read_kernels(name).library
    assert library.sources
    assert library.assumed or library.all_to_all.assumed


@pytest.mark.parametrize("name", [name for name in catalog.names("kernels") if read_kernels(name).collectives])
def test_measured_collectives_cover_every_operation_by_growing_groups(name: str) -> None:
    collectives = read_kernels(name).collectives
    assert set(collectives) == OPERATIONS
    for constants in collectives.values():
        ranks = [constant.ranks for constant in constants]
        assert ranks in ([2, 4], [2, 4, 8])
        assert all(constant.bandwidth < 1e12 and constant.latency_s < 1e-4 for constant in constants)


def test_measured_collectives_stay_below_the_link() -> None:
    measured = [
        (accelerator, operation, constants)
        for accelerator in map(read_accelerator, ACCELERATORS)
        for operation in OPERATIONS - {"all_reduce"}
        for constants in accelerator.kernels.collectives.get(operation, ())
    ]
    assert measured
    faster = [each for each in measured if each[2].bandwidth > each[0].scale_up_bandwidth]
    assert [(accelerator.id, operation) for accelerator, operation, _ in faster] == []


@pytest.mark.parametrize("name", catalog.names("clusters"))
def test_every_cluster_loads_with_sources_and_widens_outwards(name: str) -> None:
    cluster = read_cluster(name)
    assert cluster.name == name
    assert cluster.sources
    for inner, outer in pairwise(cluster.levels):
        assert outer.effective_bandwidth <= inner.effective_bandwidth
        assert outer.latency_s >= inner.latency_s
    assert cluster.levels[-1].size == cluster.num_gpus


@pytest.mark.parametrize("kind", ["accelerators", "clusters", "kernels", "library"])
def test_no_name_means_two_things(kind: Kind) -> None:
    names = [alias.lower().replace("_", "-") for id_ in catalog.names(kind) for alias in _names(kind, id_)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", PUBLISHED_NAMES)
def test_names_of_published_runs_resolve(name: str) -> None:
    for written in (name, name.lower(), name.replace("-", "_")):
        assert catalog.resolve("accelerators", written) == catalog.resolve("accelerators", name)


@pytest.mark.parametrize(
    ("alias", "id_"),
    [
        ("h100", "h100-sxm-80gb"),
        ("A100", "a100-sxm-80gb"),
        ("a100_sxm", "a100-sxm-80gb"),
        ("gb200", "gb200-nvl72"),
        ("V100-SXM3-32GB", "v100-sxm-32gb"),
    ],
)
def test_short_names(alias: str, id_: str) -> None:
    assert catalog.resolve("accelerators", alias) == id_


@pytest.mark.parametrize(
    ("name", "visible_gib", "peak_tflops"),
    [
        ("a100", 79.15, 312.0),
        ("h100", 79.10, 989.4),
        ("h200", 139.80, 989.4),
        ("b200", 178.35, 2250.0),
        ("b300", 267.99, 2250.0),
        ("gb200", 184.43, 2500.0),
        ("gb300", 276.95, 2500.0),
        ("l40s", 44.39, 362.0),
        ("h20", 95.58, 148.0),
        ("rtx-4090", 23.64, 165.2),
    ],
)
def test_known_memory_and_peaks(name: str, visible_gib: float, peak_tflops: float) -> None:
    accelerator = read_accelerator(name)
    assert accelerator.visible_memory_bytes / GIB == pytest.approx(visible_gib, abs=0.005)
    assert accelerator.peak_flops["bf16"] == peak_tflops * 1e12


def test_known_kernel_constants_of_h100() -> None:
    kernels = read_accelerator("h100").kernels
    assert kernels.gemm.tile is not None
    assert kernels.gemm.launch_s == pytest.approx(2.5615e-6)
    node = kernels.collectives["all_reduce"][-1]
    assert node.ranks == 8
    assert [node.latency_s, node.root_s, node.bandwidth] == pytest.approx([15.37e-6, 0.2068e-6, 481e9])


def test_v100_has_no_bf16() -> None:
    assert "bf16" not in read_accelerator("v100").peak_flops


@pytest.mark.parametrize(
    ("kind", "name", "nearest"),
    [
        ("accelerators", "h10", "h100-sxm-80gb"),
        ("runtimes", "fsdp2x", "torchtitan"),
        ("clusters", "dgxh100", "dgx-h100"),
    ],
)
def test_the_nearest_names_are_found_by_aliases_too(kind: Kind, name: str, nearest: str) -> None:
    with pytest.raises(UnknownName, match=f"nearest: {nearest}"):
        catalog.resolve(kind, name)


def test_an_unknown_accelerator_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"unknown accelerator 'h1000'; nearest: h100"):
        read_accelerator("h1000")


def test_an_accelerator_like_another_keeps_the_rest_and_says_so() -> None:
    capped = read_accelerator({"like": "h100", "id": "capped", "memory_bandwidth": "3000GB/s", "assumed": ["guess"]})
    assert capped.memory_bandwidth == 3e12
    assert capped.kernels.id == "h100"
    assert capped.aliases == ()
    assert capped.assumed == ("guess", "Taken from h100-sxm-80gb, with its own id, memory_bandwidth.")


def test_an_accelerator_of_ones_own_gets_stated_defaults() -> None:
    own = read_accelerator(
        {
            "id": "own",
            "peak_flops": {"bf16": 1e15},
            "memory_bytes": "100GB",
            "memory_bandwidth": "4TB/s",
            "multiprocessors": 128,
            "scale_up_bandwidth": "300GB/s",
            "scale_up_domain": 8,
            "scale_up_name": "link",
            "node_size": 8,
            "nic_bandwidth": "25GB/s",
        }
    )
    assert own.kernels.id == "assumed"
    assert own.visible_memory_bytes == pytest.approx(92 * GIB)
    assert own.scale_up_latency_s == read_accelerator("h100").scale_up_latency_s
    assert len(own.assumed) == 3


@pytest.mark.parametrize(
    "wrong", [{"memory_bytes": "many"}, {"peak_flops": {}}, {"peak_flops": {"bf16": float("inf")}}]
)
def test_a_wrong_field_of_an_accelerator_is_told_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidSpec) as refused:
        read_accelerator({"like": "h100", **wrong})
    assert all(fault.where.startswith(next(iter(wrong))) for fault in refused.value.faults)


def _names(kind: Kind, id_: str) -> tuple[str, ...]:
    return (id_, *catalog.load(kind, id_).get("aliases", ()))

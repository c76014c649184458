"""Clusters in short form and by catalogue name."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.errors import InvalidInput, InvalidSpec
from meshwright.specs import catalog
from meshwright.specs.cluster import MAX_GPUS
from meshwright.specs.reading.cluster import read_cluster


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("8x8:h100", [("nvlink", 8, 450e9), ("fabric", 64, 50e9)]),
        ("1x1:h100", [("nvlink", 1, 450e9)]),
        ("1x8:H100-SXM-80GB", [("nvlink", 8, 450e9)]),
        ("4x4:h100", [("nvlink", 4, 450e9), ("fabric", 16, 50e9)]),
        ("2x1:h100", [("nvlink", 1, 450e9), ("fabric", 2, 50e9)]),
        ("18x4:gb200", [("nvlink", 72, 900e9)]),
        ("8x4:gb200", [("nvlink", 32, 900e9)]),
        ("64x4:gb200", [("nvlink", 64, 900e9), ("fabric", 256, 50e9)]),
        ("20x4:gb200", [("nvlink", 40, 900e9), ("fabric", 80, 50e9)]),
        ("19x4:gb200", [("nvlink", 72, 900e9), ("fabric", 144, 50e9)]),
        ("36x4:gb200", [("nvlink", 72, 900e9), ("fabric", 144, 50e9)]),
        ("2x16:v100", [("nvlink", 16, 150e9), ("fabric", 32, 12.5e9)]),
        ("2x8:l40s", [("pcie", 8, 32e9), ("fabric", 16, 25e9)]),
        (" 8 X 8 : h100 ", [("nvlink", 8, 450e9), ("fabric", 64, 50e9)]),
    ],
)
def test_the_short_form_builds_the_usual_levels(text: str, levels: list[tuple[str, int, float]]) -> None:
    cluster = read_cluster(text)
    assert [(level.name, level.size, level.bandwidth) for level in cluster.levels] == levels


@pytest.mark.parametrize(("name", "hop"), [("nvlink", 3.4e-6), ("fabric", 14e-6)])
def test_latencies_are_those_of_nccl(name: str, hop: float) -> None:
    levels = {level.name: level.latency_s for level in read_cluster("8x8:h100").levels}
    assert levels[name] == hop


def test_the_network_of_the_short_form_is_an_assumption() -> None:
    cluster = read_cluster("8x8:h100")
    assert any("50 GB/s per accelerator" in note and "h100-sxm-80gb" in note for note in cluster.assumptions)
    assert not any("Network" in note for note in read_cluster("1x8:h100").assumptions)


def test_an_unusual_node_is_an_assumption() -> None:
    assert any("the usual h100-sxm-80gb node has 8" in note for note in read_cluster("4x4:h100").assumptions)
    assert any("One nvlink domain over the 16" in note for note in read_cluster("2x16:v100").assumptions)


@pytest.mark.parametrize(("text", "size"), [("64x4:gb200", 64), ("20x4:gb300", 40)])
def test_racks_that_are_used_in_part_are_an_assumption(text: str, size: int) -> None:
    (note,) = (note for note in read_cluster(text).assumptions if note.startswith("Racks"))
    assert note == f"Racks: {size} of the 72 accelerators of each nvlink domain, equal segments of {size // 4} nodes."


@pytest.mark.parametrize("text", ["18x4:gb200", "8x4:gb200", "19x4:gb200", "36x4:gb200", "8x8:h100"])
def test_racks_that_are_filled_are_none(text: str) -> None:
    assert not any(note.startswith("Racks") for note in read_cluster(text).assumptions)


@settings(deadline=None)
@given(st.integers(1, 5000), st.integers(1, 16), st.sampled_from(["h100", "gb200", "l40s", "mi300x"]))
def test_any_sensible_short_form_holds_every_rank(nodes: int, gpus: int, accelerator: str) -> None:
    cluster = read_cluster(f"{nodes}x{gpus}:{accelerator}")
    assert cluster.num_gpus == nodes * gpus <= cluster.levels[-1].size
    assert cluster.levels[-1].size - cluster.levels[0].size < cluster.num_gpus or len(cluster.levels) == 1


def test_a_catalogue_name_with_and_without_nodes() -> None:
    assert read_cluster("dgx-h100").num_gpus == 8
    sixteen = read_cluster("16xDGX_H100")
    assert (sixteen.name, sixteen.num_nodes, sixteen.levels[-1].bandwidth) == ("16xdgx-h100", 16, 50e9)
    assert not any("Nodes:" in note for note in sixteen.assumptions)


def test_part_of_a_catalogued_cluster_says_so() -> None:
    trays = read_cluster("4xgb200-nvl72")
    assert trays.num_gpus == 16
    told = "Nodes: 4, where the catalogued dgx-gb200 has 18; 4 racks are 72xdgx-gb200."
    assert told in trays.assumptions
    assert read_cluster("72xdgx-gb200").num_gpus == 4 * read_cluster("gb200-nvl72").num_gpus


def test_a_shared_adapter_is_divided_among_the_accelerators() -> None:
    assert read_cluster("2xaws-p4d").levels[-1].bandwidth == 6.25e9


def test_oversubscribed_levels_are_kept_only_as_far_as_they_are_needed() -> None:
    whole = read_cluster("meta-24k")
    assert whole.levels[-1].effective_bandwidth == pytest.approx(50e9 / 7)
    assert [level.name for level in read_cluster("32xmeta-24k").levels] == ["nvlink", "pod"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0x8:h100", ["'0x8:h100'", "start at 1", "1x8:h100"]),
        ("8x0:h100", ["start at 1", "8x8:h100"]),
        ("8x8", ["'8x8'", "no accelerator", "8x8:h100"]),
        ("8x8:", ["'8x8:'", "no accelerator", "8x8:h100"]),
        ("8x8:h1000", ["'h1000'", "nearest", "h100-sxm-80gb"]),
        ("x8:h100", ["'x8:h100'", "nodes and GPUs are missing", "1x8:h100"]),
        ("h100", ["'h100'", "nodes and GPUs are missing", "1x8:h100"]),
        ("gb200", ["1x4:gb200"]),
        ("-1x8:h100", ["'-1x8:h100'", "1x8:h100"]),
        ("0xdgx-h100", ["start at 1", "1xdgx-h100"]),
        ("4xdgxh100", ["'dgxh100'", "nearest: dgx-h100"]),
        ("selena", ["'selena'", "nearest: selene", "8x8:h100"]),
        ("", ["''", "write NODESxGPUS:ACCELERATOR"]),
        ("::", ["'::'", "write NODESxGPUS:ACCELERATOR"]),
        ("99999999x8:h100", ["99999999", str(MAX_GPUS)]),
        ("9" * 30 + "x8:h100", ["more than any cluster holds"]),
        ("1x1000:h100", ["gpus_per_node", "1000", "nearest: 16"]),
        ("9999xselene/none.toml", ["no cluster file"]),
        ("8xl40s", ["'l40s' is an accelerator: write NODESxGPUS:ACCELERATOR, for example 1x8:l40s"]),
        ("4x4090", ["'4090' is an accelerator", "for example 1x4:4090"]),
        ("4x5090", ["unknown accelerator '5090'", "rtx-4090", "goes into a TOML file", "docs/cluster.md"]),
        ("1x8:rtx-5090", ["'rtx-5090'; nearest: rtx-4090-24gb", "goes into a TOML file", "docs/cluster.md"]),
        ("8xrtx 5090", ["'rtx 5090'", "goes into a TOML file"]),
        ("4:h100", ["'4:h100'", "nodes and GPUs are missing", "nearest: 1x4:h100"]),
        ("64:h100", ["nearest: 8x8:h100"]),
        ("2x8xh100", ["'2x8xh100' has no colon", "nearest: 2x8:h100"]),
        ("64xh100", ["'h100' is an accelerator", "8x8:h100"]),
        ("12xh100", ["3x4:h100"]),
        ("0xh100", ["1x8:h100"]),
        ("16x8:p4d", ["'p4d' is a cluster: write 16xp4d"]),
        ("0x8: aws-p4d ", ["'aws-p4d' is a cluster: write 1xaws-p4d"]),
        ("5000xmeta-24k", ["24576", "5000 x 8 = 40000"]),
    ],
)
def test_what_cannot_be_read_is_refused_with_value_rule_and_nearest(text: str, told: list[str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_cluster(text)
    assert [part for part in told if part not in str(refused.value)] == []


def test_an_accelerator_that_is_not_listed_is_planned_from_a_file_as_the_refusal_says() -> None:
    table = {"nodes": 1, "gpus_per_node": 4, "accelerator": {"like": "l40s", "id": "rtx-5090", "memory_bytes": "32GB"}}
    accelerator = read_cluster(table).accelerator
    assert accelerator.id == "rtx-5090"
    assert 0.9 * 32e9 < accelerator.visible_memory_bytes < 32e9
    assert any("Visible memory: " in str(each) and "of the label" in str(each) for each in accelerator.assumed)


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        assert read_cluster(text).num_gpus


def test_every_catalogued_accelerator_makes_a_cluster() -> None:
    for name in catalog.names("accelerators"):
        assert read_cluster(f"3x4:{name}").num_gpus == 12


def test_a_cluster_file_names_another_library_of_collectives() -> None:
    usual, other = (read_cluster({"accelerator": "h100", "nodes": 2, **more}) for more in ({}, {"library": "nccl-efa"}))
    assert (usual.library.id, other.library.id) == ("nccl", "nccl-efa")
    assert other.accelerator.id == usual.accelerator.id
    assert read_cluster("2xaws-p5").library == other.library
    with pytest.raises(InvalidSpec, match="library: unknown library 'nccl-ef'; nearest: nccl-efa"):
        read_cluster({"accelerator": "h100", "library": "nccl-ef"})


def test_fused_dispatchers_do_not_run_between_nodes_over_efa() -> None:
    clusters = [read_cluster(each) for each in ("2x8:h100", "1xaws-p5", "2xaws-p5", "2x8:a100")]
    assert [each.runs_fused_dispatch for each in clusters] == [True, True, False, False]

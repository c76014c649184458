"""The metadata that ship as examples are what the stated formulas give, and the page shows what is computed."""

from __future__ import annotations

import doctest
import json
from pathlib import Path
from typing import Any

import pytest

from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.reading.model import read_model
from meshwright.specs.weights import parameter_count
from meshwright.textbook import Searcher, cluster_metadata_of, model_metadata_of
from meshwright.textbook.metadata import CLUSTER_OPTIONAL, CLUSTER_REQUIRED, MODEL_OPTIONAL, MODEL_REQUIRED

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "textbook"
SYSTEMS = [("2xdgx-a100", "llama-2-7b", 4096, 256), ("4xdgx-h100", "llama-3.1-8b", 8192, 128)]
PCIE_BYTES = {"2xdgx-a100": 31.5e9, "4xdgx-h100": 63.0e9}
"""One direction of 16 lanes: PCIe 4.0 and 5.0."""
SOCKET_BYTES = 32e9
"""One direction of one link between sockets at 16 GT/s and 16 bits."""


def read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((EXAMPLES / f"{name}.json").read_text("utf-8"))
    return document


@pytest.mark.parametrize(("cluster", "model", "sequence", "batch"), SYSTEMS)
def test_the_examples_follow_from_architecture_and_cluster(cluster: str, model: str, sequence: int, batch: int) -> None:
    host = {"bw_cpu_to_gpu": round(PCIE_BYTES[cluster] / 2**30, 4), "bw_cpu_to_cpu": round(SOCKET_BYTES / 2**30, 4)}
    assert read(cluster) == cluster_metadata_of(read_cluster(cluster)) | host
    assert read(model) == model_metadata_of(read_model(model), sequence, batch)
    assert set(read(cluster)) == {*CLUSTER_REQUIRED, *CLUSTER_OPTIONAL}
    assert set(read(model)) == {*MODEL_REQUIRED, *MODEL_OPTIONAL}


@pytest.mark.parametrize(("cluster", "model", "sequence", "batch"), SYSTEMS)
def test_their_figures_by_hand(cluster: str, model: str, sequence: int, batch: int) -> None:
    figures, architecture = read(model), read_model(model)
    hidden, vocabulary, count = 4096, architecture.vocab_size, parameter_count(architecture)
    tokens = sequence * batch
    matrices = count - 2 * vocabulary * hidden - (2 * 32 + 1) * hidden
    forward = 2 * tokens * (matrices + vocabulary * hidden) + 32 * batch * 4 * hidden * sequence**2 / 2
    assert sum(figures["layer_tflops"]) == pytest.approx(forward / 1e12, rel=1e-6)
    tensor = 2 * tokens * hidden / 2**20
    assert figures["layer_activation_MB"] == [tensor] * 32
    assert figures["tp_comm_sum_MB"] == 4 * 32 * tensor == sum(figures["tp_comm"])
    assert figures["dp_sum_gradient_MB"] == pytest.approx(2 * count / 2**20, abs=1e-4)
    site = read_cluster(cluster)
    assert read(cluster)["gpu_gflops"] == site.accelerator.peak_flops["bf16"] / 1e9
    assert read(cluster)["bw_inter_node"] == round(site.accelerator.nic_bandwidth / 2**30, 4)


def test_the_examples_can_be_searched(tmp_path: Path) -> None:
    for cluster, model, *_ in SYSTEMS:
        paths = EXAMPLES / f"{cluster}.json", EXAMPLES / f"{model}.json"
        dp, tp, pp = Searcher().search(*paths, tmp_path / "o.json")
        assert dp * tp * pp == read_cluster(cluster).num_gpus


def test_the_pages_examples_are_true(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    flags = doctest.NUMBER | doctest.ELLIPSIS if hasattr(doctest, "NUMBER") else doctest.ELLIPSIS
    result = doctest.testfile(str(ROOT / "docs" / "textbook.md"), module_relative=False, optionflags=flags)
    assert (result.failed, result.attempted > 4) == (0, True)

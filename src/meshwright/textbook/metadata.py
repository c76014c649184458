"""Metadata of the 3D searcher: what its two dictionaries must hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from meshwright.textbook.checks import Checks, read_object
from meshwright.textbook.degrees import MAX_GPUS

Metadata = Mapping[str, Any] | str | Path
"""A dictionary, or the path of a JSON file that holds one."""

CLUSTER_REQUIRED = ("n_node", "n_gpu_per_node", "gpu_gflops", "bw_gpu_to_gpu", "bw_inter_node")
CLUSTER_OPTIONAL = ("gpu_memory", "bw_cpu_to_gpu", "bw_cpu_to_cpu")
MODEL_REQUIRED = ("num_layers", "layer_tflops", "layer_activation_MB", "dp_sum_gradient_MB", "tp_comm_sum_MB")
MODEL_OPTIONAL = ("global_batch_size", "tp_comm")
"""Keys of the form that the cost model does not read; they may be left out."""


class ClusterFigures(NamedTuple):
    """What the cost model reads of the cluster."""

    n_node: int
    n_gpu_per_node: int
    gpu_gflops: float
    """GFLOP/s of one GPU."""
    bw_gpu_to_gpu: float
    """GB/s, 1 GB = 1024 MB."""
    bw_inter_node: float
    """GB/s, 1 GB = 1024 MB."""

    @property
    def num_gpus(self) -> int:
        """All GPUs of the cluster."""
        return self.n_node * self.n_gpu_per_node


class ModelFigures(NamedTuple):
    """What the cost model reads of the model."""

    num_layers: int
    layer_tflops: list[float]
    """Forward TFLOP of each layer."""
    layer_activation_MB: list[float]  # noqa: N815
    dp_sum_gradient_MB: float  # noqa: N815
    tp_comm_sum_MB: float  # noqa: N815


def read_metadata(source: Metadata, what: str) -> Mapping[str, Any]:
    """The dictionary itself, or the one in a JSON file; raises `InvalidInput` for a file that holds none."""
    return read_object(source, what) if isinstance(source, str | Path) else source


def figures(cluster_metadata: Any, model_metadata: Any) -> tuple[ClusterFigures, ModelFigures]:
    """What the cost model reads of both dictionaries; raises `InvalidSpec` with every fault of both."""
    checks = Checks("metadata")
    cluster, model = _cluster_figures(checks, cluster_metadata), _model_figures(checks, model_metadata)
    checks.done()
    return cluster, model


def _cluster_figures(checks: Checks, metadata: Any) -> ClusterFigures:
    where, least = "cluster_metadata", {"n_node": 1, "n_gpu_per_node": 1}
    table = checks.keys(where, metadata, CLUSTER_REQUIRED, CLUSTER_OPTIONAL)
    read: dict[str, Any] = dict.fromkeys(CLUSTER_REQUIRED, 1)
    for key, value in table.items():
        path = f"{where}.{key}"
        read[key] = checks.whole(path, value, most=MAX_GPUS) if key in least else checks.number(path, value)
    figures = ClusterFigures(**{key: read[key] for key in CLUSTER_REQUIRED})
    if figures.num_gpus > MAX_GPUS:
        checks.fault(f"{where}.n_node", f"makes {figures.num_gpus} GPUs; it must make {MAX_GPUS} at most")
    return figures


def _model_figures(checks: Checks, metadata: Any) -> ModelFigures:
    where = "model_metadata"
    table = checks.keys(where, metadata, MODEL_REQUIRED, MODEL_OPTIONAL)
    layers = checks.whole(f"{where}.num_layers", table["num_layers"]) if "num_layers" in table else None
    if "global_batch_size" in table:
        checks.whole(f"{where}.global_batch_size", table["global_batch_size"])
    if isinstance(table.get("tp_comm"), list | tuple):
        checks.numbers(f"{where}.tp_comm", table["tp_comm"])
    elif "tp_comm" in table:
        checks.number(f"{where}.tp_comm", table["tp_comm"], zero=True)
    lists = ("layer_tflops", "layer_activation_MB")
    tflops, sizes = (checks.numbers(f"{where}.{key}", table[key], layers) if key in table else [1.0] for key in lists)
    volumes = ("dp_sum_gradient_MB", "tp_comm_sum_MB")
    gradients, exchanged = (
        checks.number(f"{where}.{key}", table[key], zero=True) if key in table else 1.0 for key in volumes
    )
    return ModelFigures(
        num_layers=layers or 1,
        layer_tflops=tflops,
        layer_activation_MB=sizes,
        dp_sum_gradient_MB=gradients,
        tp_comm_sum_MB=exchanged,
    )

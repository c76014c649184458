"""Metadata of the 3D searcher for a real system, derived from an architecture and a cluster by stated formulas."""

from __future__ import annotations

from typing import Any

from meshwright.cost.compute.attention import attended_pairs
from meshwright.specs.cluster import Cluster
from meshwright.specs.model import LayerKind, Model
from meshwright.specs.weights import layer_weights, parameter_count
from meshwright.textbook.checks import Checks
from meshwright.units import GIB, GIGA

MIB = 2**20
TERA = 1e12
ELEMENT_BYTES = 2
ALL_REDUCES = 4
"""Of one layer with tensor parallelism, forward and backward (Shoeybi et al., arXiv:1909.08053)."""


def cluster_metadata_of(cluster: Cluster, precision: str = "bf16") -> dict[str, Any]:
    """The searcher's cluster metadata: GFLOP/s = dense peak / 1e9, MB = visible bytes / 2^20, GB/s = bytes/s / 2^30.

    cluster: nodes, GPUs and links; bw_gpu_to_gpu is one GPU's share of the innermost level, bw_inter_node of the first
    level beyond a node (of its network adapter where there is one node); precision: of the peak.
    Returns counts, GFLOP/s, MB and GB/s; the two CPU bandwidths, which the cost model does not read, are left out.
    Scope: one GPU, one direction. Source: the cluster's own. Raises `InvalidSpec`, a `ValueError`.

    >>> from meshwright import read_cluster
    >>> cluster_metadata_of(read_cluster("2x8:a100"))["gpu_gflops"]
    312000.0
    """
    checks = Checks("cluster_metadata_of")
    checks.choice("precision", precision, tuple(cluster.accelerator.peak_flops))
    checks.done()
    beyond = [level.effective_bandwidth for level in cluster.levels if level.size > cluster.gpus_per_node]
    return {
        "n_node": cluster.num_nodes,
        "n_gpu_per_node": cluster.gpus_per_node,
        "gpu_gflops": cluster.accelerator.peak_flops[precision] / GIGA,
        "gpu_memory": round(cluster.accelerator.visible_memory_bytes / MIB, 4),
        "bw_gpu_to_gpu": round(cluster.levels[0].effective_bandwidth / GIB, 4),
        "bw_inter_node": round((beyond or [cluster.accelerator.nic_bandwidth])[0] / GIB, 4),
    }


def model_metadata_of(model: Model, sequence_length: int, global_batch: int) -> dict[str, Any]:
    """The searcher's model metadata for one iteration of a job; everything is counted over the whole global batch.

    With T = G s tokens: a layer's forward TFLOP = (2 T N_matrices + 2 G a (d_qk + d_v) s^2 / 2) / 1e12, causal, the
    last layer with the head's 2 T h v; a layer's activation and message X = 2 T h / 2^20 MB; tensor parallelism
    all-reduces X four times per layer; gradients 2 N / 2^20 MB. Source: Narayanan et al., arXiv:2104.04473, equation 3
    (FLOPs); Shoeybi et al., arXiv:1909.08053 (all-reduces).

    model: architecture; sequence_length: s, tokens; global_batch: G, sequences. Returns counts, TFLOP and MB of 2^20
    bytes, 4 decimals; `tp_comm` is the list that `tp_comm_sum_MB` adds up. Scope: one iteration, before any split.
    Raises `InvalidSpec`, a `ValueError`.

    >>> from meshwright import read_model
    >>> metadata = model_metadata_of(read_model("llama-2-7b"), 4096, 1)
    >>> metadata["layer_activation_MB"][0], metadata["dp_sum_gradient_MB"]
    (32.0, 12852.5078)
    """
    checks = Checks("model_metadata_of")
    sequence = checks.whole("sequence_length", sequence_length)
    batch = checks.whole("global_batch", global_batch)
    checks.done()
    kinds = [_forward_flops(model, kind, sequence, batch) for kind in model.layer_kinds]
    flops = [kinds[index] for index in model.layer_pattern]
    flops[-1] += 2.0 * batch * sequence * model.hidden_size * model.vocab_size
    tensor = ELEMENT_BYTES * batch * sequence * model.hidden_size / MIB
    exchanged = [round(ALL_REDUCES * tensor, 4)] * model.num_layers
    return {
        "global_batch_size": batch,
        "num_layers": model.num_layers,
        "layer_tflops": [round(each / TERA, 4) for each in flops],
        "layer_activation_MB": [round(tensor, 4)] * model.num_layers,
        "dp_sum_gradient_MB": round(ELEMENT_BYTES * parameter_count(model) / MIB, 4),
        "tp_comm_sum_MB": round(sum(exchanged), 4),
        "tp_comm": exchanged,
    }


def _forward_flops(model: Model, kind: LayerKind, sequence: int, batch: int) -> float:
    weights = [weight for weight in layer_weights(model, kind) if weight.part != "norms"]
    matrices = sum(weight.elements if weight.active is None else weight.active for weight in weights)
    attention = kind.attention
    pairs = attention.heads * attended_pairs(sequence, attention.window)
    return 2.0 * batch * (sequence * matrices + (attention.head_dim + attention.value_head_dim) * pairs)

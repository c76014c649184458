"""What the all-reduces of tensor parallelism send, and how long that takes at a given bandwidth."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from meshwright.textbook.checks import Checks
from meshwright.textbook.exact import GIGABYTE, rounded


def ring_share(ranks: int) -> Fraction:
    """Bytes that one rank of a ring all-reduce sends, over the bytes of the tensor: 2 (n - 1) / n.

    ranks: n, GPUs in the ring. Returns a share without unit; 0 for one rank.
    Source: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, 2009.

    >>> ring_share(8)
    Fraction(7, 4)
    """
    return Fraction(2 * (ranks - 1), ranks)


def tensor_parallel_allreduce_cost(
    hidden_size: int,
    sequence_length: int,
    batch_size: int,
    num_gpus: int,
    num_layers: int,
    bytes_per_element: int = 2,
    bandwidth_gb_per_sec: float = 300.0,
    allreduces_per_layer: int = 2,
) -> dict[str, Any]:
    """Volume and time of the ring all-reduces that tensor parallelism needs, per GPU.

    message = B S H e; volume = 2 (n - 1) / n * message; total = volume * r * L;
    time = total / (bandwidth * 1e9) * 1e3, with n GPUs, L layers, e bytes per element and r all-reduces per layer.
    Source: Shoeybi et al., arXiv:1909.08053, section 3 (two all-reduces forward, two backward).

    hidden_size: H, elements; sequence_length: S, tokens; batch_size: B, sequences of one micro-batch; num_gpus: n,
    the tensor-parallel degree; num_layers: L, layers; bytes_per_element: e, bytes; bandwidth_gb_per_sec: what one GPU
    sends, 1e9 bytes/s, the bus bandwidth of nccl-tests (not its algorithm bandwidth); allreduces_per_layer: r, count:
    2 is the forward pass alone, training passes 4.

    Returns `message_size_bytes` (int, exact), `comm_volume_per_allreduce_bytes` and `total_comm_volume_bytes` (bytes
    sent by one GPU, 4 decimals) and `total_comm_time_ms` (ms, 4 decimals). Scope: one micro-batch through all layers,
    nothing hidden behind compute, no latency. Raises `InvalidSpec`, a `ValueError`, with every fault.

    >>> cost = tensor_parallel_allreduce_cost(4096, 2048, 1, num_gpus=8, num_layers=32)
    >>> cost["message_size_bytes"], cost["total_comm_volume_bytes"], cost["total_comm_time_ms"]
    (16777216, 1879048192.0, 6.2635)
    >>> tensor_parallel_allreduce_cost(4096, 2048, 1, num_gpus=1, num_layers=32)["total_comm_time_ms"]
    0.0
    """
    checks = Checks("tensor_parallel_allreduce_cost")
    elements = (
        checks.whole("hidden_size", hidden_size)
        * checks.whole("sequence_length", sequence_length)
        * checks.whole("batch_size", batch_size)
    )
    ranks, layers = checks.whole("num_gpus", num_gpus), checks.whole("num_layers", num_layers)
    message = elements * checks.whole("bytes_per_element", bytes_per_element)
    bandwidth = Fraction(checks.number("bandwidth_gb_per_sec", bandwidth_gb_per_sec)) * GIGABYTE
    times = checks.whole("allreduces_per_layer", allreduces_per_layer)
    checks.done()
    volume = ring_share(ranks) * message
    total = volume * times * layers
    return {
        "message_size_bytes": message,
        "comm_volume_per_allreduce_bytes": rounded(volume, "comm_volume_per_allreduce_bytes"),
        "total_comm_volume_bytes": rounded(total, "total_comm_volume_bytes"),
        "total_comm_time_ms": rounded(total / bandwidth * 1000, "total_comm_time_ms"),
    }

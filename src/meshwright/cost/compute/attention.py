"""Time of the attention core: fused, or with score matrices in memory."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.gemm import gemm_time
from meshwright.specs.cluster import Accelerator

QUERY_TILE = 128
EAGER_FORWARD_BYTES = 13
EAGER_BACKWARD_BYTES = 19


def attended_pairs(sequence: int, window: int | None) -> float:
    """Query-key pairs that a causal mask with a sliding window leaves, of one sequence and head.

    s^2 / 2 without a window, s w - w^2 / 2 with w < s (a token sees itself and w - 1 before it, to leading order).
    sequence, window: tokens. Returns pairs.

    >>> attended_pairs(8192, None)
    33554432.0
    >>> attended_pairs(8192, 1024)
    7864320.0
    """
    reach = min(window or sequence, sequence)
    return sequence * reach - reach**2 / 2


def fused_attention_time(
    batch: Ints,
    heads: Ints,
    width: int,
    sequence: int,
    window: int | None,
    accelerator: Accelerator,
    peak_flops: float,
    parts: Ints = 1,
    launches: Ints = 1,
) -> Floats:
    """Forward seconds of fused causal attention.

    t = l t0 + F / (eta peak) * (1 + s0 / s) * (1 + c n_sm / tiles), F = 2 b a (d_qk + d_v) pairs / r,
    tiles = b a ceil(s / (128 r)); under a window s is the mean reach doubled, so that no window changes nothing; of l
    kernels each sees an l-th of it. The rows of one sequence are dealt so that all r parts have the same work.

    batch: sequences, heads: per rank; scalar or array (n,); width: d_qk + d_v, elements; sequence, window: tokens;
    peak_flops: FLOP/s; parts: r, ranks that share the rows of a sequence; launches: l, kernels one after the other,
    each with a part of the keys; counts, scalar or array (n,). Returns seconds.
    Source: fitted to 24k measured kernels of head size 128 (aiconfigurator).
    Published error: 4-7 % median, 14-19 % p90.
    """
    constants = accelerator.kernels.attention
    pairs = attended_pairs(sequence, window)
    flop = 2.0 * batch * heads * width * pairs / parts
    short = 1 + constants.half_sequence * launches / (2 * pairs / sequence)
    tiles = batch * heads * np.ceil(sequence / parts / QUERY_TILE)
    idle = 1 + constants.occupancy * accelerator.multiprocessors / tiles
    return launches * constants.launch_s + flop / (constants.efficiency * peak_flops) * short * idle


def eager_attention_time(
    batch: Ints,
    heads: Ints,
    head_dim: int,
    value_head_dim: int,
    sequence: int,
    accelerator: Accelerator,
    peak_flops: float,
) -> tuple[Floats, Floats]:
    """Forward and backward seconds of attention that keeps full s x s scores in memory.

    Two products of all s^2 pairs forward and four backward, and 13 (forward) and 19 (backward) bytes moved per score.

    batch: sequences, heads: per rank; scalar or array (n,); head_dim, value_head_dim: elements; sequence: tokens;
    peak_flops: FLOP/s. Returns seconds. Source: Megatron-LM before flash attention, fused scale-mask-softmax-dropout.
    """
    rows = batch * heads * sequence
    products = gemm_time(rows, sequence, head_dim, accelerator, peak_flops)
    products = products + gemm_time(rows, value_head_dim, sequence, accelerator, peak_flops)
    scores = 1.0 * rows * sequence
    forward = products + elementwise_time(EAGER_FORWARD_BYTES * scores, accelerator)
    backward = 2 * products + elementwise_time(EAGER_BACKWARD_BYTES * scores, accelerator)
    return forward, backward

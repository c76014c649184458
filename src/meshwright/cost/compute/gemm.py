"""Time of a matrix product on one accelerator."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, Floats, IntColumn, Ints, Numbers, larger, multiplied, smaller
from meshwright.specs.cluster import Accelerator
from meshwright.specs.kernels import GemmConstants, NumberFormat, TileConstants
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES

TILES = np.array(
    [(128, 256), (256, 128), (256, 256), (128, 128), (64, 256), (256, 64), (128, 64), (64, 128), (128, 192), (192, 128)]
)
SPLITS = np.array([1, 2, 4])
SUMMED = np.where(SPLITS > 1, SPLITS, 0)
"""Partial sums of an output; split-K of 1 has none."""
REFERENCE_TILE = 128 * 256 / (128 + 256)
POWER_FLOP = 2e12
"""Of a product, in the form that `power_derate` is fitted in."""


def gemm_time(
    m: Numbers,
    n: Numbers,
    k: Numbers,
    accelerator: Accelerator,
    peak_flops: float,
    element_bytes: float = HALF_BYTES,
    number_format: NumberFormat = "half",
    groups: Ints = 1,
    sustained: float | None = None,
    unaligned: Floats = 1.0,
) -> Floats:
    """Seconds of C[m, n] = A[m, k] B[k, n] with 2-byte elements of C; quantising A and B is not in it.

    t = t0 + (compute^4 + memory^4)^(1/4); memory = (e (mk + kn) + 2mn) bytes / (eta_mem * bandwidth).
    Simple form: compute = 2mnk / (eta * peak). Tile form: the fastest of 10 tile shapes and split-K 1, 2, 4 of
    waves * 2 bm bn (k/split + k0) / (peak per multiprocessor * e), with a soft last wave, an efficiency e that falls
    on small tiles, and a power derate: 1 + delta tanh(F / 2e12) in the benchmark, whose long products alone came to
    the power limit, or what the limit costs when products run without end.

    m, n, k: elements, scalar or array (n,); peak_flops: dense peak of the operands' format, FLOP/s; element_bytes:
    bytes of an element of A or B (e); number_format: of A and B, which chooses the constants; groups: such products in
    one kernel, whose tiles share the multiprocessors, scalar or array (n,); sustained: `sustained_slowdown`, a share;
    None: as in the benchmark; unaligned: `unaligned_slowdown`, a share, scalar or array (n,), which the power limit
    adds nothing to, as kernels that do less draw less. Returns seconds.
    Source: fitted to 31k measured bf16 and fp8 and 7k nvfp4 shapes (aiconfigurator, SimuMax, ml-engineering tables).
    Published error on held-out shapes: tile form 2.6-5.0 % median, 7-15 % p90; simple form 4-7 % median; fp8 2.1-6.0 %
    and nvfp4 3.2-4.2 % median in the tile form.

    >>> from meshwright.specs.reading.examples import H100
    >>> seconds = float(gemm_time(8192, 8192, 8192, H100, H100.peak_flops["bf16"]))
    >>> round(seconds * 1e3, 2), round(2 * 8192**3 / seconds / 1e12)  # ms, TFLOP/s
    (1.45, 757)
    """
    constants = accelerator.kernels.products(number_format)
    bytes_moved = multiplied(groups, element_bytes * (m * k + k * n) + HALF_BYTES * (m * n))
    memory = bytes_moved / (constants.memory_efficiency * accelerator.memory_bandwidth)
    slower: Floats = 1.0 if sustained is None else sustained
    if constants.tile is None:
        compute: Floats = 2.0 * m * n * k * groups / (constants.efficiency * peak_flops)
    else:
        compute = _tile_time(m, n, k, groups, accelerator, peak_flops, constants, constants.tile)
        if sustained is None:
            slower = 1 + constants.tile.power_derate * np.tanh(2.0 * m * n * k * groups / POWER_FLOP)
    compute = compute * larger(slower, unaligned)
    return constants.launch_s + (compute**4 + memory**4) ** 0.25


def _tile_time(
    m: Numbers,
    n: Numbers,
    k: Numbers,
    groups: Ints,
    accelerator: Accelerator,
    peak_flops: float,
    constants: GemmConstants,
    tile: TileConstants,
) -> Floats:
    per_multiprocessor = peak_flops / accelerator.multiprocessors
    axes = np.broadcast(m, n, k, groups).ndim
    bm, bn, wave, split, summed = _tile_columns(per_multiprocessor, constants.efficiency, tile.tile_size, axes)
    # Tiles of each multiprocessor, and waves of them with a soft last one.
    tiles = multiplied(groups, np.ceil(m / bm)) * np.ceil(n / bn) / accelerator.multiprocessors
    load = split[:, None] * tiles
    waves = tile.wave_quantisation * np.ceil(load) + (1 - tile.wave_quantisation) * np.maximum(load, 1.0)
    # Seconds of all waves of the best tile shape, (3, n); k0 more of k stands for the prologue of each tile.
    fastest = np.minimum.reduce(waves * wave, axis=1) * (k / split + tile.prologue_k)
    bandwidth = accelerator.memory_bandwidth * constants.memory_efficiency
    # Partial sums of split-K are written and read in fp32.
    reduction = summed * (multiplied(groups, 2.0 * FP32_BYTES * m) * n / bandwidth)
    seconds: FloatColumn = np.minimum.reduce(fastest + reduction)
    return seconds


class _TileColumns(NamedTuple):
    """What is tried for a product, with as many axes of one behind as its sizes have."""

    bm: IntColumn
    """Of a tile, shape (10, ...)."""
    bn: IntColumn
    wave: FloatColumn
    """Seconds of a wave for each of k, shape (10, ...)."""
    split: IntColumn
    """Parts of k, shape (3, ...)."""
    summed: IntColumn
    """Partial sums of an output, shape (3, ...)."""


@lru_cache(maxsize=64)
def _tile_columns(peak_flops: float, efficiency: float, tile_size: float, axes: int) -> _TileColumns:
    """peak_flops: of one multiprocessor; axes: a count."""
    bm, bn = TILES.T
    # Reuse of a tile, elements, and the efficiency that falls on small tiles.
    size = bm * bn / (bm + bn)
    reached = efficiency * (1 + tile_size / REFERENCE_TILE) / (1 + tile_size / size)
    wave = 2 * bm * bn / (peak_flops * smaller(1.0, reached))
    return _TileColumns(*(each.reshape(-1, *(1,) * axes) for each in (bm, bn, wave, SPLITS, SUMMED)))

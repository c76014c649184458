"""Time of the attention core: fused, or with score matrices in memory."""

from __future__ import annotations

from typing import Literal, NamedTuple

from meshwright.arrays import Floats, Ints, Numbers, ceiling
from meshwright.cost.compute.alignment import unaligned_slowdown
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.gemm import gemm_time
from meshwright.cost.shard import Shard
from meshwright.specs.cluster import Accelerator
from meshwright.specs.kernels import AttentionConstants, AttentionLibrary, OlderAttention
from meshwright.specs.runtime.device import PassBytes

QUERY_TILE = KEY_TILE = 128
MEASURED_WIDTH = 256
"""d_qk + d_v of the heads that the constants of fused attention are fitted to."""


class AttentionGeneration(NamedTuple):
    """One generation of fused kernels on one accelerator."""

    slowdown: float
    """Time over the newest."""
    softmax_width: float
    softmax_backward: float
    row_width: float
    head_multiple: int


def generation_constants(
    constants: AttentionConstants,
    generation: Literal["newest"] | OlderAttention,
    library: AttentionLibrary = "newest",
) -> AttentionGeneration:
    """Constants of the kernels of a generation: newest, or one of `older`.

    constants: of the accelerator's kernel table; library: that the newest come from. Returns widths in elements and a
    share. Source: that table.

    >>> from meshwright.specs.reading.examples import H100
    >>> generation_constants(H100.kernels.attention, "flash-2")
    AttentionGeneration(slowdown=1.75, softmax_width=57.0, softmax_backward=1.0, row_width=0.0, head_multiple=32)
    """
    if generation == "newest":
        return AttentionGeneration(
            slowdown=constants.earlier.get(library, 1.0),
            softmax_width=constants.softmax_width,
            softmax_backward=constants.softmax_backward,
            row_width=constants.row_width,
            head_multiple=constants.head_multiple,
        )
    return AttentionGeneration(
        slowdown=constants.older[generation],
        softmax_width=constants.older_softmax_width,
        softmax_backward=constants.older_softmax_backward,
        row_width=0.0,
        head_multiple=constants.older_head_multiple,
    )


def attended_pairs(sequence: int, window: int | None) -> float:
    """Query-key pairs that a causal mask with a sliding window leaves, of one sequence and head.

    s^2 / 2 without a window, s w - w^2 / 2 with w < s (a token sees itself and w - 1 before it, to leading order).
    sequence, window: tokens. Returns pairs. Source: by definition of the mask.

    >>> attended_pairs(8192, None)
    33554432.0
    >>> attended_pairs(8192, 1024)
    7864320.0
    """
    reach = min(window or sequence, sequence)
    return sequence * reach - reach**2 / 2


def computed_pairs(sequence: int, window: int | None) -> float:
    """Query-key pairs that a kernel computes, of one sequence and head: whole tiles of 128 keys.

    The far edge of a sliding window cuts a tile in half on average: a + 64 (s - w), with a of `attended_pairs`. The
    tiles that the diagonal cuts are in the measured `half_sequence`, as no window changes nothing.
    sequence, window: tokens. Returns pairs. Source: tiles of FlashAttention-2, tests/data/attention_times.csv.

    >>> computed_pairs(8192, None) == attended_pairs(8192, None)
    True
    >>> computed_pairs(8192, 128) / attended_pairs(8192, 128)
    1.5
    """
    reach = min(window or sequence, sequence)
    return attended_pairs(sequence, window) + KEY_TILE / 2 * (sequence - reach)


def measured_widths(width: int, kernels: AttentionGeneration) -> tuple[float, float]:
    """Widths, forward and backward, that a head would have if all of its time were products at the measured pace.

    Below the measured 256 elements (d_qk + d_v) the exponentials, as many at any width, take as long as the products of
    s elements: w' = 256 (w + s) / (256 + s), with an s of each pass.
    width: w, elements. Returns elements. Source: exponentials limit attention, Shah et al., arXiv:2407.08608, section
    3.2, and together.ai/blog/flashattention-4; s from the accelerator's kernel table.

    >>> from meshwright.specs.reading.examples import H100
    >>> kernels = generation_constants(H100.kernels.attention, "newest")
    >>> measured_widths(256, kernels), measured_widths(320, kernels)
    ((256.0, 256.0), (320.0, 320.0))
    >>> [round(width / 256, 2) for width in measured_widths(128, kernels)]
    [0.7, 0.67]
    """
    if width >= MEASURED_WIDTH:
        return float(width), float(width)
    both = kernels.softmax_width, kernels.softmax_width * kernels.softmax_backward
    forward, backward = (MEASURED_WIDTH * (width + each) / (MEASURED_WIDTH + each) for each in both)
    return forward, backward


def computed_head(head_dim: int, multiple: int) -> int:
    """Head size that a fused kernel computes in place of `head_dim`: the next multiple of what it is compiled for.

    head_dim, multiple: elements. Returns elements. Source: `head_multiple` of the accelerator's kernel table.

    >>> computed_head(80, 64), computed_head(80, 32), computed_head(128, 64)
    (128, 96, 128)
    """
    return -(-head_dim // multiple) * multiple


def padding_bytes(head_dim: int, value_head_dim: int, shard: Shard, accelerator: Accelerator) -> Numbers:
    """Bytes moved each way to pad the heads of queries, keys and values, and to cut those of the output; 0 if aligned.

    head_dim, value_head_dim: elements; shard: sizes on the rank. Returns bytes, scalar or array (n,).
    Source: `head_alignment` and `padding_bytes` of the accelerator's kernel table.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import H100, LLAMA
    >>> shard = layer_shard(Plan(tp=8), LLAMA, LLAMA.model.layer_kinds[0])
    >>> elements = shard.tokens * (shard.query + shard.key + shard.value + shard.core)
    >>> [float(padding_bytes(head, head, shard, H100) / elements) for head in (128, 108)]
    [0.0, 9.0]
    """
    constants = accelerator.kernels.attention
    padded = head_dim % constants.head_alignment or value_head_dim % constants.head_alignment
    elements = 1.0 * shard.tokens * (shard.query + shard.key + shard.value + shard.core)
    return elements * (constants.padding_bytes if padded else 0)


def backward_over_forward(head_dim: int, constants: AttentionConstants) -> float:
    """Backward over forward time of fused attention of as many products: that of head size 128, more above it.

    head_dim: d_qk, elements; constants: of the accelerator's kernel table. Returns a ratio. Source: that table.

    >>> from meshwright.specs.reading.examples import H100
    >>> [backward_over_forward(head_dim, H100.kernels.attention) for head_dim in (128, 192)]
    [2.9, 3.625]
    """
    return constants.backward_ratio * (constants.wide_backward if head_dim > MEASURED_WIDTH // 2 else 1)


def fused_attention_time(
    batch: Numbers,
    heads: Numbers,
    width: float,
    sequence: int,
    window: int | None,
    accelerator: Accelerator,
    peak_flops: float,
    parts: Ints = 1,
    launches: Ints = 1,
    row_width: float = 0.0,
) -> Floats:
    """Seconds of fused causal attention, forward.

    t = l t0 + 2 b a / (r eta peak) (w' pairs + max(w', w_row) l s0 s / 2) (1 + c n_sm / tiles): the products of the
    pairs of `computed_pairs`, and what each of s rows takes beside, as much as s0 / 2 keys; tiles = b a ceil(s / (128
    r)). Of l kernels each sees an l-th of the keys. The rows of one sequence are dealt so that all r parts have the
    same work.

    batch: sequences, heads: per rank; scalar or array (n,); width: w' of `measured_widths`, elements; sequence, window:
    tokens; peak_flops: FLOP/s; parts: r, ranks that share the rows of a sequence; launches: l, kernels one after the
    other, each with a part of the keys; counts, scalar or array (n,); row_width: w_row, elements. Returns seconds.
    Source: fitted to 24k measured kernels of head size 128 (aiconfigurator); on Blackwell to kernels of training
    (tests/data/attention_times.csv). Published error: 4-7 % median, 14-19 % p90; of kernels of training 2-5 and 7-18.

    >>> from meshwright.specs.reading.examples import H100
    >>> seconds = fused_attention_time(1, 32, 256, 8192, None, H100, H100.peak_flops["bf16"])
    >>> round(float(seconds) * 1e3, 2), round(2 * 32 * 256 * 8192**2 / 2 / float(seconds) / 1e12)  # ms, TFLOP/s
    (0.98, 562)
    """
    constants = accelerator.kernels.attention
    rows = max(width, row_width) * constants.half_sequence * launches * sequence / 2
    flop = 2.0 * batch * heads * (width * computed_pairs(sequence, window) + rows) / parts
    tiles = batch * heads * ceiling(sequence / parts / QUERY_TILE)
    idle = 1 + constants.occupancy * accelerator.multiprocessors / tiles
    return launches * constants.launch_s + flop / (constants.efficiency * peak_flops) * idle


def eager_attention_time(
    batch: Ints,
    heads: Ints,
    head_dim: int,
    value_head_dim: int,
    sequence: int,
    accelerator: Accelerator,
    peak_flops: float,
    score_bytes: PassBytes,
) -> tuple[Floats, Floats]:
    """Forward and backward seconds of attention that keeps full s x s scores in memory.

    Two products of all s^2 pairs forward and four backward, and the bytes that are moved per score.

    batch: sequences, heads: per rank; scalar or array (n,); head_dim, value_head_dim: elements; sequence: tokens;
    peak_flops: FLOP/s; score_bytes: moved per score. Returns seconds. Source: Megatron-LM before flash attention, fused
    scale-mask-softmax-dropout.

    >>> from meshwright.specs.reading.examples import H100
    >>> from meshwright.specs.runtime.device import PassBytes
    >>> score_bytes = PassBytes(forward=12, backward=16)
    >>> times = eager_attention_time(1, 32, 128, 128, 2048, H100, H100.peak_flops["bf16"], score_bytes)
    >>> [round(float(seconds) * 1e3, 2) for seconds in times]
    [0.84, 1.29]
    """
    rows = batch * heads * sequence
    slower = [unaligned_slowdown(sequence, width, accelerator).forward for width in (head_dim, value_head_dim)]
    products = gemm_time(rows, sequence, head_dim, accelerator, peak_flops, unaligned=slower[0])
    products = products + gemm_time(rows, value_head_dim, sequence, accelerator, peak_flops, unaligned=slower[1])
    scores = 1.0 * rows * sequence
    forward = products + elementwise_time(score_bytes.forward * scores, accelerator)
    backward = 2 * products + elementwise_time(score_bytes.backward * scores, accelerator)
    return forward, backward

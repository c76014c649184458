"""Interleaved 1F1B: each rank holds v chunks of layers, so that the pipeline fills v times faster."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.cost.schedules.action import Action
from meshwright.cost.schedules.pipeline import Pipeline


def live_chunks(stage: Ints, stages: Ints, chunks: Ints, micro_batches: Ints, microbatch_group: Ints) -> Ints:
    """Chunk activations that one rank keeps at most: min(m v, 2(p - r - 1) + (v - 1)g + 1).

    stage: r, 0 is first; stages: p; chunks: v per rank; micro_batches: m; microbatch_group: g, those that a chunk
    works on before the next one does; counts, scalar or array (n,). Returns a count of chunks, each of 1/v of the
    rank's layers. Source: Megatron-LM, pipeline_parallel/schedules.py, get_pp_rank_microbatches.

    >>> [int(live_chunks(rank, 4, 2, 64, 4)) for rank in range(4)]
    [11, 9, 7, 5]
    """
    return np.minimum(micro_batches * chunks, 2 * (stages - stage - 1) + (chunks - 1) * microbatch_group + 1)


def bubble_time(pipeline: Pipeline) -> Floats:
    """Idle time of the slowest rank while the pipeline fills and drains: (sum of t_r less max t_r) / v.

    pipeline: times t_r = forward plus backward of one micro-batch through all chunks of a rank, scalar or array (n,).
    Returns seconds. With equal ranks this is (p - 1)(F + B) / v (Narayanan et al., arXiv:2104.04473, section 2.2).
    """
    return pipeline.others.total / pipeline.chunks


def actions(stages: int, chunks: int, micro_batches: int, microbatch_group: int) -> list[list[Action]]:
    """For every rank, what it does in order.

    stages: p; chunks: v a rank; micro_batches: m; microbatch_group: g of them that a chunk works on before the next one
    does; counts.
    """
    order = turns(chunks, micro_batches, microbatch_group)
    forwards = [Action("forward", chunk, index) for chunk, index in order]
    backwards = [Action("backward", chunks - 1 - chunk, index) for chunk, index in order]
    ahead = [2 * (stages - rank - 1) + (chunks - 1) * microbatch_group for rank in range(stages)]
    return [_rank_actions(forwards, backwards, min(warm_up, len(order))) for warm_up in ahead]


def turns(chunks: int, micro_batches: int, microbatch_group: int) -> list[tuple[int, int]]:
    """Chunk and micro-batch of every forward of a rank: the chunks take turns on groups of micro-batches.

    chunks: v a rank; micro_batches: m; microbatch_group: g, the last one what is left; counts.
    """
    return [
        (chunk, first + offset)
        for first in range(0, micro_batches, microbatch_group)
        for chunk in range(chunks)
        for offset in range(min(microbatch_group, micro_batches - first))
    ]


def _rank_actions(forwards: list[Action], backwards: list[Action], warm_up: int) -> list[Action]:
    count = len(forwards) - warm_up
    steady = [action for pair in zip(forwards[warm_up:], backwards[:count], strict=True) for action in pair]
    return forwards[:warm_up] + steady + backwards[count:]

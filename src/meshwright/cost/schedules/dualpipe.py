"""DualPipe: micro-batches enter at both ends, over two copies of the model (DeepSeek-V3, arXiv:2412.19437)."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.cost.schedules import dualpipe_v
from meshwright.cost.schedules.action import Action
from meshwright.cost.schedules.pipeline import Pipeline


def live_chunks(stage: Ints, chunk: Ints, stages: Ints, micro_batches: Ints) -> Ints:
    """Micro-batches whose activations the copy for one direction keeps: with h = min(r, p - 1 - r), p - h of the
    direction that starts on the nearer end, h + 1 of the other; p + 1 together.

    stage: r, 0 is first; chunk: 0 for those from the first rank to the last, 1 for the others; stages: p;
    micro_batches: m, half of them in each direction; counts, scalar or array (n,). Returns a count.
    Source: deepseek-ai/DualPipe@3da1bbe, README.md and dualpipe.py, step.

    >>> [[int(live_chunks(rank, chunk, 4, 16)) for chunk in (0, 1)] for rank in range(4)]
    [[4, 1], [3, 2], [2, 3], [1, 4]]
    """
    inner = np.minimum(stage, stages - 1 - stage)
    nearer = np.equal(chunk, 0) == np.less(2 * stage, stages)
    return np.minimum((micro_batches + 1) // 2, np.where(nearer, stages - inner, inner + 1))


def bubble_time(pipeline: Pipeline) -> Floats:
    """Idle time of the slowest rank: (p / 2 - 1)(F + B_i + max(F, B_i) - W), of the others' mean passes.

    pipeline: times of one micro-batch, scalar or array (n,). Returns seconds. With B_i >= F this is
    (p / 2 - 1)(F&B + B - 3W) where a forward and a backward that run together take F&B = F + B
    (deepseek-ai/DualPipe@3da1bbe, README.md, whose B is B_i + W): nothing that one of them hides of the other is
    counted here.
    """
    share = (pipeline.stages / 2 - 1) / np.maximum(pipeline.stages - 1, 1)
    return pipeline.at_least(share * dualpipe_v.folded_idle(pipeline))


def actions(stages: int, micro_batches: int) -> list[list[Action]]:
    """For every rank, what it does in order; the second half of the micro-batches enters at the last rank.

    stages: p; micro_batches: m; both even counts, m >= 2p.
    """
    half = micro_batches // 2
    order = []
    for rank in range(stages):
        second = 2 * rank >= stages
        turns = dualpipe_v.rank_actions(min(rank, stages - 1 - rank), stages // 2, half)
        order.append([_turned(action, second, half) for action in turns])
    return order


def _turned(action: Action, second: bool, half: int) -> Action:
    """The action of the folded pipeline as a direction's: chunk 0 is the one that starts on the nearer end."""
    chunk = 1 - action.chunk if second else action.chunk
    return Action(action.kind, chunk, action.micro_batch + chunk * half, action.joined)

"""DualPipe: micro-batches enter at both ends, over two copies of the model (DeepSeek-V3, arXiv:2412.19437)."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.schedules import dualpipe_v
from meshwright.schedules.action import Action
from meshwright.schedules.pipeline import PipelineShape, PipelineTimes
from meshwright.schedules.record import ScheduleRecord


def in_flight(stage: Ints, pipeline: PipelineShape) -> tuple[Ints, Ints]:
    """Micro-batches whose activations the copy for either direction keeps: with h = min(r, p - 1 - r), p - h of the
    direction that starts on the nearer end, h + 1 of the other; p + 1 together.

    stage: r, 0 is first; pipeline: p, and m of which half go in each direction; counts, scalar or array (n,). Returns
    the counts of those from the first rank to the last and of the others.
    Source: deepseek-ai/DualPipe@3da1bbe, README.md and dualpipe.py, step.

    >>> [tuple(map(int, in_flight(rank, PipelineShape(stages=4, micro_batches=16)))) for rank in range(4)]
    [(4, 1), (3, 2), (2, 3), (1, 4)]
    """
    stages, half = pipeline.stages, (pipeline.micro_batches + 1) // 2
    inner = np.minimum(stage, stages - 1 - stage)
    nearer, farther = np.minimum(half, stages - inner), np.minimum(half, inner + 1)
    first_half = 2 * stage < stages
    return np.where(first_half, nearer, farther), np.where(first_half, farther, nearer)


def bubble_time(pipeline: PipelineTimes) -> Floats:
    """Idle time of the slowest rank: (p / 2 - 1)(F + B_i + max(F, B_i) - W), of the others' mean passes.

    pipeline: times of one micro-batch, scalar or array (n,). Returns seconds.
    Source: deepseek-ai/DualPipe@3da1bbe, README.md, whose B is B_i + W: with B_i >= F this is (p / 2 - 1)(F&B + B - 3W)
    where a forward and a backward that run together take F&B = F + B; nothing that one of them hides of the other is
    counted here.

    >>> from meshwright.schedules.pipeline import PassTimes
    >>> one, four = PassTimes(1.0, 1.0, 1.0), PassTimes(4.0, 4.0, 4.0)  # seconds of one of four equal ranks, and of all
    >>> float(bubble_time(PipelineTimes(one, four, 4, 1, micro_batches=16, waiting=1.0, overlaps_steps=True)))
    2.0
    """
    share = (pipeline.stages / 2 - 1) / np.maximum(pipeline.stages - 1, 1)
    return pipeline.at_least(share * dualpipe_v.folded_idle(pipeline))


def actions(pipeline: PipelineShape) -> list[list[Action]]:
    """For every rank, what it does in order; the second half of the micro-batches enters at the last rank.

    pipeline: p and m, both even counts, m >= 2p. Returns actions by rank. Source: deepseek-ai/DualPipe@3da1bbe,
    dualpipe.py, step.

    >>> first, last = actions(PipelineShape(stages=2, micro_batches=4))
    >>> [action.micro_batch for action in last if action.kind == "forward"]  # the second half enters here
    [2, 0, 3, 1]
    """
    stages, half = pipeline.stages, pipeline.micro_batches // 2
    order = []
    for rank in range(stages):
        second = 2 * rank >= stages
        turns = dualpipe_v.rank_actions(min(rank, stages - 1 - rank), stages // 2, half)
        order.append([_of_direction(action, second, half) for action in turns])
    return order


def _of_direction(action: Action, second: bool, half: int) -> Action:
    """The action of the folded pipeline as a direction's: chunk 0 is the one that starts on the nearer end."""
    chunk = 1 - action.chunk if second else action.chunk
    return Action(action.kind, chunk, action.micro_batch + chunk * half, joined=action.joined)


RECORD = ScheduleRecord(
    name="dualpipe",
    code=9,
    chunks=1,
    placement="both-ways",
    splits_backward=True,
    least_micro_batches=2,
    in_flight=in_flight,
    peak_micro_batches=4,
    bubble_time=bubble_time,
    actions=actions,
    clock_equal=(0.97, 1.0),
    clock_unequal=(0.88, 1.02),
)

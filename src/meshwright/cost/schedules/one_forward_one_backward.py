"""1F1B: each stage alternates one forward and one backward once it has filled (PipeDream-Flush, arXiv:2006.09503)."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.cost.schedules.action import Action
from meshwright.cost.schedules.pipeline import Pipeline


def live_chunks(stage: Ints, stages: Ints, micro_batches: Ints) -> Ints:
    """Micro-batches whose activations one stage keeps at most: min(m, p - r).

    stage: r, 0 is first; stages: p; micro_batches: m; counts, scalar or array (n,). Returns a count.
    Source: Narayanan et al., arXiv:2104.04473, section 2.2.

    >>> int(live_chunks(0, 4, 64)), int(live_chunks(3, 4, 64)), int(live_chunks(0, 4, 2))
    (4, 1, 2)
    """
    return np.minimum(micro_batches, stages - stage)


def bubble_time(pipeline: Pipeline) -> Floats:
    """Idle time of the slowest stage while the pipeline fills and drains: sum of t_r less max t_r.

    pipeline: times t_r = forward plus backward of one micro-batch, scalar or array (n,). Returns seconds. With equal
    stages this is (p - 1)(F + B) (arXiv:2104.04473, section 2.2).
    """
    return pipeline.others.total


def actions(stages: int, micro_batches: int) -> list[list[Action]]:
    """For every stage, what it does in order. stages: p; micro_batches: m; counts."""
    return [_stage_actions(stage, stages, micro_batches) for stage in range(stages)]


def _stage_actions(stage: int, stages: int, micro_batches: int) -> list[Action]:
    warm_up = min(stages - stage - 1, micro_batches)
    order = [Action("forward", 0, index) for index in range(warm_up)]
    for index in range(micro_batches - warm_up):
        order += [Action("forward", 0, warm_up + index), Action("backward", 0, index)]
    return order + [Action("backward", 0, index) for index in range(micro_batches - warm_up, micro_batches)]

"""GPipe: all forwards, then all backwards (Huang et al., arXiv:1811.06965)."""

from __future__ import annotations

from meshwright.arrays import Floats, Ints
from meshwright.cost.schedules.action import Action
from meshwright.cost.schedules.pipeline import Pipeline


def live_chunks(micro_batches: Ints) -> Ints:
    """Micro-batches whose activations one stage keeps at most: all of them.

    micro_batches: m, count, scalar or array (n,). Returns a count. Source: arXiv:1811.06965, section 2.3.
    """
    return micro_batches


def bubble_time(pipeline: Pipeline) -> Floats:
    """Idle time of the slowest stage, as 1F1B: sum of t_r less max t_r.

    pipeline: times t_r of one micro-batch, scalar or array (n,). Returns seconds. With equal stages this is
    (p - 1)(F + B) (arXiv:2104.04473, section 2.2.1).
    """
    return pipeline.others.total


def actions(stages: int, micro_batches: int) -> list[list[Action]]:
    """For every stage, what it does in order. stages: p; micro_batches: m; counts."""
    forwards = [Action("forward", 0, index) for index in range(micro_batches)]
    return [forwards + [Action("backward", 0, index) for index in range(micro_batches)] for _ in range(stages)]

"""GPipe: all forwards, then all backwards (Huang et al., arXiv:1811.06965)."""

from __future__ import annotations

from meshwright.arrays import Ints
from meshwright.schedules.action import Action
from meshwright.schedules.one_forward_one_backward import bubble_time
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.record import ScheduleRecord


def in_flight(stage: Ints, pipeline: PipelineShape) -> Ints:
    """Micro-batches whose activations one stage keeps at most: all m of them.

    stage: 0 is first; pipeline: m; counts, scalar or array (n,). Returns a count.
    Source: arXiv:1811.06965, section 2.3.

    >>> in_flight(0, PipelineShape(stages=4, micro_batches=64))
    64
    """
    return pipeline.micro_batches + 0 * stage


def actions(pipeline: PipelineShape) -> list[list[Action]]:
    """For every stage, what it does in order. pipeline: p and m, counts.

    Returns actions by rank. Source: Huang et al., arXiv:1811.06965, section 2.3.

    >>> ranks = actions(PipelineShape(stages=2, micro_batches=2))
    >>> [" ".join(f"{action.kind[0]}{action.micro_batch}" for action in rank) for rank in ranks]
    ['f0 f1 b0 b1', 'f0 f1 b0 b1']
    """
    passes = ("forward", "backward")
    order = [Action(kind, 0, index) for kind in passes for index in range(pipeline.micro_batches)]  # type: ignore[arg-type]
    return [order for _ in range(pipeline.stages)]


RECORD = ScheduleRecord(
    name="gpipe",
    code=2,
    chunks=1,
    in_flight=in_flight,
    peak_micro_batches=None,
    bubble_time=bubble_time,
    actions=actions,
    exchanges=2,
    clock_unequal=(1.0, 1.0),
    framework_names={"torch": "GPipe", "nanotron": "afab"},
    dominated_by="1f1b",
)

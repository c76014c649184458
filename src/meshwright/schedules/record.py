"""Record: everything that is known of one pipeline schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from meshwright.arrays import Floats, Ints
from meshwright.schedules.action import Action
from meshwright.schedules.pipeline import PipelineShape, PipelineTimes


@dataclass(frozen=True, kw_only=True)
class ScheduleRecord:
    """One pipeline schedule: whatever depends on the schedule is read or derived from here."""

    name: str
    """As users write it: in plan files, runtimes and after `--schedule`."""
    code: int
    """Its number in columns of plans: the next free one, which never changes."""
    chunks: Literal[1, 2, "several"]
    """Chunks of the model on each rank, `vpp` of its plans; several: two or more."""
    placement: Literal["looped", "v-shaped", "both-ways"] = "looped"
    """Which blocks of the model a rank's chunks are; see `blocks`."""
    grouped: bool = False
    """The chunks of a rank take turns on groups of micro-batches (`microbatch_group`)."""
    splits_backward: bool = False
    """Input gradients come first, weight gradients when there is time."""
    least_micro_batches: int = 0
    """Micro-batches that it needs, for each stage."""
    in_flight: Callable[[Ints, PipelineShape], Ints | tuple[Ints, Ints]]
    """(stage, pipeline) -> chunks that the rank has worked forward and not yet backward, at most: of all its chunks, or
    of each of its two where these keep different numbers. Its docstring names the source that users read."""
    waiting: Callable[[Ints, Ints, PipelineShape], Ints] | None = None
    """(stage, in_flight, pipeline) -> chunks that wait for their weight gradients beside those in flight, when the rank
    keeps the most; None: none do, or they count as in flight."""
    peak_micro_batches: int | None
    """Micro-batches for each stage beyond which more of them keep no more in flight; None: every further one does."""
    bubble_time: Callable[[PipelineTimes], Floats]
    """Idle seconds of the slowest rank in one step."""
    actions: Callable[[PipelineShape], list[list[Action]]]
    """What every rank does, in order."""
    exchanges: int = 0
    """Exchanges with its neighbours that a rank waits for, for every chunk and micro-batch: one each way, one where it
    sends and receives forward and backward at once, none where messages travel while it computes."""
    framework_names: Mapping[str, str] = field(default_factory=dict)
    """What frameworks call it where a plan, a launch or a check must spell it: `torch` (torch.distributed.pipelining)
    and `nanotron`."""
    clock_equal: tuple[float, float] = (1.0, 1.0)
    """Seconds of its order on a clock over those with `bubble_time`, least and most, on three or more equal ranks; a
    test plays it."""
    clock_unequal: tuple[float, float]
    """The same on ranks that differ by up to twice. Closed forms do not know where the slowest rank stands and take it
    to wait for all others, so they are long, by less the more micro-batches there are."""
    spare_chunks: int = 0
    """Chunks fewer than `in_flight` that its order keeps on some ranks, at most."""
    dominated_by: str | None = None
    """A schedule that takes as long and keeps less: the search leaves this one out where that one can always run."""

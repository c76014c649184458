"""Pipeline schedules: one file each, chosen by the plan's code."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from meshwright.arrays import Floats, IntColumn, Ints
from meshwright.cost.schedules import (
    dualpipe,
    dualpipe_v,
    gpipe,
    interleaved,
    interleaved_zero_bubble,
    one_forward_one_backward,
    v_half,
    v_min,
    zero_bubble,
    zero_bubble_v,
)
from meshwright.cost.schedules.pipeline import Pipeline
from meshwright.layout.plan import Schedule

TWO_CHUNKS: dict[int, Callable[[Ints, Ints, Ints, Ints], Ints]] = {
    Schedule.ZERO_BUBBLE_V: zero_bubble_v.live_chunks,
    Schedule.V_HALF: v_half.live_chunks,
    Schedule.V_MIN: v_min.live_chunks,
    Schedule.DUALPIPE: dualpipe.live_chunks,
    Schedule.DUALPIPE_V: dualpipe_v.live_chunks,
}
"""(stage, chunk, stages, micro_batches) -> micro-batches that one of a rank's two chunks keeps."""
BUBBLES: dict[int, Callable[[Pipeline], Floats]] = {
    Schedule.ONE_F_ONE_B: one_forward_one_backward.bubble_time,
    Schedule.INTERLEAVED: interleaved.bubble_time,
    Schedule.GPIPE: gpipe.bubble_time,
    Schedule.INTERLEAVED_ZERO_BUBBLE: interleaved_zero_bubble.bubble_time,
    Schedule.ZERO_BUBBLE_1P: zero_bubble.bubble_time_1p,
    Schedule.ZERO_BUBBLE_2P: zero_bubble.bubble_time_2p,
    Schedule.ZERO_BUBBLE_V: zero_bubble_v.bubble_time,
    Schedule.V_HALF: v_half.bubble_time,
    Schedule.V_MIN: v_min.bubble_time,
    Schedule.DUALPIPE: dualpipe.bubble_time,
    Schedule.DUALPIPE_V: dualpipe_v.bubble_time,
}


def live_chunks(
    schedule: Ints, stage: Ints, stages: Ints, chunks: Ints, micro_batches: Ints, microbatch_group: Ints
) -> Ints:
    """Chunks that one rank has worked forward and not yet backward, at most, under its schedule.

    schedule: code of `Schedule`; stage: 0 is first; stages, chunks per rank, micro_batches, microbatch_group (those of
    an interleaved schedule's group): counts; scalar or array (n,). Returns a count of chunks.
    Sources: the schedule's own file.
    """
    counts: dict[int, Callable[[], Ints]] = {
        Schedule.ONE_F_ONE_B: lambda: one_forward_one_backward.live_chunks(stage, stages, micro_batches),
        Schedule.INTERLEAVED: lambda: interleaved.live_chunks(stage, stages, chunks, micro_batches, microbatch_group),
        Schedule.GPIPE: lambda: gpipe.live_chunks(micro_batches) + 0 * stage,
        Schedule.INTERLEAVED_ZERO_BUBBLE: lambda: interleaved_zero_bubble.live_chunks(
            stage, stages, chunks, micro_batches, microbatch_group
        ),
        Schedule.ZERO_BUBBLE_1P: lambda: zero_bubble.live_chunks(stage, stages, micro_batches, 1),
        Schedule.ZERO_BUBBLE_2P: lambda: zero_bubble.live_chunks(stage, stages, micro_batches, 2),
    }
    counts |= {code: partial(_of_both, each, stage, stages, micro_batches) for code, each in TWO_CHUNKS.items()}
    return _chosen(schedule, counts)


def _of_both(count: Callable[[Ints, Ints, Ints, Ints], Ints], stage: Ints, stages: Ints, micro_batches: Ints) -> Ints:
    """Of both chunks of a rank together."""
    return count(stage, 0, stages, micro_batches) + count(stage, 1, stages, micro_batches)


def waiting_chunks(schedule: Ints, stage: Ints, live: Ints, chunks: Ints, micro_batches: Ints) -> Ints:
    """Chunks that wait for their weight gradients when a rank keeps the most, beside the live ones.

    schedule: code of `Schedule`; stage: 0 is first; live: `live_chunks` of it; chunks per rank, micro_batches: counts;
    scalar or array (n,). Returns a count of chunks; none where a schedule does not put them off at its peak, or counts
    them as live. Sources: the schedule's own file.
    """
    none = 0 * (stage + live)
    counts: dict[int, Callable[[], Ints]] = {code: lambda: none for code in Schedule}
    counts[Schedule.INTERLEAVED_ZERO_BUBBLE] = lambda: interleaved_zero_bubble.waiting_chunks(
        stage, live, chunks, micro_batches
    )
    counts[Schedule.ZERO_BUBBLE_1P] = lambda: zero_bubble.waiting_chunks(stage, live, micro_batches, 1)
    counts[Schedule.ZERO_BUBBLE_2P] = lambda: zero_bubble.waiting_chunks(stage, live, micro_batches, 2)
    return _chosen(schedule, counts)


def kept_chunks(
    schedule: int,
    stage: IntColumn,
    stages: int,
    chunks: int,
    micro_batches: int,
    microbatch_group: int,
    layers: IntColumn,
    *,
    all_worked: bool,
) -> tuple[IntColumn, IntColumn]:
    """Micro-batches that each chunk of each rank keeps when the rank keeps the most: live ones, and those that wait for
    their weight gradients.

    schedule: code of `Schedule`; stage: ranks, shape (p,); stages: p; chunks: v; micro_batches: m; microbatch_group: g;
    layers: of each chunk, shape (chunks held, p); counts. Returns two counts of shape (chunks held, p). Looped chunks
    take turns on groups of micro-batches, the last one works backward first: once full, a rank keeps as many chunks
    after every forward, and of these moments the one with the most layers counts. all_worked: of those alone by which
    every chunk has worked backward, if there are such. Sources: the schedule's own file.
    """
    live = live_chunks(schedule, stage, stages, chunks, micro_batches, microbatch_group)
    if schedule in TWO_CHUNKS:
        kept = np.stack([TWO_CHUNKS[schedule](stage, chunk, stages, micro_batches) for chunk in (0, 1)])
        return kept, np.zeros_like(kept)
    differ = bool((layers != layers[0]).any())
    backwards = np.arange(2 * microbatch_group * chunks if differ else 1)[:, None]
    forwards = np.minimum(live + backwards, micro_batches * chunks)
    backwards = forwards - live
    done = _in_turns(forwards, chunks, microbatch_group) - _in_turns(backwards, chunks, microbatch_group)[:, ::-1]
    counted = (done * layers).sum(axis=1)
    if all_worked:
        counted = np.where(backwards > microbatch_group * (chunks - 1), counted + layers.sum(), counted)
    most = counted.argmax(axis=0)
    waiting = waiting_chunks(schedule, stage, live, chunks, micro_batches)
    held: IntColumn = np.take_along_axis(done, most[None, None], axis=0)[0]
    return held, np.where(np.arange(chunks)[:, None] == chunks - 1, waiting, 0)


def _in_turns(passes: IntColumn, chunks: int, group: int) -> IntColumn:
    """How many of so many passes each chunk has had, the first one first; passes: shape (k, p); returns (k, v, p)."""
    turns, rest = np.divmod(passes[:, None], group * chunks)
    had: IntColumn = turns * group + np.clip(rest - group * np.arange(chunks)[:, None], 0, group)
    return had


def bubble_time(schedule: Ints, pipeline: Pipeline) -> Floats:
    """Idle time of the slowest rank under its schedule, seconds.

    schedule: code of `Schedule`, scalar or array (n,); pipeline: what it depends on. Returns seconds.
    Sources: the schedule's own file.
    """
    return _chosen(schedule, {code: partial(each, pipeline) for code, each in BUBBLES.items()})


def _chosen(schedule: Ints, answers: dict[int, Callable[[], Any]]) -> Any:
    """What the schedule of each row says; only those that some row has are asked."""
    present = np.flatnonzero(np.bincount(np.ravel(schedule), minlength=1))
    said = answers[int(present[0]) if len(present) else 0]()
    for code in present[1:]:
        said = np.where(np.equal(schedule, code), answers[int(code)](), said)
    return said


__all__ = ["BUBBLES", "TWO_CHUNKS", "Pipeline", "bubble_time", "kept_chunks", "live_chunks", "waiting_chunks"]

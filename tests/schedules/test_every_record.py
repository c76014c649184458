"""Every record: its order on a clock against its closed forms, and against the tables of PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from test_schedules import closed

from meshwright.schedules import interleaved_zero_bubble
from meshwright.schedules.action import ChunkTimes, Timeline, play
from meshwright.schedules.peak import chunks_at_peak, in_flight
from meshwright.schedules.pipeline import PassTimes, PipelineShape
from meshwright.schedules.records import Schedule, blocks, copies
from orders import CHUNKS, every_schedule, order, shape_of

EVEN = [(1.0, 1.0, 1.0), (1.0, 1.0, 0.5), (1.0, 1.2, 0.8), (1.0, 1.5, 1.0), (1.0, 2.2, 1.0)]
"""Forward, input gradient, weight gradient of one micro-batch on every rank, seconds."""
PIPELINES = [(2, 4), (2, 8), (4, 8), (4, 16), (6, 12), (8, 32)]
"""(stages, micro-batches)."""


def played_of(schedule: Schedule, micro_batches: int, passes: PassTimes) -> Timeline:
    stages, chunks = len(passes.forward), CHUNKS[schedule]
    times = ChunkTimes.alike(2, *(list(each / (1 if copies(schedule) == 2 else chunks)) for each in passes))
    return play(order(schedule, stages, chunks, micro_batches), times, blocks(schedule, stages, chunks))


def alike(stages: int, seconds: tuple[float, float, float]) -> PassTimes:
    return PassTimes(*(np.full(stages, each) for each in seconds))


@pytest.mark.parametrize("seconds", EVEN)
@pytest.mark.parametrize(("stages", "micro_batches"), PIPELINES)
@every_schedule
def test_equal_ranks_take_what_the_closed_form_says(
    schedule: Schedule, stages: int, micro_batches: int, seconds: tuple[float, float, float]
) -> None:
    """Within the record's bound on three or more ranks; where it is exact on two as well, and of the longest rank where
    steps overlap."""
    played, chunks = played_of(schedule, micro_batches, alike(stages, seconds)), CHUNKS[schedule]
    least, most = schedule.record.clock_equal
    together = closed(schedule, chunks, micro_batches, alike(stages, seconds))
    if stages > 2 or least == most:
        assert least * (1 - 1e-12) <= played.makespan_s / together <= most * (1 + 1e-12)
    if least == most:
        overlapped = closed(schedule, chunks, micro_batches, alike(stages, seconds), overlaps=True)
        assert played.span_s == pytest.approx(overlapped, rel=1e-12)


@every_schedule
def test_unequal_ranks_take_what_the_closed_form_says_within_the_records_bound(schedule: Schedule) -> None:
    random = np.random.default_rng(int(schedule))
    least, most = schedule.record.clock_unequal
    for _ in range(60):
        stages = 2 * int(random.integers(1, 4)) if copies(schedule) == 2 else int(random.integers(2, 8))
        micro_batches = stages * int(random.integers(2, 8))
        share = 1 + random.uniform(0, 1) * random.uniform(0, 1, stages)
        passes = PassTimes(share, share * random.uniform(1, 1.5), share * random.uniform(0.5, 1))
        played = played_of(schedule, micro_batches, passes)
        for overlaps, seconds in ((False, played.makespan_s), (True, played.span_s)):
            expected = closed(schedule, CHUNKS[schedule], micro_batches, passes, overlaps=overlaps)
            assert least - 1e-9 <= seconds / expected <= most + 1e-9


@every_schedule
@pytest.mark.parametrize(("stages", "micro_batches"), [*PIPELINES, (3, 9), (5, 20)])
def test_the_played_order_keeps_as_many_chunks_as_the_record_says(
    schedule: Schedule, stages: int, micro_batches: int
) -> None:
    """Of those with a count for each chunk, chunks that wait for weight gradients count as in flight."""
    if stages % 2 and copies(schedule) == 2:
        pytest.skip("two copies need an even number of stages")
    record, ranks, pipeline = schedule.record, np.arange(stages), shape_of(schedule, stages, micro_batches)
    played = played_of(schedule, micro_batches, alike(stages, (1.0, 1.0, 1.0)))
    held, waiting = chunks_at_peak(schedule, pipeline, np.ones((CHUNKS[schedule], stages)), all_worked=False)
    kept = held.sum(axis=0) + waiting.sum(axis=0)
    assert tuple(in_flight(schedule, ranks, pipeline)) == tuple(held.sum(axis=0))
    assert max(played.unfinished) == max(kept)
    assert all(most - record.spare_chunks <= each <= most for each, most in zip(played.unfinished, kept, strict=True))
    if not isinstance(record.in_flight(0, pipeline), tuple):
        assert played.in_flight == tuple(held.sum(axis=0))


@every_schedule
@pytest.mark.parametrize("stages", [2, 4, 8])
def test_more_micro_batches_than_the_record_says_keep_no_more_in_flight(schedule: Schedule, stages: int) -> None:
    per_stage, ranks = schedule.record.peak_micro_batches, np.arange(stages)
    most = [in_flight(schedule, ranks, shape_of(schedule, stages, count * stages)) for count in range(1, 9)]
    if per_stage is None:
        assert (np.diff(most, axis=0) > 0).all()
    else:
        assert all((each == most[per_stage - 1]).all() for each in most[per_stage:])


@pytest.mark.parametrize(
    ("schedule", "stages", "chunks", "live", "kept"),
    [
        (Schedule.INTERLEAVED, 2, 4, [9, 7], [9, 7]),
        (Schedule.INTERLEAVED, 4, 2, [11, 9, 7, 5], [11, 9, 7, 5]),
        (Schedule.INTERLEAVED, 8, 2, [23, 21, 19, 17, 15, 13, 11, 9], [23, 21, 19, 17, 15, 13, 11, 9]),
        (Schedule.ONE_F_ONE_B, 4, 1, [4, 3, 2, 1], [4, 3, 2, 1]),
        (Schedule.INTERLEAVED_ZERO_BUBBLE, 8, 1, [8, 7, 6, 5, 4, 3, 2, 1], [8] * 8),
        (Schedule.INTERLEAVED_ZERO_BUBBLE, 4, 2, [8, 7, 6, 5], [8] * 4),
        (Schedule.INTERLEAVED_ZERO_BUBBLE, 4, 3, [12, 11, 10, 9], [12] * 4),
        (Schedule.ZERO_BUBBLE_1P, 8, 1, [8, 7, 6, 5, 4, 3, 2, 1], [8] * 8),
        (Schedule.ZERO_BUBBLE_V, 4, 2, [8] * 4, [8] * 4),
        (Schedule.ZERO_BUBBLE_V, 8, 2, [16] * 8, [16] * 8),
        (Schedule.DUALPIPE_V, 4, 2, [9] * 4, [9] * 4),
        (Schedule.DUALPIPE_V, 8, 2, [17] * 8, [17] * 8),
    ],
)
def test_chunks_kept_are_those_of_pytorchs_own_tables(
    schedule: Schedule, stages: int, chunks: int, live: list[int], kept: list[int]
) -> None:
    """Counted in `pipeline_order` of torch 2.13 (distributed/pipelining/schedules.py) with 4 p micro-batches: worked
    forward and not backward, and those with one gradient still to come.
    """
    alike_chunks = np.ones((chunks, stages), dtype=np.int64)
    pipeline = PipelineShape(stages, 4 * stages, chunks, stages)
    held, waiting = chunks_at_peak(schedule, pipeline, alike_chunks, all_worked=False)
    assert held.sum(axis=0).tolist() == live
    assert (held.sum(axis=0) + waiting.sum(axis=0)).tolist() == kept


@pytest.mark.parametrize(
    ("schedule", "stages", "chunks", "seconds", "idle"),
    [
        (Schedule.INTERLEAVED_ZERO_BUBBLE, 4, 1, (1, 1, 1), 3.0),
        (Schedule.INTERLEAVED_ZERO_BUBBLE, 8, 2, (1, 1, 0.5), 5.25),
        (Schedule.INTERLEAVED_ZERO_BUBBLE, 4, 3, (1, 1.2, 0.8), 1.4),
        (Schedule.ZERO_BUBBLE_V, 4, 2, (1, 1, 1), 1.5),
        (Schedule.ZERO_BUBBLE_V, 8, 2, (1, 1.2, 0.8), 4.2),
        (Schedule.ZERO_BUBBLE_V, 4, 2, (1, 1.5, 1), 2.25),
        (Schedule.DUALPIPE_V, 4, 2, (1, 1, 1), 3.0),
        (Schedule.DUALPIPE_V, 8, 2, (1, 1, 0.5), 8.75),
    ],
)
def test_idle_time_is_that_of_pytorchs_own_tables_on_a_clock(
    schedule: Schedule, stages: int, chunks: int, seconds: tuple[float, float, float], idle: float
) -> None:
    """`pipeline_order` of torch 2.13 played with 4 p micro-batches; a forward and a backward that it joins end
    together.
    """
    passes = alike(stages, seconds)
    assert closed(schedule, chunks, 4 * stages, passes) == pytest.approx(4 * stages * sum(seconds) + idle, rel=1e-12)


def test_shares_of_1f1bs_bubble_are_the_published_ones() -> None:
    """All passes alike, 1F1B as one: ZB-1p 1/3, ZB-2p and ZB-V none, V-Half 1/2, V-Min 2/3 (arXiv:2401.10241 and
    2405.15362, tables 1)."""
    stages, micro_batches = 8, 64
    passes = alike(stages, (1.0, 1.0, 1.0))
    idle = {
        schedule: closed(schedule, CHUNKS[schedule], micro_batches, passes, overlaps=True) - 3 * micro_batches
        for schedule in Schedule
    }
    whole = idle[Schedule.ONE_F_ONE_B]
    assert whole == pytest.approx(3 * (stages - 1))
    shares = {schedule.name: each / whole for schedule, each in idle.items()}
    expected = {"ZERO_BUBBLE_1P": 1 / 3, "ZERO_BUBBLE_2P": 0, "ZERO_BUBBLE_V": 0, "V_HALF": 1 / 2, "V_MIN": 2 / 3}
    assert {name: shares[name] for name in expected} == pytest.approx(expected)


def test_a_limit_in_bytes_lets_more_weight_gradients_wait() -> None:
    """Profiled passes of 1.5B on 8 A100, whose weight gradients keep 32 of 87 bytes: nothing is idle with 4 p
    micro-batches (arXiv:2401.10241, table 5: 0.4 %), 3 % with 3 p."""
    passes = alike(8, (18.5, 18.1, 9.3))
    idle = [
        closed(Schedule.ZERO_BUBBLE_2P, 1, m, passes, overlaps=True, waiting=32 / 87) / (m * 45.9) - 1 for m in (24, 32)
    ]
    assert 0.03 < idle[0] < 0.05
    assert idle[1] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("schedule", [Schedule.ZERO_BUBBLE_1P, Schedule.ZERO_BUBBLE_2P])
@pytest.mark.parametrize(("stages", "micro_batches"), [(8, 1), (8, 2), (8, 4), (4, 3)])
def test_few_micro_batches_leave_their_way_through_the_ranks(
    schedule: Schedule, stages: int, micro_batches: int
) -> None:
    """Less than 12 % from the clock of an order that is made for more."""
    passes = alike(stages, (1.0, 1.0, 0.6))
    actions = interleaved_zero_bubble.actions(PipelineShape(stages, micro_batches, 1, micro_batches))
    played = play(
        actions, ChunkTimes.alike(1, *(list(each) for each in passes)), blocks(schedule, stages, 1)
    ).makespan_s
    assert played == pytest.approx(closed(schedule, 1, micro_batches, passes), rel=0.12)

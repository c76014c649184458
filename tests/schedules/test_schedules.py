"""Schedules: the order of their actions, played on a clock, bounds their closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.errors import InvalidInput
from meshwright.schedules import interleaved, one_forward_one_backward
from meshwright.schedules.action import Action, ChunkTimes, Timeline, play
from meshwright.schedules.peak import in_flight
from meshwright.schedules.pipeline import PassTimes, PipelineShape, PipelineTimes
from meshwright.schedules.records import Schedule, blocks, bubble_time
from orders import CHUNKS, every_schedule, order

PIPELINES = [(p, v, groups * p) for p in (2, 3, 4, 8) for v in (1, 2, 3, 5) for groups in (1, 2, 3, 8)]
"""(stages, chunks, micro-batches)."""
SECONDS = st.floats(0.1, 10.0)


def _code(chunks: int) -> Schedule:
    return Schedule.INTERLEAVED if chunks > 1 else Schedule.ONE_F_ONE_B


def _played(chunks: int, micro_batches: int, forward: np.ndarray, backward: np.ndarray) -> Timeline:
    schedule, stages = _code(chunks), len(forward)
    halves = list(backward / chunks / 2)
    times = ChunkTimes.alike(chunks, list(forward / chunks), halves, halves)
    return play(order(schedule, stages, chunks, micro_batches), times, blocks(schedule, stages, chunks))


def _closed(chunks: int, micro_batches: int, forward: np.ndarray, backward: np.ndarray) -> float:
    return closed(_code(chunks), chunks, micro_batches, PassTimes(forward, backward / 2, backward / 2))


def closed(
    schedule: Schedule,
    chunks: int,
    micro_batches: int,
    passes: PassTimes,
    *,
    overlaps: bool = False,
    waiting: float = 1.0,
) -> float:
    """Seconds of all micro-batches on the slowest rank and its idle time."""
    slowest = int(np.argmax(passes.total))
    pipeline = PipelineTimes(
        PassTimes(*(each[slowest] for each in passes)),
        PassTimes(*(each.sum() for each in passes)),
        len(passes.forward),
        chunks,
        micro_batches,
        waiting,
        overlaps,
    )
    return float(micro_batches * passes.total.max() + bubble_time(schedule, pipeline))


@st.composite
def uneven(draw: st.DrawFn, most_chunks: int = 4) -> tuple[int, int, np.ndarray, np.ndarray]:
    """(chunks, micro-batches, forward seconds, backward seconds) of a pipeline with stages of any length."""
    stages, chunks = draw(st.integers(2, 6)), draw(st.integers(1, most_chunks))
    micro_batches = stages * draw(st.integers(1, 6))
    forward = np.array(draw(st.lists(SECONDS, min_size=stages, max_size=stages)))
    return chunks, micro_batches, forward, draw(st.floats(1.0, 3.0)) * forward


@pytest.mark.parametrize(("stages", "chunks", "micro_batches"), PIPELINES)
@pytest.mark.parametrize(("forward", "backward"), [(1.0, 2.0), (1.0, 1.0), (2.0, 3.0)])
def test_equal_stages_take_exactly_the_closed_form(
    stages: int, chunks: int, micro_batches: int, forward: float, backward: float
) -> None:
    times = np.full(stages, forward), np.full(stages, backward)
    played = _played(chunks, micro_batches, *times).makespan_s
    ideal = micro_batches * (forward + backward)
    assert played == pytest.approx(_closed(chunks, micro_batches, *times), rel=1e-12)
    assert played == pytest.approx(ideal + (stages - 1) * (forward + backward) / chunks, rel=1e-12)


@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 1), (4, 1), (4, 2), (4, 3), (8, 5)])
@pytest.mark.parametrize("chunks", [2, 3, 16])
def test_chunks_of_fewer_micro_batches_than_stages_wait_for_each_other(
    stages: int, micro_batches: int, chunks: int
) -> None:
    """One micro-batch is on one rank at a time, however many chunks a rank has."""
    times = np.full(stages, 1.0), np.full(stages, 2.0)
    played = _played(chunks, micro_batches, *times).makespan_s
    assert played == pytest.approx(_closed(chunks, micro_batches, *times), rel=1e-12)
    assert played == pytest.approx((stages + (micro_batches - 1) / chunks) * 3.0, rel=1e-12)


@every_schedule
@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 4), (4, 8), (4, 12), (6, 12), (8, 32)])
def test_every_rank_works_on_every_micro_batch_and_chunk_once_in_each_direction(
    schedule: Schedule, stages: int, micro_batches: int
) -> None:
    """DualPipe's two copies see half of the micro-batches each."""
    chunks = CHUNKS[schedule]
    for actions in order(schedule, stages, chunks, micro_batches):
        passes: dict[str, list[tuple[int, int]]] = {"forward": [], "input": [], "weight": []}
        for action in actions:
            piece = (action.chunk, action.micro_batch)
            kinds = ["input", "weight"] if action.kind == "backward" else [action.kind.partition("_")[0]]
            for kind in kinds:
                passes[kind].append(piece)
            assert ("forward" in kinds) or piece in passes["forward"]
            assert ("weight" not in kinds) or piece in passes["input"]
        every = {kind: sorted(pieces) for kind, pieces in passes.items()}
        assert every["forward"] == every["input"] == every["weight"] == sorted(set(every["forward"]))
        assert len(every["forward"]) == chunks * micro_batches


@st.composite
def grouped(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """(stages, chunks, micro-batches, group) that interleaving accepts: no group has fewer than the stages."""
    stages, chunks = draw(st.integers(2, 5)), draw(st.integers(2, 4))
    group, whole = draw(st.integers(stages, 2 * stages)), draw(st.integers(1, 4))
    last = draw(st.integers(stages, group))
    return stages, chunks, (whole - 1) * group + last, min(group, (whole - 1) * group + last)


@settings(max_examples=150)
@given(grouped(), st.sampled_from([(1.0, 2.0), (1.0, 1.0)]))
def test_groups_of_micro_batches_keep_more_chunks_and_take_no_longer(
    drawn: tuple[int, int, int, int], seconds: tuple[float, float]
) -> None:
    stages, chunks, micro_batches, group = drawn
    forward, backward = ([each / chunks] * stages for each in seconds)
    times = ChunkTimes.alike(chunks, forward, *[[each / 2 for each in backward]] * 2)
    pipeline = PipelineShape(stages, micro_batches, chunks, group)
    played = play(interleaved.actions(pipeline), times, blocks(Schedule.INTERLEAVED, stages, chunks))
    assert played.in_flight == tuple(interleaved.in_flight(np.arange(stages), pipeline))
    expected = _closed(chunks, micro_batches, np.full(stages, seconds[0]), np.full(stages, seconds[1]))
    assert played.makespan_s == pytest.approx(expected, rel=1e-9)


def test_fewer_micro_batches_than_stages_keep_only_those() -> None:
    live = in_flight(Schedule.ONE_F_ONE_B, np.arange(8), PipelineShape(stages=8, micro_batches=3))
    assert live.tolist() == [3, 3, 3, 3, 3, 3, 2, 1]


@settings(max_examples=150)
@given(uneven())
def test_no_clock_beats_the_slowest_rank_with_the_first_micro_batch_through_the_others(
    pipeline: tuple[int, int, np.ndarray, np.ndarray],
) -> None:
    """What every order takes: m micro-batches of the slowest rank, and the way to it and back of one chunk."""
    chunks, micro_batches, forward, backward = pipeline
    time = forward + backward
    before = (np.cumsum(time) - time) / chunks
    played = _played(chunks, micro_batches, forward, backward).makespan_s
    assert played >= (micro_batches * time + before).max() * (1 - 1e-12)


@settings(max_examples=150)
@given(uneven(most_chunks=1))
def test_1f1b_takes_at_most_the_closed_form_and_no_less_than_m_times_the_slowest(
    pipeline: tuple[int, int, np.ndarray, np.ndarray],
) -> None:
    _, micro_batches, forward, backward = pipeline
    played = _played(1, micro_batches, forward, backward).makespan_s
    assert micro_batches * (forward + backward).max() <= played * (1 + 1e-12)
    assert played <= _closed(1, micro_batches, forward, backward) * (1 + 1e-12)


@settings(max_examples=150)
@given(uneven())
def test_the_closed_form_is_at_most_a_quarter_longer_and_2_percent_shorter_than_the_clock(
    pipeline: tuple[int, int, np.ndarray, np.ndarray],
) -> None:
    """Over ranks that differ by up to 100 times, as long as backward over forward is the same on all of them."""
    played = _played(*pipeline).makespan_s
    assert 0.75 <= played / _closed(*pipeline) <= 1.02


@settings(max_examples=150)
@given(st.integers(2, 8), st.integers(1, 4), st.integers(1, 8), st.floats(1, 1.2), st.floats(1, 1.5))
def test_with_heavier_ends_the_closed_form_is_never_short_and_at_most_8_percent_long(
    stages: int, chunks: int, groups: int, first: float, last: float
) -> None:
    forward = np.ones(stages)
    forward[[0, -1]] = first, last
    played = _played(chunks, groups * stages, forward, 2 * forward).makespan_s
    assert 0.92 <= played / _closed(chunks, groups * stages, forward, 2 * forward) <= 1 + 1e-12


def test_an_order_that_waits_for_itself_is_refused() -> None:
    backward_first = [[Action("backward", 0, 0), Action("forward", 0, 0)]]
    with pytest.raises(InvalidInput, match="deadlocks"):
        play(backward_first, ChunkTimes.alike(1, [1.0], [1.0], [1.0]), blocks(Schedule.ONE_F_ONE_B, 1, 1))


def test_orders_of_all_sizes_run_to_their_end() -> None:
    for stages, micro_batches in itertools.product(range(1, 7), range(1, 14)):
        actions = one_forward_one_backward.actions(PipelineShape(stages, micro_batches))
        times = ChunkTimes.alike(2, *[[1.0] * stages] * 3)
        assert play(actions, times, blocks(Schedule.ONE_F_ONE_B, stages, 1)).makespan_s > 0

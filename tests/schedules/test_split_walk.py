"""What a rank has worked, action by action, where autograd splits its backward pass."""

from __future__ import annotations

import pytest

from meshwright.schedules.peak import in_flight
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule
from meshwright.schedules.split_walk import BACKWARD, INPUT_GRADIENT, SplitWalk, split_walks, walked_micro_batches

SPLIT = [Schedule.INTERLEAVED_ZERO_BUBBLE, Schedule.ZERO_BUBBLE_V, Schedule.DUALPIPE_V]
SHAPE = PipelineShape(stages=4, micro_batches=16, chunks=2, microbatch_group=4)


def _shape(schedule: Schedule, micro_batches: int) -> PipelineShape:
    """SHAPE with other micro-batches, in groups where the schedule has some."""
    return SHAPE._replace(micro_batches=micro_batches, microbatch_group=4 if schedule.record.grouped else 1)


@pytest.mark.parametrize("schedule", SPLIT)
def test_every_rank_begins_with_nothing_and_ends_with_all_gradients_reduced(schedule: Schedule) -> None:
    for walk in split_walks(schedule, _shape(schedule, 16)):
        states = walk.states
        for each in (states.in_flight, states.waiting):
            assert not each[0].any()
            assert not each[-1].any()
            assert (each >= 0).all()
        assert states.reduced[-1].all()
        assert not (states.reduced & (states.added | states.half)).any()


@pytest.mark.parametrize("schedule", SPLIT)
def test_ranks_without_the_embedding_have_as_many_chunks_in_flight_as_the_schedule_says(schedule: Schedule) -> None:
    for stage, walk in list(enumerate(split_walks(schedule, _shape(schedule, 16))))[1:]:
        assert walk.states.in_flight.sum(axis=1).max() == in_flight(schedule, stage, SHAPE)


def test_the_chunk_with_the_embedding_works_backward_when_its_weight_gradients_come() -> None:
    first = split_walks(Schedule.INTERLEAVED_ZERO_BUBBLE, SHAPE)[0]
    assert set(first.kind[first.embedding].tolist()) == {0, INPUT_GRADIENT, BACKWARD, 4}
    assert not first.states.waiting[:, 0].any()
    assert not first.states.half[:, 0].any()
    assert first.states.input_gradients[-1] == SHAPE.micro_batches


def test_weight_gradients_wait_in_two_bytes_for_the_next_input_gradients_of_their_chunk_or_its_reduction() -> None:
    for walk in split_walks(Schedule.INTERLEAVED_ZERO_BUBBLE, SHAPE)[1:]:
        actions = len(walk.kind)
        for index, chunk in enumerate(walk.chunk):
            before, after = (walk.states.half[row, chunk] for row in (index, index + actions))
            assert after == {"weight_gradient": True, "forward": before}.get(_name(walk, index), False)


def _name(walk: SplitWalk, index: int) -> str:
    return ("forward", "input_gradient", "weight_gradient", "backward", "reduction")[walk.kind[index]]


def test_what_one_chunk_hands_to_the_next_on_the_same_rank_keeps_no_gradient_of_its_own() -> None:
    ranks = split_walks(Schedule.ZERO_BUBBLE_V, _shape(Schedule.ZERO_BUBBLE_V, 16))
    assert [_input_gradients(walk, 0)[-1] for walk in ranks] == [16, 32, 32, 16]


def _input_gradients(walk: SplitWalk, further: int) -> list[int]:
    """In every state, with so many micro-batches or groups beyond those that are walked."""
    counts: list[int] = (walk.states.input_gradients + further * walk.states.further).tolist()
    return counts


@pytest.mark.parametrize("schedule", SPLIT)
@pytest.mark.parametrize("stages", [2, 4, 7])
def test_further_micro_batches_bring_no_other_states(schedule: Schedule, stages: int) -> None:
    group = stages if schedule.record.grouped else 1
    enough = int(walked_micro_batches(stages, 10**6, group))
    fewer = PipelineShape(stages=stages, micro_batches=enough, chunks=2, microbatch_group=group)
    more = fewer._replace(micro_batches=enough + 5 * group)
    for few, many in zip(split_walks(schedule, fewer), split_walks(schedule, more), strict=True):
        assert _rows(few, 5) == _rows(many, 0)


def _rows(walk: SplitWalk, further: int) -> dict[bytes, int]:
    """Gradients that came from other ranks, by all else that is known of a state and of the action beside it."""
    actions, gradients, rows = len(walk.kind), _input_gradients(walk, further), {}
    for row, count in enumerate(gradients):
        action = bytes([row < actions, walk.kind[row % actions], walk.chunk[row % actions]])
        rows[action + b"".join(each[row].tobytes() for each in walk.states[:5])] = count
    return rows

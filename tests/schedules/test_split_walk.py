"""What a rank has worked, action by action, where autograd splits its backward pass."""

from __future__ import annotations

import pytest

from meshwright.schedules.peak import in_flight
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule
from meshwright.schedules.split_walk import BACKWARD, split_walks

SPLIT = [Schedule.INTERLEAVED_ZERO_BUBBLE, Schedule.ZERO_BUBBLE_V, Schedule.DUALPIPE_V]
SHAPE = PipelineShape(stages=4, micro_batches=16, chunks=2, microbatch_group=4)


@pytest.mark.parametrize("schedule", SPLIT)
def test_every_rank_ends_with_nothing_in_flight_and_all_gradients_added_up_or_about_to_be(schedule: Schedule) -> None:
    for walk in split_walks(schedule, SHAPE):
        assert not walk.in_flight[0].any()
        assert not walk.waiting[0].any()
        assert not walk.in_flight[-1].any()
        assert not walk.waiting[-1].any()
        assert (walk.waiting >= 0).all()
        assert walk.added[-1].all()


@pytest.mark.parametrize("schedule", SPLIT)
def test_ranks_without_the_embedding_have_as_many_chunks_in_flight_as_the_schedule_says(schedule: Schedule) -> None:
    for stage, walk in list(enumerate(split_walks(schedule, SHAPE)))[1:]:
        assert walk.in_flight.sum(axis=1).max() == in_flight(schedule, stage, SHAPE)


def test_the_chunk_with_the_embedding_works_backward_when_its_weight_gradients_come() -> None:
    first = split_walks(Schedule.INTERLEAVED_ZERO_BUBBLE, SHAPE)[0]
    assert (first.kind[first.chunk == 0] != 2).all()
    assert (first.kind[first.chunk == 0] == BACKWARD).sum() == SHAPE.micro_batches
    assert not first.half[:, 0].any()
    assert first.input_gradients[-1] == SHAPE.micro_batches


def test_weight_gradients_wait_in_two_bytes_for_the_next_input_gradients_of_their_chunk() -> None:
    """The last rank of two: I1:0, F1:1, I1:1, W1:0, F0:2, I0:0, W1:1, F0:3, I0:1, W0:0, F1:2, I1:2."""
    shape = PipelineShape(stages=2, micro_batches=8, chunks=2, microbatch_group=2)
    last = split_walks(Schedule.INTERLEAVED_ZERO_BUBBLE, shape)[1]
    began = 3
    assert last.half[began : began + 13, 1].tolist() == [False] * 4 + [True] * 8 + [False]
    assert last.added[began : began + 13, 1].tolist() == [False] * 12 + [True]


def test_what_one_chunk_hands_to_the_next_on_the_same_rank_keeps_no_gradient_of_its_own() -> None:
    ranks = split_walks(Schedule.ZERO_BUBBLE_V, SHAPE)
    assert [int(walk.input_gradients[-1]) for walk in ranks] == [16, 32, 32, 16]

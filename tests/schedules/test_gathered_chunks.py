"""How often chunks of a pipeline are gathered, and how many are unsharded."""

from __future__ import annotations

import pytest

from meshwright.cost.comms.sharded import gathers_per_step
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.slowdown import slowdown
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.schedules import gathered
from meshwright.schedules.gathered import AHEAD, chunk_gathers, unsharded_chunks
from meshwright.schedules.one_forward_one_backward import in_flight
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule
from meshwright.specs.weights import parameters_by_part
from strategies import llama_8b, question

PIPELINES = [(stages, chunks, group) for stages in (2, 4) for chunks in (2, 3, 4, 5) for group in (stages, stages + 1)]


@pytest.mark.parametrize(("stages", "chunks", "group"), PIPELINES)
@pytest.mark.parametrize("resharded", [False, True])
def test_every_group_of_micro_batches_beyond_the_third_adds_as_many_gathers(
    stages: int, chunks: int, group: int, resharded: bool
) -> None:
    """Six groups, extrapolated from three, against the walk over all six."""
    asked = Schedule.INTERLEAVED, PipelineShape(stages, 6 * group, chunks, group)
    told = chunk_gathers(*asked, resharded=resharded)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gathered, "GROUPS", 6)
        walked = chunk_gathers(*asked, resharded=resharded)
    for one, other in zip(told, walked, strict=True):
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize(("stages", "chunks", "group"), PIPELINES)
def test_up_to_three_chunks_are_gathered_once_and_more_of_them_several_times(
    stages: int, chunks: int, group: int
) -> None:
    gathers = chunk_gathers(Schedule.INTERLEAVED, PipelineShape(stages, 4 * group, chunks, group), resharded=False)
    assert (gathers.ahead >= 1).all()
    assert (gathers.ahead == 1).all() == (chunks <= AHEAD)
    assert not gathers.forward.any()
    assert not gathers.backward.any()


@pytest.mark.parametrize(("stages", "chunks", "group"), PIPELINES)
def test_weights_given_back_are_gathered_for_every_pass_but_one_that_follows_a_backward(
    stages: int, chunks: int, group: int
) -> None:
    """Up to three chunks: m + 1 times, as under 1F1B."""
    micro_batches = 4 * group
    gathers = chunk_gathers(Schedule.INTERLEAVED, PipelineShape(stages, micro_batches, chunks, group), resharded=True)
    total = sum(gathers)
    assert (total >= micro_batches + 1).all()
    assert (total <= 2 * micro_batches + 1).all()
    if chunks <= AHEAD:
        assert (total == micro_batches + 1).all()


@pytest.mark.parametrize("stages", [2, 4, 8])
def test_one_chunk_is_gathered_as_the_closed_form_says(stages: int) -> None:
    inputs, micro_batches = question(llama_8b(), "2x8:h100", "torchtitan"), 3 * stages
    plan = Plan(pp=stages, dp=2, zero=3, num_microbatches=micro_batches)
    walked = chunk_gathers(Schedule.ONE_F_ONE_B, PipelineShape(stages, micro_batches, 1, micro_batches), resharded=True)
    for stage in range(stages):
        live = in_flight(stage, PipelineShape(stages, micro_batches))
        counted = gathers_per_step(plan, inputs, live, stage)
        assert counted.forward == (walked.ahead + walked.forward)[0, stage]
        assert counted.backward == walked.backward[0, stage]


@pytest.mark.parametrize(("stages", "chunks", "group"), PIPELINES)
def test_no_more_chunks_are_unsharded_than_there_are(stages: int, chunks: int, group: int) -> None:
    for rank in unsharded_chunks(Schedule.INTERLEAVED, PipelineShape(stages, 3 * group, chunks, group)):
        assert 0 <= rank.forward < min(chunks, AHEAD)
        assert 1 <= rank.after_backward <= min(chunks, AHEAD)
        for unsharded, own in ((rank.first, rank.first_own), (rank.second, rank.second_own)):
            assert 0 <= own <= unsharded <= min(chunks, AHEAD)
        assert rank.fullest_own <= rank.fullest <= min(chunks, AHEAD)


def test_the_first_stage_of_one_group_holds_a_second_chunk_once_the_last_is_reduced() -> None:
    """Qwen3-32B with pp2 vpp4, ZeRO 3 and two micro-batches: 5.35 GB at the second chunk's second backward (counted
    with PyTorch 2.13), 4.41 without the first chunk, which is gathered ahead by then, and 5.16 without its embedding.
    """
    first, last = unsharded_chunks(Schedule.INTERLEAVED, PipelineShape(2, 2, 4, 2))
    assert (first.following, first.following_own, first.following_first, first.following_passed) == (2, 1, 1, 3)
    assert (last.following, last.following_own, last.following_first, last.following_passed) == (2, 1, 1, 2)


def test_a_rank_alone_puts_nothing_together_ahead() -> None:
    """Mixtral with pp2 vpp4 and ZeRO 3 on one rank: 409.8 GiB at the last forward, beside which one other chunk is
    unsharded (counted with PyTorch 2.13), 423.3 with one that would have been gathered ahead.
    """
    pipeline = PipelineShape(stages=2, micro_batches=4, chunks=4, microbatch_group=2)
    assert [unsharded_chunks(Schedule.INTERLEAVED, pipeline, alone=alone)[0].forward for alone in (False, True)] == [
        2,
        1,
    ]


def _interleaved(chunks: int) -> Estimate:
    inputs = question(llama_8b(), "2x8:h100", "torchtitan", global_batch=32)
    inputs = inputs.replace(runtime=inputs.runtime.replace(cross_entropy="compiled"))
    plan = Plan(
        pp=2, vpp=chunks, dp=8, zero=2, num_microbatches=4, schedule=Schedule.INTERLEAVED, embedding_as_layer=True,
        head_as_layer=True,
    )  # fmt: skip
    (priced,) = estimate_each([plan], inputs)
    return priced


def test_more_than_three_chunks_exchange_for_longer_and_hold_fewer_weights() -> None:
    """Beside what adds up the gradients of four micro-batches, whatever the chunks are."""
    two, four = _interleaved(2), _interleaved(4)
    asked = question(llama_8b(), "2x8:h100", "torchtitan", global_batch=32)
    weights = sum(parameters_by_part(asked.model).values()) / 2
    added = elementwise_time(4 * (2 + 4 + 4) * weights, asked.cluster.accelerator) * slowdown(asked)
    assert four.time.exposed_dp_s - added > 1.5 * (two.time.exposed_dp_s - added) > 0
    assert four.memory.parameters < two.memory.parameters


@pytest.mark.parametrize("resharded", [False, True])
def test_ranks_whose_orders_differ_in_length_gather_every_chunk(resharded: bool) -> None:
    """DualPipeV joins some gradients on some ranks and splits them on others."""
    lengths = {len(actions) for actions in Schedule.DUALPIPE_V.record.actions(PipelineShape(4, 16, 2, 4))}
    gathers = chunk_gathers(Schedule.DUALPIPE_V, PipelineShape(4, 16, 2, 4), resharded=resharded)
    assert len(lengths) > 1
    assert (gathers.ahead + gathers.forward >= 1).all()
    assert len(unsharded_chunks(Schedule.DUALPIPE_V, PipelineShape(4, 16, 2, 4))) == 4

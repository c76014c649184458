"""Logits that torch.distributed.pipelining keeps for its caller until the step ends."""

from __future__ import annotations

import pytest

from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.schedules.records import Schedule
from meshwright.specs.reading.model import read_model
from meshwright.units import GIB
from strategies import question

LOGITS = 2 * 4096 * 128256 / GIB
"""Of one micro-batch of 4,096 tokens, 2 bytes each."""


def _allocated(micro_batches: int, *, kept: bool, **changes: object) -> list[float]:
    plan = Plan(pp=2, dp=8, zero=2, num_microbatches=micro_batches, **changes)
    inputs = question(
        read_model("llama-3.1-8b"), "2x8:h100", "torchtitan", sequence_length=4096, global_batch=8 * micro_batches
    )
    runtime = inputs.runtime.replace(cross_entropy="compiled", keeps_outputs=kept)
    (estimate,) = estimate_each([plan], inputs.replace(runtime=runtime))
    return [stage.memory.allocated / GIB for stage in estimate.stages]


@pytest.mark.parametrize("micro_batches", [4, 8])
def test_the_last_stage_keeps_the_logits_of_other_micro_batches(micro_batches: int) -> None:
    (first, last), (first_kept, last_kept) = (_allocated(micro_batches, kept=kept) for kept in (False, True))
    assert first_kept == pytest.approx(first)
    assert last_kept - last == pytest.approx((micro_batches - 1) * LOGITS, rel=0.01)


def test_in_the_end_all_are_joined() -> None:
    # Two more micro-batches add four tensors of logits then, more than the backward pass beside theirs.
    ends = [_allocated(count, kept=True)[1] for count in (64, 66)]
    assert ends[1] - ends[0] == pytest.approx(4 * LOGITS, rel=0.01)


def test_a_split_backward_pass_keeps_them_too() -> None:
    schedule = {"vpp": 2, "schedule": Schedule.ZERO_BUBBLE_V}
    without, kept = (_allocated(8, kept=each, **schedule) for each in (False, True))
    assert kept[0] > without[0] + LOGITS  # the first rank has the last chunk
    assert kept[1] == pytest.approx(without[1])


def test_a_loss_in_pieces_is_given_no_logits() -> None:
    plan = Plan(pp=2, dp=8, zero=2, num_microbatches=4)
    inputs = question(read_model("llama-3.1-8b"), "2x8:h100", "torchtitan", sequence_length=4096, global_batch=32)
    each = [
        estimate_each([plan], inputs.replace(runtime=inputs.runtime.replace(keeps_outputs=kept)))[0].memory.allocated
        for kept in (False, True)
    ]
    assert each[0] == each[1]

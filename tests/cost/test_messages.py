"""The messages of one plan: they are those that its step is priced by, and add up to it."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.cost.comms.group import axis_group
from meshwright.cost.messages import layer_messages, pass_messages, step_messages, weight_messages
from meshwright.cost.step import estimate_plans
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.behaviours import with_behaviours
from strategies import llama_8b, mixture, question, questions, some_legal_plans

QUESTIONS = tuple(questions())
PARTS = ("tp", "cp", "ep", "pp", "dp")
PHASES = {"forward", "backward", "recompute", "step"}


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_they_expose_adds_up_to_the_waterfall(name: str) -> None:
    inputs, plans = questions()[name], some_legal_plans(name, 12)
    for row in range(len(plans)):
        priced = estimate_plans(plans.take(slice(row, row + 1)), inputs, keep_all_stages=True)
        rows = step_messages(priced)
        for part in PARTS:
            exposed = sum(each.exposed_s for each in rows if each.part == part)
            priced_s = float(getattr(priced.time, f"exposed_{part}_s")[0])
            np.testing.assert_allclose(exposed, priced_s, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_row_takes_time_between_two_ranks_or_more(name: str) -> None:
    inputs, plans = questions()[name], some_legal_plans(name, 6)
    for row in range(len(plans)):
        priced = estimate_plans(plans.take(slice(row, row + 1)), inputs, keep_all_stages=True)
        for each in step_messages(priced):
            assert each.seconds > 0
            assert each.phase in PHASES
            assert each.times > 0
            assert each.group == axis_group(each.axis, plans[row], inputs)
            if each.operation not in ("copy", "wait"):
                assert each.group.ranks > 1
                assert each.bytes > 0
                assert each.sent_bytes > 0


def test_overlap_hides_messages_and_changes_nothing_else_of_them() -> None:
    """What is sent, how often and how long it takes alone does not depend on what runs beside it."""
    hidden = question(mixture(), "2x8:h100", "megatron-core", global_batch=64)
    bare = [f"overlap.{name}=0" for name in type(hidden.runtime.overlap).model_fields]
    alone = hidden.replace(runtime=with_behaviours(hidden.runtime, bare))
    plan = Plan(tp=2, sp=True, pp=2, dp=4, ep=4, zero=1, num_microbatches=16)
    rows, others = (
        step_messages(estimate_plans(Plans.of([plan]), inputs, keep_all_stages=True)) for inputs in (hidden, alone)
    )
    for one, other in zip(rows, others, strict=True):
        assert one._replace(exposed_s=0.0) == other._replace(exposed_s=0.0)
        assert other.exposed_s == pytest.approx(other.seconds)
        assert one.exposed_s <= one.seconds
    assert sum(row.exposed_s for row in rows) < sum(row.exposed_s for row in others)


def test_a_sequence_parallel_layer_gathers_and_scatters_16_mib() -> None:
    """2 s b h bytes: 8192 tokens of 4096 elements in bf16, four times forward and backward, and two gathers again."""
    inputs = question(llama_8b(), "1x8:h100", sequence_length=8192)
    rows = layer_messages(Plan(tp=8, sp=True), inputs, inputs.model.layer_kinds[0])
    assert {row.bytes for row in rows} == {64 * 2**20}
    counts = {(row.operation, row.phase): 0.0 for row in rows}
    for row in rows:
        counts[row.operation, row.phase] += row.times
    assert counts == {
        ("all_gather", "forward"): 2,
        ("reduce_scatter", "forward"): 2,
        ("all_gather", "backward"): 4,
        ("reduce_scatter", "backward"): 2,
    }


def test_stages_that_hold_no_end_exchange_for_none() -> None:
    inputs = question(llama_8b(), "1x8:h100", global_batch=16)
    plans = Plans.of([Plan(tp=2, sp=True, pp=4, num_microbatches=16)])
    priced = estimate_plans(plans, inputs, keep_all_stages=True)
    units = [{row.unit for row in pass_messages(priced, stage)} for stage in range(4)]
    assert units == [{"dense", "embedding"}, {"dense"}, {"dense"}, {"dense", "head"}]
    assert not any(weight_messages(priced, stage) for stage in range(4))

"""What goes beside the tokens of experts: how many come from each rank, and their scores."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.cost.comms.expert_counts import COUNTS, count_messages
from meshwright.cost.comms.experts import SCORES, expert_exchanges
from meshwright.cost.compute.layer import layer_time
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from strategies import mixture, question

PLAN = Plan(dp=8, ep=8)


def _contents(inputs: Inputs, phase: str) -> list[str]:
    kind = inputs.model.layer_kinds[0]
    exchanges = expert_exchanges(PLAN, inputs, kind, layer_time(PLAN, inputs, kind))
    return [message.content for each in exchanges if each.phase == phase for message in each.messages]


def _asked(runtime: str, *behaviours: str, **job: Any) -> Inputs:
    inputs = question(mixture(), "1x8:h100", runtime, global_batch=8, **job)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, behaviours))


@pytest.mark.parametrize(
    ("runtime", "operation", "scores"),
    [
        ("megatron-core", "all_gather", 1),
        ("megatron-core@nemo-25.04", "all_gather", 0),
        ("torchtitan", "all_to_all", 0),
    ],
)
def test_counts_go_ahead_of_forward_and_scores_both_ways(runtime: str, operation: str, scores: int) -> None:
    inputs = _asked(runtime)
    forward, backward = (_contents(inputs, phase) for phase in ("forward", "backward"))
    assert forward[0] == COUNTS
    assert COUNTS not in backward
    assert forward.count(SCORES) == backward.count(SCORES) == scores
    (counts,) = count_messages(PLAN, inputs, inputs.model.layer_kinds[0])
    assert counts.operation == operation
    assert counts.seconds > 0


def test_nothing_counts_tokens_where_all_are_padded_or_another_dispatcher_sends_them() -> None:
    padded = _asked("megatron-core", expert_capacity=1.0, expert_imbalance=None)
    others = [_asked("megatron-core", f"dispatcher={name}") for name in ("all_gather", "fused")]
    for inputs in (padded, *others):
        assert count_messages(PLAN, inputs, inputs.model.layer_kinds[0]) == ()

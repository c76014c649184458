"""What ranks gather of weights that they cannot divide evenly: as many rows on every rank, some of them padding."""

from __future__ import annotations

import pytest

from meshwright.cost.memory.parameters import gathered_end_parameters, gathered_layer_parameters, layer_parameters
from meshwright.cost.messages import weight_messages
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from strategies import llama_8b, question

EXPERTS = 8 * 3 * 4096 * 14336


def _accelerate(nodes: int) -> Inputs:
    """Mixtral, whose 8 experts are dealt out whole, on 8 ranks a node."""
    return question(
        read_model("mixtral-8x7b"), f"{nodes}x8:h100", "accelerate", precision="bf16", global_batch=8 * nodes
    )


@pytest.mark.parametrize(("nodes", "padded"), [(1, 1), (2, 2), (4, 4)])
def test_fewer_experts_than_ranks_are_gathered_with_padding(nodes: int, padded: int) -> None:
    """Torch 2.13 pads dim 0 to a row for every rank: 16 ranks gather 16 experts, half of them padding."""
    inputs, plan = _accelerate(nodes), Plan(dp=8 * nodes, zero=3)
    _, experts = gathered_layer_parameters(plan, inputs, inputs.model.layer_kinds[0])
    assert experts == padded * EXPERTS
    gathers = [
        row
        for row in weight_messages(estimate_plans(Plans.of([plan]), inputs, keep_all_stages=True), 0)
        if row.operation == "all_gather" and row.bytes == 2 * padded * EXPERTS
    ]
    assert sum(row.times for row in gathers) == 2 * inputs.model.num_layers


def test_padding_takes_time() -> None:
    """The same step where a runtime divides experts by rows, as torchtitan does, moves half as much over 16 ranks."""
    inputs, plan = _accelerate(2), Plan(dp=16, zero=3)
    divided = inputs.replace(runtime=inputs.runtime.replace(divides_few_experts=True))
    dealt, by_rows = (estimate_each([plan], each)[0].time.exposed_dp_s for each in (inputs, divided))
    assert dealt > 1.5 * by_rows


def test_rows_that_all_ranks_divide_are_not_padded() -> None:
    inputs, plan = question(llama_8b(), "1x8:h100", "torchtitan"), Plan(dp=8, zero=3)
    kind = inputs.model.layer_kinds[0]
    assert gathered_layer_parameters(plan, inputs, kind) == (layer_parameters(plan, inputs, kind), 0)


def test_learned_positions_are_left_to_the_root_unit_where_the_ends_are_apart() -> None:
    """GPT-2's 50257 rows over 8 ranks are 6283 each, beside a final norm of two vectors; its 1024 positions 128."""
    plan, gpt2 = Plan(dp=8, zero=3), read_model("gpt2")
    inputs = question(gpt2, "1x8:h100", "accelerate", precision="bf16", sequence_length=1024)
    ends = gathered_end_parameters(plan, inputs)
    assert ends == (1024 * 768, 8 * 6283 * 768, 2 * 768)
    together = inputs.replace(runtime=inputs.runtime.replace(ends_apart=False))
    assert gathered_end_parameters(plan, together) == (0, 8 * 6283 * 768 + 1024 * 768, 2 * 768)

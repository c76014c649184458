"""Ends that tensor-parallel ranks divide or, of DeepSpeed, do not: weights, states, logits, exchanges and seconds."""

from __future__ import annotations

import pytest

from meshwright.arrays import FloatColumn
from meshwright.cost.comms.ends import LOGITS, embedding_exchanges, head_exchanges
from meshwright.cost.comms.tensor import tensor_region
from meshwright.cost.compute.ends import head_time
from meshwright.cost.loss_pieces import capped_logits
from meshwright.cost.memory.components import Components
from meshwright.cost.memory.ends import head_memory
from meshwright.cost.memory.parameters import end_parameters
from meshwright.cost.shard import tokens
from meshwright.cost.step import estimate_plans
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import HALF_BYTES
from meshwright.specs.reading.model import read_model
from strategies import question

UNTIED, TIED, WHOLE = "llama-3.1-8b", "qwen3-4b", "gemma-2-2b"
PLAN = Plan(tp=4)


def _asked(model: str, runtime: str = "deepspeed") -> Inputs:
    return question(read_model(model), "1x8:h100", runtime, precision="bf16")


@pytest.mark.parametrize(("model", "embedding", "head"), [(UNTIED, 1, 4), (TIED, 4, 0), (WHOLE, 1, 0)])
def test_what_a_rank_holds_of_both_ends(model: str, embedding: int, head: int) -> None:
    inputs = _asked(model)
    rows, hidden = inputs.model.vocab_size, inputs.model.hidden_size
    held = end_parameters(PLAN, inputs)
    assert float(held.embedding) == rows * hidden / embedding
    assert float(held.head) == hidden + (rows * hidden / head if head else 0)


@pytest.mark.parametrize(("model", "split"), [(UNTIED, 1), (TIED, 4), (WHOLE, 1)])
def test_logits_of_the_whole_vocabulary_are_alive_where_they_are_gathered(model: str, split: int) -> None:
    inputs = _asked(model)
    logits = int(tokens(PLAN, inputs)) * inputs.model.vocab_size / split
    memory = head_memory(PLAN, inputs)
    assert float(memory.output) == 2 * logits
    assert float(memory.working) == (inputs.runtime.entropy.alive_bytes + capped_logits(inputs).kept) * logits


def test_an_untied_embedding_exchanges_nothing_and_logits_are_gathered_once() -> None:
    inputs = _asked(UNTIED)
    region = tensor_region(PLAN, inputs)
    assert embedding_exchanges(region, inputs) == ()
    exchanges = head_exchanges(region, PLAN, inputs, head_time(PLAN, inputs))
    (gather,) = [each for exchange in exchanges for each in exchange.messages if each.content == LOGITS]
    assert gather.operation == "all_gather"
    assert float(gather.bytes) == 2 * int(tokens(PLAN, inputs)) * inputs.model.vocab_size
    assert [float(each.times) for each in exchanges if each.messages == (gather,)] == [1.0]
    assert [each.content for exchange in exchanges for each in exchange.messages].count(LOGITS) == 1


def test_tied_ends_that_are_whole_exchange_nothing() -> None:
    inputs = _asked(WHOLE)
    region = tensor_region(PLAN, inputs)
    assert embedding_exchanges(region, inputs) == head_exchanges(region, PLAN, inputs, head_time(PLAN, inputs)) == ()


@pytest.mark.parametrize("model", [UNTIED, TIED, WHOLE])
def test_one_rank_is_priced_as_with_divided_ends(model: str) -> None:
    inputs, plans = _asked(model), Plans.of([Plan(dp=8, zero=1)])
    one, other = (estimate_plans(plans, each) for each in (inputs, _divided(inputs)))
    assert (float(one.time.total[0]), one.memory.device[0]) == (float(other.time.total[0]), other.memory.device[0])


def test_the_whole_embedding_has_gradients_and_states_on_every_rank() -> None:
    inputs, model = _asked(UNTIED), read_model(UNTIED)
    whole, divided = _memory(inputs), _memory(_divided(inputs))
    more = whole.parameters[0] - divided.parameters[0]
    assert more == HALF_BYTES * model.vocab_size * model.hidden_size * 7 / 8
    for name in ("gradients", "optimizer_states"):
        ratio = getattr(divided, name)[0] / divided.parameters[0]
        assert getattr(whole, name)[0] - getattr(divided, name)[0] == pytest.approx(ratio * more, rel=1e-9)


def _divided(inputs: Inputs) -> Inputs:
    divided = inputs.runtime.replace(whole_untied_embedding=False, gathers_logits=False, whole_tied_ends=())
    return inputs.replace(runtime=divided)


def _memory(inputs: Inputs) -> Components[FloatColumn]:
    return estimate_plans(Plans.of([Plan(tp=8, num_microbatches=8)]), inputs).memory


@pytest.mark.parametrize(("entropy", "whole", "split"), [("compiled", 4, 10), ("eager", 12, 16)])
def test_a_loss_of_pytorch_has_more_alive_of_each_logit_where_tp_splits_the_vocabulary(
    entropy: str, whole: float, split: float
) -> None:
    inputs = _asked(UNTIED, "torchtitan")
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, [f"cross_entropy={entropy}"]))
    for plan, alive in ((Plan(), whole), (PLAN, split)):
        logits = int(tokens(plan, inputs)) * inputs.model.vocab_size / plan.tp
        assert float(head_memory(plan, inputs).working) == alive * logits

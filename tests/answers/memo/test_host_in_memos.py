"""What memos say of weights in the host's memory: copies have a line of their own, budgets begin on the device."""

from __future__ import annotations

import pytest

from meshwright.answers.memo.budget import budgets
from meshwright.answers.memo.exchanges import exchanges
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from strategies import llama_8b, question

ALONE, EIGHT = Plan(zero=3, micro_batch=8), Plan(dp=8, zero=3)


def asked(ranks: int, runtime: str = "accelerate") -> Inputs:
    return question(llama_8b(), f"1x{ranks}:h100", runtime, precision="bf16", global_batch=8)


def on_the_host(inputs: Inputs) -> Inputs:
    return inputs.replace(runtime=with_behaviours(inputs.runtime, ["optimizer_states=offloaded"]))


def test_copies_of_one_rank_are_told_though_it_sends_nothing_to_others() -> None:
    inputs = on_the_host(asked(1))
    (estimate,) = estimate_each([ALONE], inputs)
    (line,) = exchanges(estimate, inputs)
    assert line.axis == "host"
    assert 0.9 < line.exposed_s / estimate.time.exposed_dp_s <= 1
    assert line.sent_bytes * line.times / line.seconds == pytest.approx(55e9)  # that of an H100 and its host


def test_copies_are_not_counted_among_what_goes_over_links() -> None:
    given = asked(8)
    (there,), (away,) = (
        [{line.axis: line for line in exchanges(each, inputs)} for each in estimate_each([EIGHT], inputs)]
        for inputs in (given, on_the_host(given))
    )
    assert ({*there}, {*away}) == ({"dp"}, {"dp", "host"})
    links = [(line.sent_bytes, line.times, line.seconds) for line in (there["dp"], away["dp"])]
    assert links[0] == pytest.approx(links[1])


def test_what_is_told_adds_up_to_the_step() -> None:
    inputs = on_the_host(asked(8))
    (estimate,) = estimate_each([EIGHT], inputs)
    told = sum(line.exposed_s for line in exchanges(estimate, inputs))
    assert told == pytest.approx(estimate.time.exposed_dp_s, rel=1e-9)


@pytest.mark.parametrize("runtime", ["accelerate", "torchtitan"])
def test_layouts_that_gather_nothing_have_all_states_on_the_device(runtime: str) -> None:
    given = asked(8, runtime)
    plan = Plan(dp=8, zero=2)
    kept, offloaded = (budgets(estimate_each([plan], each)[0], each) for each in (given, on_the_host(given)))
    for name in ("one", "replicated", "without_zero"):
        assert getattr(offloaded, name).memory.states == getattr(kept, name).memory.states > 0
    assert offloaded.chosen.memory.optimizer_states == 0

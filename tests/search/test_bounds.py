"""Bounds: no plan holds less than its bound, none that is said not to fit fits, and answers are the same without."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.answers.plan_table import search_lines
from meshwright.cost.footprint import footprints_of
from meshwright.cost.memory.fit import Verdict, bounds
from meshwright.cost.shapes import pipelines_of
from meshwright.layout.plans import Plans
from meshwright.search import find as find_module
from meshwright.search.bounds import LeastMemory, least_memory
from meshwright.search.find import find
from meshwright.specs.inputs import Inputs
from strategies import gpt_like, legal_plans, llama_70b, question, questions, with_experts

TIGHT = question(llama_70b(), "2x8:h100", global_batch=32, sequence_length=4096)
ANSWERED = {
    "tight": TIGHT,
    "nothing fits": question(llama_70b(), "1x8:h100", global_batch=8, sequence_length=8192),
    "experts": with_experts(question(gpt_like(), "1x8:v100", "megatron-lm", global_batch=16), 64),
}
ASKED = {**ANSWERED, **questions()}


def _least(plans: Plans, inputs: Inputs) -> LeastMemory:
    return least_memory(plans, pipelines_of(plans, inputs, keep_all_stages=False)[0], inputs)


@pytest.mark.parametrize("name", ASKED)
def test_no_plan_holds_less_than_its_bound_and_what_is_surely_unfit_does_not_fit(name: str) -> None:
    plans = legal_plans(ASKED[name])
    least, priced = _least(plans, ASKED[name]), footprints_of(plans, ASKED[name])
    assert (least.device <= priced.worst_memory.device * (1 + 1e-12)).all()
    assert (priced.verdict[least.unfit] == Verdict.OUT_OF_MEMORY).all()


def test_states_alone_tell_a_good_part_of_what_does_not_fit() -> None:
    plans = legal_plans(TIGHT)
    unfit = footprints_of(plans, TIGHT).verdict == Verdict.OUT_OF_MEMORY
    assert unfit.sum() / 4 < _least(plans, TIGHT).unfit.sum() < unfit.sum()


def test_what_a_plan_needs_at_least_grows_with_what_it_allocates_and_with_what_is_reserved_beside() -> None:
    allocated = np.linspace(1e9, 200e9, 50)[:, None, None]
    reserved = allocated * (1 + TIGHT.runtime.memory.fragmentation) + np.linspace(0, 50e9, 20)[:, None]
    least = np.asarray(bounds(allocated, reserved, np.linspace(0, 5e9, 3), TIGHT).least)
    assert (np.diff(least, axis=0) > 0).all()
    assert (np.diff(least, axis=1) >= 0).all()


@pytest.mark.parametrize("name", ANSWERED)
def test_an_answer_is_the_same_where_every_plan_is_priced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = ANSWERED[name]
    bounded = find(inputs)
    nothing = lambda plans, *_: LeastMemory(np.zeros(len(plans)), np.zeros(len(plans), dtype=bool))  # noqa: E731
    monkeypatch.setattr(find_module, "least_memory", nothing)
    whole = find(inputs)
    assert whole.unpriced == 0 < bounded.unpriced
    assert bounded == replace(whole, unpriced=bounded.unpriced)


def test_the_answer_counts_what_was_not_priced() -> None:
    found = find(TIGHT)
    (line,) = [line for line in search_lines(found).lines if line.startswith("Not priced")]
    assert str(found.unpriced) in line
    assert found.fitting + found.unpriced <= found.legal

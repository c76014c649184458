"""Bounds: no plan holds less than its bound, none that is said not to fit fits, and answers are the same without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from meshwright.answers.plans.table import search_lines
from meshwright.cost.footprint import footprints_of
from meshwright.cost.memory.fit import Verdict, bounds
from meshwright.cost.shapes import pipelines_of
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages
from meshwright.search.find import find
from meshwright.search.fits import fitting as fitting_module
from meshwright.search.fits import forward_bounds as forward_bounds_module
from meshwright.search.fits.bounds import LeastMemory, least_in_forward, least_memory, most_unequal
from meshwright.search.fits.fitting import fitting_where_safe
from meshwright.search.fits.forward_bounds import ForwardBounds
from meshwright.search.resolve import stages as stages_module
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from strategies import gpt_like, latent, legal_plans, llama_70b, question, questions, with_experts

TIGHT = question(llama_70b(), "2x8:h100", global_batch=32, sequence_length=4096)
SOME_FIT = question(llama_70b(), "5x4:h100", global_batch=20, sequence_length=4096)
ANSWERED = {
    "tight": TIGHT,
    "nothing fits": question(llama_70b(), "1x8:h100", global_batch=8, sequence_length=8192),
    "experts": with_experts(question(gpt_like(), "1x8:v100", "megatron-lm", global_batch=16), 64),
}
ANSWERED["deferred gradients"] = question(llama_70b(), "2x8:h100", "torchtitan", global_batch=16, sequence_length=8192)
ROUTED = question(latent(), "1x4:a100-40gb", "torchtitan", global_batch=16, expert_imbalance=None)
EXPERTS = question(read_model("mixtral-8x7b"), "2x8:a100-80gb", global_batch=32, expert_imbalance=None)
ASKED = {**ANSWERED, "routed as usual": ROUTED, **questions()}
CAST = [name for name, inputs in ASKED.items() if inputs.runtime.storage.weights != "half"]


def _least(plans: Plans, inputs: Inputs) -> LeastMemory:
    return least_memory(pipelines_of(plans, inputs, keep_all_stages=False)[0], inputs)


def _least_in_forward(plans: Plans, inputs: Inputs) -> LeastMemory:
    return least_in_forward(plans, *pipelines_of(plans, inputs, keep_all_stages=False), inputs)


@pytest.mark.parametrize("name", ASKED)
def test_no_plan_holds_less_than_its_bound_and_what_is_surely_unfit_does_not_fit(name: str) -> None:
    plans = legal_plans(ASKED[name])
    least, priced = _least(plans, ASKED[name]), footprints_of(plans, ASKED[name])
    assert (least.device <= priced.worst_memory.device * (1 + 1e-12)).all()
    assert (priced.verdict[least.unfit] == Verdict.OUT_OF_MEMORY).all()


@pytest.mark.parametrize("name", CAST)
def test_no_plan_holds_less_than_in_its_last_forward_and_what_is_unfit_then_does_not_fit(name: str) -> None:
    inputs = ASKED[name]
    plans = legal_plans(inputs)
    least, priced = _least_in_forward(plans, inputs), footprints_of(plans, inputs)
    assert (least.device <= priced.worst_memory.device).all()
    assert (priced.verdict[least.unfit] == Verdict.OUT_OF_MEMORY).all()


@pytest.mark.parametrize("name", CAST)
def test_weights_alone_tell_of_the_last_forward_no_more_than_all_that_is_kept(name: str) -> None:
    inputs = ASKED[name]
    plans = legal_plans(inputs)
    pipelines, _ = pipelines_of(plans, inputs, keep_all_stages=False)
    whole, bounds = _least_in_forward(plans, inputs), ForwardBounds.of(plans, pipelines, inputs)
    assert (bounds.device <= whole.device).all()
    assert (bounds.unfit == whole.unfit).all()
    assert bounds.leanest() == whole.device.argmin()
    bounds.ask(~bounds.asked)
    assert (bounds.device == whole.device).all()


@pytest.mark.parametrize("name", ASKED)
def test_no_plan_is_safe_that_bounds_rule_out_to_be(name: str) -> None:
    inputs = ASKED[name]
    plans = legal_plans(inputs)
    pipelines, stages = pipelines_of(plans, inputs, keep_all_stages=False)
    unfit = least_memory(pipelines, inputs, Verdict.SAFE).unfit
    if name in CAST:
        unfit |= least_in_forward(plans, pipelines, stages, inputs, Verdict.SAFE).unfit
    safe = footprints_of(plans, inputs).verdict == Verdict.SAFE
    assert not (safe & unfit).any()
    assert len(fitting_where_safe(plans, pipelines, np.arange(len(plans)), inputs)) >= safe.sum()


@pytest.mark.parametrize("name", ["deferred gradients", "routed as usual"])
def test_the_last_forward_tells_most_of_what_does_not_fit_and_more_than_states_alone(name: str) -> None:
    plans = legal_plans(ASKED[name])
    unfit = footprints_of(plans, ASKED[name]).verdict == Verdict.OUT_OF_MEMORY
    in_forward, by_states = _least_in_forward(plans, ASKED[name]).unfit, _least(plans, ASKED[name]).unfit
    assert by_states.sum() < in_forward.sum() < unfit.sum() < 2 * in_forward.sum()


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
    nothing = lambda pipelines, _: LeastMemory(zeros := np.zeros(len(pipelines.of_plan)), zeros > 0)  # noqa: E731
    monkeypatch.setattr(fitting_module, "least_memory", nothing)
    unbound = lambda _, pipelines, *__, **___: nothing(pipelines, None)  # noqa: E731
    monkeypatch.setattr(forward_bounds_module, "least_in_forward", unbound)
    whole = find(inputs)
    assert whole.unpriced == 0 < bounded.unpriced
    assert bounded == replace(whole, unpriced=bounded.unpriced)


def test_the_answer_counts_what_was_not_priced() -> None:
    found = find(TIGHT)
    (line,) = [line for line in search_lines(found).lines if line.startswith("Not priced")]
    assert f"{found.unpriced:,}" in line
    assert found.fitting + found.unpriced <= found.legal


@pytest.mark.parametrize("name", ["mixtral-like on h100", "routed as usual, torchtitan"])
def test_what_unequal_routing_adds_is_a_share_of_what_is_no_state(name: str) -> None:
    inputs = (questions() | {"routed as usual, torchtitan": ROUTED})[name]
    plans = legal_plans(inputs)
    priced, most = footprints_of(plans, inputs), most_unequal(plans, inputs)
    stored, held = priced.held.steps.stored, priced.held.steps.held[priced.worst]
    states = (stored.parameters + stored.gradients + stored.optimizer_states)[held]
    rest = priced.worst_memory.allocated - states - inputs.runtime.memory.workspace_bytes
    added = priced.worst_routing
    assert added.max() > 0
    assert (added <= (most - 1) * (2 + inputs.runtime.memory.fragmentation) * rest * (1 + 1e-9)).all()


@pytest.mark.parametrize(("inputs", "left"), [(SOME_FIT, 0.4), (EXPERTS, 0.8)])
def test_stages_that_cannot_fit_are_not_priced_and_answers_are_the_same(
    inputs: Inputs, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced, costs = [], stages_module.stage_costs

    def counted(plans: Plans, stages: Stages, *rest: Any) -> Any:
        priced.append(len(stages.plan))
        return costs(plans, stages, *rest)

    monkeypatch.setattr(stages_module, "stage_costs", counted)
    few = find(inputs), sum(priced)
    priced.clear()
    monkeypatch.setattr(stages_module, "unfit_stages", lambda _, stages, *__: np.zeros(len(stages.plan), dtype=bool))
    every = find(inputs), sum(priced)
    assert few[0] == every[0]
    assert 0 < few[1] <= left * every[1]

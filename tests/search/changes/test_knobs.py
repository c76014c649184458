"""Knobs: every single change is legal, is one change, and costs what the changed question costs when asked afresh."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import pytest

from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_each
from meshwright.layout.legality import require_legal
from meshwright.layout.named import plan_of
from meshwright.layout.plan import Plan, in_runs
from meshwright.search.changes.changed_plans import changed_plans
from meshwright.search.changes.knobs import knobs
from meshwright.search.changes.sensitivity import PricedChange, Sensitivity, cheapest_safe, sensitivity
from meshwright.search.resolve.stages import best_splits
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from strategies import gpt_like, latent, llama_8b, llama_70b, mixture, question

ASKED: dict[str, tuple[Inputs, dict[str, Any]]] = {
    "70b interleaved": (
        question(llama_70b(), "8x8:h100", global_batch=256, sequence_length=8192),
        {"tp": 8, "pp": 4, "vpp": 5},
    ),
    "long context": (
        question(llama_8b(), "2x8:h100", global_batch=8, sequence_length=65536),
        {"tp": 2, "cp": 8, "context_exchange": "ring", "recompute": "full"},
    ),
    "experts": (question(mixture(), "2x8:h100", global_batch=64, sequence_length=16384), {"tp": 2, "pp": 2, "ep": 4}),
    "latent": (question(latent(), "2x8:b200", global_batch=64, sequence_length=4096), {"tp": 2, "etp": 2, "ep": 8}),
    "fully sharded": (
        question(llama_8b(), "1x8:h100", "torchtitan", global_batch=64, sequence_length=8192),
        {"zero": 3},
    ),
    "layers by name": (
        question(llama_8b(), "1x8:h100", global_batch=64, sequence_length=4096),
        {"tp": 2, "pp": 4, "first_stage_layers": 7, "last_stage_layers": 7, "micro_batch": 2},
    ),
    "one rank each": (question(gpt_like(), "1x1:v100", "megatron-lm", global_batch=8, sequence_length=1024), {}),
    "too large": (question(llama_70b(), "8x8:h100", global_batch=64, sequence_length=8192), {"tp": 4, "pp": 2}),
}


@cache
def answered(name: str) -> Sensitivity:
    inputs, degrees = ASKED[name]
    return sensitivity(estimate_each([plan_of(inputs, **degrees)], inputs)[0], inputs)


@pytest.mark.parametrize("name", ASKED)
def test_every_change_costs_what_the_changed_plan_and_question_cost_afresh(name: str) -> None:
    assert answered(name).changes
    for each in answered(name).changes:
        require_legal(each.estimate.plan, each.inputs)
        fresh = estimate_each([each.estimate.plan], each.inputs.replace())[0]
        assert each.estimate.step_time_s == pytest.approx(fresh.step_time_s, rel=1e-12)
        assert each.estimate.memory.device == pytest.approx(fresh.memory.device, rel=1e-12)
        assert each.estimate.verdict == fresh.verdict


@pytest.mark.parametrize("name", ASKED)
def test_every_change_uses_every_rank_and_the_whole_batch_and_is_listed_once(name: str) -> None:
    inputs, degrees = ASKED[name]
    before, seen = plan_of(inputs, **degrees), set()
    for each in answered(name).changes:
        plan = each.estimate.plan
        assert plan.num_gpus == each.inputs.cluster.num_gpus
        assert plan.dp * plan.micro_batch * plan.num_microbatches == inputs.job.global_batch
        assert plan != before or each.inputs != inputs
        assert each.change
        seen.add((plan, each.change if each.inputs != inputs else ""))
    assert len(seen) == len(answered(name).changes)


def _changed(each: PricedChange, inputs: Inputs) -> set[str]:
    """Of model, cluster, job and runtime, what a change replaced."""
    return {name for name in Inputs.model_fields if getattr(each.inputs, name) != getattr(inputs, name)}


@pytest.mark.parametrize("name", ASKED)
def test_a_change_is_of_the_plan_or_of_one_given_thing(name: str) -> None:
    inputs, degrees = ASKED[name]
    before = plan_of(inputs, **degrees)
    assert answered(name).changes
    for each in answered(name).changes:
        replaced = _changed(each, inputs)
        assert len(replaced) <= 1
        if replaced and each.knob != "nodes":
            assert each.estimate.plan == before
        if not replaced:
            assert getattr(each.estimate.plan, each.knob) != getattr(before, each.knob) or each.knob == "recompute"


@pytest.mark.parametrize("name", ASKED)
def test_what_is_safe_stands_first_and_the_fastest_first_of_these(name: str) -> None:
    keys = [(each.estimate.verdict, each.estimate.step_time_s) for each in answered(name).changes]
    assert keys == sorted(keys)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("70b interleaved", "tp 8 -> 4, dp 2 -> 4"),
        ("70b interleaved", "pp 4 -> 8, dp 2 -> 1, zero 1 -> 0"),
        ("70b interleaved", "vpp 5 -> 4"),
        ("70b interleaved", "vpp 5 -> 1, schedule interleaved -> 1f1b"),
        ("70b interleaved", "mbs 1 -> 2"),
        ("70b interleaved", "sp on -> off"),
        ("70b interleaved", "zero 1 -> 0"),
        ("70b interleaved", "recompute none -> full"),
        ("70b interleaved", "precision fp16 -> fp8"),
        ("70b interleaved", "gradients half -> fp32"),
        ("70b interleaved", "overlap.data_parallel 0.9 -> 0"),
        ("70b interleaved", "cross_entropy unfused -> native"),
        ("70b interleaved", "network x2"),
        ("70b interleaved", "nodes 8 -> 16, dp 2 -> 4"),
        ("long context", "exchange ring -> all_gather"),
        ("long context", "recompute full -> none"),
        ("long context", "tp 2 -> 1, sp on -> off, cp 8 -> 16"),
        ("experts", "ep 4 -> 8"),
        ("experts", "ep 4 -> 2"),
        ("experts", "etp 1 -> 2"),
        ("experts", "dispatcher all_to_all -> fused"),
        ("latent", "etp 2 -> 1"),
        ("fully sharded", "zero 3 -> 2"),
        ("layers by name", "mbs 2 -> 1"),
    ],
)
def test_the_changes_that_people_try_are_there(name: str, change: str) -> None:
    assert change in [each.change for each in answered(name).changes]


def test_states_on_the_host_can_be_brought_back() -> None:
    usual = question(llama_8b(), "1x8:h100", "deepspeed", global_batch=64)
    inputs = usual.replace(runtime=with_behaviours(usual.runtime, ["optimizer_states=offloaded"]))
    plan = Plan(dp=8, zero=3, num_microbatches=8)
    changes = sensitivity(estimate_each([plan], inputs)[0], inputs).changes
    (back,) = [each for each in changes if each.knob == "optimizer_states"]
    assert back.change == "optimizer_states offloaded -> fp32"
    assert back.estimate.step_time_s == estimate_each([plan], usual)[0].step_time_s


@pytest.mark.parametrize("switch", ["binds_ranks", "runs_ahead"])
def test_a_host_that_is_held_up_can_be_let_go_and_not_the_other_way_round(switch: str) -> None:
    inputs, degrees = ASKED["experts"]
    held = inputs.replace(runtime=inputs.runtime.replace(**{switch: False}))
    before, estimate = (estimate_each([plan_of(each, **degrees)], each)[0] for each in (inputs, held))
    (let_go,) = [each for each in sensitivity(estimate, held).changes if switch in each.change]
    assert (let_go.change, let_go.estimate.step_time_s) == (f"{switch} false -> true", before.step_time_s)
    assert before.step_time_s < estimate.step_time_s
    assert not [each for each in answered("experts").changes if switch in each.change]


@pytest.mark.parametrize(("name", "offered"), [("llama-3.1-8b", True), ("llama-3.2-1b", False)])
def test_logits_that_tensor_ranks_gather_can_stay_divided(name: str, offered: bool) -> None:
    inputs = question(read_model(name), "1x8:h100", "deepspeed")
    plan = Plan(tp=4, dp=2, zero=1, num_microbatches=inputs.job.global_batch // 2)
    (priced,) = estimate_each([plan], inputs)
    changes = [each for each in sensitivity(priced, inputs).changes if each.knob == "gathers_logits"]
    assert len(changes) == offered
    assert all(each.estimate.step_time_s < priced.step_time_s for each in changes)


def test_layers_by_cost_are_a_change_like_any_other() -> None:
    inputs, degrees = ASKED["layers by name"]
    (split,) = (each for each in answered("layers by name").changes if each.knob == "chunk_layers")
    assert split.estimate.plan == best_splits([plan_of(inputs, **degrees)], inputs)[0]
    assert split.change.endswith(f"chunks by the runtime -> {in_runs(split.estimate.plan.chunk_layers)}")


def test_what_no_runtime_has_or_no_model_divides_is_counted_and_not_listed() -> None:
    inputs = question(llama_8b(), "1x8:h100", "torchtitan", global_batch=64, sequence_length=8192)
    result = sensitivity(estimate_each([plan_of(inputs, zero=3)], inputs)[0], inputs)
    assert result.illegal > 0
    assert not any("tp 1 -> 16" in each.change for each in result.changes)
    stages = {each.estimate.plan.zero for each in result.changes}
    assert stages <= set(inputs.runtime.plans.zero_stages)


def test_changes_of_nothing_are_counted_and_not_listed() -> None:
    """On one node of one replica nothing crosses an axis that is not split."""
    result = answered("one rank each")
    assert result.idle > 0
    assert not any(each.knob.startswith("overlap") for each in result.changes)


def test_of_a_plan_that_does_not_fit_the_cheapest_safe_changes_are_of_the_same_ranks() -> None:
    inputs, degrees = ASKED["too large"]
    assert estimate_each([plan_of(inputs, **degrees)], inputs)[0].verdict == Verdict.OUT_OF_MEMORY
    rescues = cheapest_safe(answered("too large"))
    assert rescues
    assert all(each.estimate.verdict == Verdict.SAFE for each in rescues)
    dear = [each.knob == "nodes" for each in rescues]
    assert dear == sorted(dear)


def test_what_must_follow_a_change_follows_it() -> None:
    inputs, _ = ASKED["70b interleaved"]
    plan = plan_of(inputs, tp=8, pp=4, vpp=5)
    first = next(changed_plans(plan, inputs, {"pp": 1, "dp": 8}))
    assert first == Plan(tp=8, sp=True, dp=8, zero=1, num_microbatches=32)
    assert next(changed_plans(plan, inputs, {"tp": 1, "dp": 16})).sp is False


def test_axes_trade_their_smallest_factor() -> None:
    inputs = question(llama_8b(), "3x8:h100", global_batch=48, sequence_length=4096)
    plan = plan_of(inputs, tp=2, pp=4)
    moved = {variant.plan for knob in knobs(plan, inputs) if knob.name == "pp" for variant in knob.variants}
    assert {(each.tp, each.pp, each.dp) for each in moved} == {(1, 8, 3), (2, 12, 1)}
    assert all(prod((each.tp, each.pp, each.dp)) == 24 for each in moved)

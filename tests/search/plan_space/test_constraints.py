"""Constraints: a limited search is the unlimited one filtered, says what that costs, and names what works instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import asked
from commands import question as options
from meshwright import Constraints, IllegalPlan, InvalidInput, InvalidSpec
from meshwright.answers.plan_file import read_plan_file
from meshwright.answers.plans.constraint_lines import constraint_lines
from meshwright.answers.unfit.nothing_fits import nothing_fits
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.changes.sensitivity import sensitivity
from meshwright.search.find import SearchResult, find
from meshwright.search.many_searches.constraint_costs import constrained, constraint_costs
from meshwright.search.plan_space.constrained import satisfies
from meshwright.search.plan_space.space import size, space
from meshwright.search.ranking.rank import LEAST_GAIN
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.constraints import without_effect
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.recompute_modules import RecomputeModules
from strategies import legal_plans, llama_8b, llama_70b, mixture, question

pytestmark = pytest.mark.slow

CASES: list[tuple[dict[str, object], Callable[[Plan], bool]]] = [
    ({"tp": 2}, lambda plan: plan.tp == 2),
    ({"tp": [1, 4], "cp": 1}, lambda plan: plan.tp in (1, 4) and plan.cp == 1),
    ({"pp": "1-2", "vpp": 1}, lambda plan: plan.pp in (1, 2) and plan.vpp == 1),
    ({"dp": 4, "zero": 1}, lambda plan: plan.dp == 4 and plan.zero == 1),
    ({"zero": 0}, lambda plan: plan.zero == 0),
    ({"micro_batch": "1,2"}, lambda plan: plan.micro_batch in (1, 2)),
    ({"recompute": "none,selective"}, lambda plan: plan.recompute != Recompute.FULL),
    ({"schedule": "1f1b"}, lambda plan: plan.vpp == 1),
    ({"max_nodes_per_tp": 1}, lambda plan: plan.tp <= 8),
    ({"sp": False}, lambda plan: not plan.sp),
    ({"sp": True, "tp": [1, 2]}, lambda plan: plan.tp == 1 or (plan.tp == 2 and plan.sp)),
    ({"even_chunks": True, "pp": 4}, lambda plan: plan.pp == 4 and _even(plan)),
]


def _even(plan: Plan) -> bool:
    layers = 32 + plan.embedding_as_layer + plan.head_as_layer
    return layers % (plan.pp * plan.vpp) == 0


@cache
def asked_of(name: str) -> Inputs:
    model = {"dense": llama_8b, "experts": mixture}[name]()
    return question(model, "2x8:h100", global_batch=32, sequence_length=8192)


def within(inputs: Inputs, **constraints: object) -> Inputs:
    return inputs.replace(constraints=Constraints(**constraints))


def listed(inputs: Inputs) -> list[str]:
    plans = Plans.join(space(inputs))
    assert len(plans) == size(inputs)
    return sorted(str(plans[row].to_dict()) for row in range(len(plans)))


@pytest.mark.parametrize(("constraints", "kept"), CASES, ids=[str(case) for case, _ in CASES])
def test_a_limited_space_is_the_unlimited_one_filtered(
    constraints: dict[str, object], kept: Callable[[Plan], bool]
) -> None:
    inputs = asked_of("dense")
    limited, plans = within(inputs, **constraints), Plans.join(space(inputs))
    wanted = [plans[row] for row in range(len(plans)) if kept(plans[row])]
    assert listed(limited) == sorted(str(plan.to_dict()) for plan in wanted)
    among = np.flatnonzero(satisfies(plans, limited))
    assert [plans[int(row)] for row in among] == wanted
    assert 0 < len(wanted) < len(plans)


@pytest.mark.parametrize("degrees", [{"ep": 4}, {"etp": 1}, {"ep": "2,8", "etp": 1}])
def test_expert_axes_are_limited_alike(degrees: dict[str, object]) -> None:
    limited = within(asked_of("experts"), **degrees)
    plans = Plans.join(space(limited))
    assert len(plans)
    assert satisfies(plans, limited).all()


def test_a_limited_search_finds_the_best_of_those_that_are_left() -> None:
    inputs = asked_of("dense")
    every, limited = legal_plans(inputs), find(within(inputs, cp=1, pp=2, even_chunks=True))
    rows = [row for row in range(len(every)) if (every.cp[row], every.pp[row]) == (1, 2) and _even(every[row])]
    estimates = estimate_plans(every.take(np.array(rows)), inputs)
    assert limited.legal == len(rows)
    safest = estimates.verdict == estimates.verdict.min()
    assert limited.fastest.step_time_s == pytest.approx(estimates.step_time_s[safest].min(), rel=LEAST_GAIN)


def test_values_that_a_search_passes_over_are_tried_where_they_are_named() -> None:
    inputs = asked_of("dense")
    assert not any((plans.cp == 8).any() for plans in space(inputs))
    assert find(within(inputs, cp=8)).best[0].plan.cp == 8


@cache
def within_two() -> SearchResult:
    return find(within(asked_of("dense"), tp=8, pp=2))


def test_the_sentence_is_the_difference_to_a_search_without_the_constraint() -> None:
    result = within_two()
    costs = constraint_costs(result)
    assert costs
    for cost in costs:
        names = [option.split()[0][2:] for option in cost.without]
        alone = find(result.inputs.replace(constraints=result.inputs.constraints.without(*names)))
        assert cost.estimate.step_time_s == alone.best[0].step_time_s
        assert cost.faster == pytest.approx(1 - alone.best[0].step_time_s / result.best[0].step_time_s)
    assert len({str(cost.estimate.plan) for cost in costs}) == len(costs)
    assert f"Without --tp 8: {costs[0].faster:.1%} faster" in constraint_lines(result, costs)[0]


def with_all_gather(inputs: Inputs) -> Inputs:
    return inputs.replace(runtime=with_behaviours(inputs.runtime, ["dispatcher=all_gather"]))


def test_a_named_dispatcher_costs_what_the_usual_one_saves() -> None:
    inputs = within(asked_of("experts"), ep=8)
    gathers = find(with_all_gather(inputs))
    assert constrained(inputs) == ("ep",)
    assert constrained(gathers.inputs) == ("ep", "dispatcher")
    costs = {cost.without: cost for cost in constraint_costs(gathers)}
    usual = costs["--dispatcher all_gather",].estimate
    assert usual.step_time_s == find(inputs).best[0].step_time_s < gathers.best[0].step_time_s
    lines = constraint_lines(gathers, list(costs.values()))
    assert any(line.startswith("Without --dispatcher all_gather: ") for line in lines)


def test_a_dispatcher_that_the_best_plan_does_not_use_costs_nothing() -> None:
    result = find(with_all_gather(within(asked_of("experts"), ep=1)))
    assert all(cost.gains for cost in constraint_costs(result) if "--dispatcher all_gather" in cost.without)


def test_a_constraint_that_makes_the_best_plan_faster_is_not_told_to_cost_nothing() -> None:
    usual = question(read_model("qwen3-30b-a3b"), "4x8:h100", global_batch=512, sequence_length=4096)
    inputs = usual.replace(runtime=with_behaviours(usual.runtime, ["dispatcher=fused"]))
    result, without = find(inputs), find(usual).best[0]
    (cost,) = constraint_costs(result)
    assert cost.gains
    assert cost.estimate.plan == without.plan
    assert cost.faster == pytest.approx(1 - without.step_time_s / result.best[0].step_time_s)
    share = 1 - result.best[0].step_time_s / without.step_time_s
    (line,) = constraint_lines(result, [cost])
    assert line.startswith(f"With --dispatcher fused the best plan is {share:.1%} faster than without")


def test_chunks_that_divide_nothing_are_tried_where_they_are_named() -> None:
    assert find(within(asked_of("dense"), pp=2, vpp=3)).best[0].plan.vpp == 3


def test_the_rules_of_each_cluster_stand_below_it() -> None:
    clusters = ("--cluster", "1x8:h100", "--cluster", "1x8:a100")
    answer = asked("compare", *options(cluster=None, tp="8", pp="2"), *clusters)
    assert answer.code == 2
    assert answer.err.count("\n    - tp x cp x pp x dp must make the 8 accelerators") == 2


def test_a_single_rank_does_not_stand_for_a_stage_that_no_ranks_have() -> None:
    assert {each.plan.dp for each in find(within(asked_of("dense"), zero=1, tp=8, pp=2)).best} == {1}
    with pytest.raises(IllegalPlan, match="nearest zero: 1, 0"):
        find(within(asked_of("dense"), zero=3, pp=2))


def test_constraints_that_the_best_plan_keeps_cost_nothing() -> None:
    best = find(asked_of("dense")).best[0].plan
    result = find(within(asked_of("dense"), tp=best.tp, cp=best.cp))
    assert all(each.gains for each in constraint_costs(result))
    assert constraint_lines(result, ()) == [
        "The constraints cost nothing: what is recommended without one of them, or all, is no faster."
    ]
    alone = find(within(asked_of("dense"), tp=best.tp))
    assert constraint_lines(alone, ()) == [
        f"--tp {best.tp} costs nothing: what is recommended without it is no faster."
    ]


@pytest.mark.parametrize(
    ("constraints", "said"),
    [
        ({"tp": 1, "sp": True}, "--sp has no effect: it is for plans with tp 2 or more."),
        (
            {"pp": 1, "schedule": "interleaved"},
            "--schedule interleaved has no effect: it is for plans with pp 2 or more.",
        ),
        (
            {"cp": 1, "context_exchange": "ring"},
            "--context-exchange ring has no effect: it is for plans with cp 2 or more.",
        ),
        (
            {"recompute": "none,full", "recompute_modules": "mlp"},
            "--recompute-modules mlp has no effect: it is for plans with selective recomputation.",
        ),
    ],
)
def test_a_constraint_that_another_rules_out_is_told(constraints: dict[str, Any], said: str) -> None:
    result = find(within(asked_of("dense"), **constraints))
    assert constraint_lines(result, ())[0] == said
    free = find(within(asked_of("dense"), **dict([next(iter(constraints.items()))])))
    assert [each.plan for each in result.best] == [each.plan for each in free.best]


def test_a_constraint_that_allows_what_another_is_about_is_not() -> None:
    assert without_effect(Constraints(tp="1,2", sp=True, recompute="none,selective", recompute_modules="mlp")) == {}


def test_a_dispatcher_has_no_effect_on_a_model_without_experts() -> None:
    inputs = asked_of("dense")
    named = inputs.replace(runtime=with_behaviours(inputs.runtime, ["dispatcher=fused"]))
    (line,) = constraint_lines(find(named), ())
    assert line.startswith("--dispatcher fused has no effect: ")


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        ({"schedule": "1f1b,zb-v"}, "megatron-core has no schedule zb-v; it has 1f1b, interleaved"),
        ({"schedule": "gpipe", "pp": 2}, "megatron-core has no schedule gpipe; it has 1f1b, interleaved"),
    ],
)
def test_what_the_runtime_lacks_is_refused_with_what_it_has(constraints: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        find(within(asked_of("dense"), **constraints))


def test_with_all_runtimes_a_name_refuses_those_that_lack_it() -> None:
    answer = asked("plan", *options(runtime="all"), "--schedule", "gpipe", "--pp", "2", "--json")
    runtimes = answer.document["runtimes"]
    assert runtimes["torchtitan"]["plans"][0]["plan"]["schedule"] == "gpipe"
    assert "megatron-core has no schedule gpipe" in runtimes["megatron-core"]["refused"]


def test_selective_recomputation_keeps_to_the_modules_that_are_named() -> None:
    modules = RecomputeModules.LAYER_NORM | RecomputeModules.EXPERTS
    limited = within(asked_of("experts"), recompute="selective", recompute_modules="layernorm,moe")
    plans = Plans.join(space(limited))
    assert modules in set(plans.recompute_modules.tolist())
    result = find(limited)
    assert all(each.plan.recompute_modules in modules for each in (*result.best, *result.other_splits))
    with pytest.raises(InvalidSpec, match="'mpl' is unknown; known: core_attn"):
        Constraints(recompute_modules="mlp,mpl")


def test_single_changes_keep_the_constraints() -> None:
    free = asked_of("dense")
    limited = within(free, tp=2, recompute="none")
    plan = find(limited).best[0]
    changes = sensitivity(plan, limited)
    assert all(satisfies(each.estimate.plan, each.inputs) for each in changes.changes)
    assert {each.estimate.plan.tp for each in changes.changes} == {2}
    every = sensitivity(estimate_each([plan.plan], free)[0], free)
    assert len(changes.changes) < len(every.changes)
    assert changes.outside > 0 == every.outside


def test_compared_clusters_say_what_constraints_cost() -> None:
    wanted = (*options(cluster=None, tp="8"), "--cluster", "1x8:h100", "--cluster", "1x8:a100")
    clusters = asked("compare", *wanted, "--json").document["clusters"]
    assert all(each["constraint_costs"][0]["without"] == ["--tp 8"] for each in clusters)
    assert asked("compare", *wanted).out.count("Without --tp 8: ") == 2


def test_what_would_fit_begins_with_one_constraint_less() -> None:
    inputs = within(question(llama_70b(), "8x8:h100", global_batch=64), tp=1, pp=1, zero=1)
    message = str(nothing_fits(find(inputs)))
    assert re.search(r"What would fit:\n  - without --(tp|pp|zero) 1: tp\d", message)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tp": "x"}, "'x' is no list of whole numbers; write them as 8, 1,2,4 or 1-4"),
        ({"tp": "4-1"}, "write the smaller one first"),
        ({"zero": 4}, "less than or equal to 3"),
        ({"schedule": "1f1c"}, "'1f1c' is unknown; known: 1f1b"),
    ],
)
def test_a_wrong_constraint_is_refused_with_what_works(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidSpec, match=re.escape(words)):
        Constraints(**wrong)


def test_the_command_limits_its_plans_and_writes_them_into_the_plan_file(tmp_path: Path) -> None:
    answer = asked("plan", *options(tp="4", pp="1,2", even_chunks=None), "--even-chunks", "--json")
    assert answer.document["inputs"]["constraints"] == {"tp": [4], "pp": [1, 2], "even_chunks": True}
    assert {each["plan"]["tp"] for each in answer.document["plans"]} == {4}
    assert {"without", "faster", "tied", "plan"} <= answer.document["constraint_costs"][0].keys()
    path = tmp_path / "plan.json"
    path.write_text(answer.out)
    inputs, _ = read_plan_file(path)
    assert inputs.constraints == Constraints(tp=4, pp="1-2", even_chunks=True)


def test_a_plan_without_a_constraint_that_cannot_be_launched_is_told_as_such() -> None:
    words = ("plan", "gpt-oss-120b", "8x8:h100", "--runtime", "deepspeed", "--seq-len", "4096", "--global-batch", "256")
    answer = asked(*words, "--expert-imbalance", "1", "--ep", "1")
    assert "which DeepSpeed cannot launch as it stands)" in " ".join(answer.out.split())


@pytest.mark.parametrize(("documents", "told"), [(16384, True), (8192, False), (1024, False), (None, False)])
def test_documents_that_no_sequence_holds_are_told(documents: int | None, told: bool) -> None:
    inputs = asked_of("dense")
    packed = inputs.replace(job=inputs.job.replace(sequence_length=8192, document_length=documents))
    lines = constraint_lines(find(packed), ())
    assert (lines == ["--document-length 16384 has no effect on sequences of 8192 tokens."]) == told

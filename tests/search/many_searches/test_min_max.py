"""Min-max: the one layout is the one that comparing every plan of every cluster finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_plans
from meshwright.layout.legality import faults
from meshwright.layout.plan import Plan
from meshwright.search.find import SearchResult, find
from meshwright.search.many_searches.min_max import FOLLOWING, Exclusion, OnePlan, one_plan
from strategies import dense_model, gpt_like, legal_plans, llama_70b, mixture, question

CASES = {
    "as many accelerators": (dense_model(layers=8), ("1x4:h100", "2x2:a100"), "megatron-core"),
    "more and fewer": (dense_model(layers=8), ("1x2:h100", "1x4:a100", "2x4:h100"), "megatron-core"),
    "a single accelerator": (gpt_like(), ("1x1:h100", "1x2:a100"), "megatron-core"),
    "experts": (mixture(), ("1x4:h100", "1x8:b200"), "megatron-core"),
    "hybrid sharding": (dense_model(layers=8), ("2x2:h100", "4x2:h100"), "torchtitan"),
}


@cache
def answers(name: str) -> tuple[SearchResult, ...]:
    """What the search finds on each cluster of a case."""
    model, clusters, runtime = CASES[name]
    questions = (question(model, where, runtime, global_batch=8, precision="bf16") for where in clusters)
    return tuple(find(each, top=1) for each in questions)


def chosen(found: OnePlan | Exclusion) -> OnePlan:
    """The layout that there must be."""
    assert isinstance(found, OnePlan)
    return found


def layout(plan: Plan) -> Plan:
    """What of a plan does not follow the cluster, with the size of a sharding group in place of its replicas."""
    group = plan.dp * plan.cp // plan.dp_replicate if plan.dp_replicate > 1 else 1
    return replace(plan, **dict.fromkeys(FOLLOWING, 1) | {"dp_replicate": group})


def alike(plans: Sequence[Plan]) -> bool:
    """Whether plans have one layout, in which ZeRO means nothing on a single rank."""
    stages = {plan.zero for plan in plans if plan.dp * plan.cp > 1}
    return len({layout(plan) for plan in plans}) == 1 and len(stages) < 2


def least_worst(found: Sequence[SearchResult]) -> float:
    """The least largest regret, by looking at every combination of safe plans with the same layout."""
    held: list[dict[Plan, list[tuple[Plan, float]]]] = []
    for answer in found:
        plans = legal_plans(answer.inputs)
        estimates, table = estimate_plans(plans, answer.inputs), {}
        for row in range(len(plans)):
            if estimates.verdict[row] == Verdict.SAFE:
                regret = float(estimates.step_time_s[row]) / answer.best[0].step_time_s - 1
                table.setdefault(layout(plans[row]), []).append((plans[row], regret))
        held.append(table)
    shared = set.intersection(*map(set, held))
    every = (each for key in shared for each in product(*(table[key] for table in held)))
    return min(max(regret for _, regret in each) for each in every if alike([plan for plan, _ in each]))


@pytest.mark.parametrize("name", CASES)
def test_its_worst_regret_is_that_of_brute_force(name: str) -> None:
    """A layout that is faster than the recommended plans, which win ties by being simple, loses nothing to them."""
    found = chosen(one_plan(answers(name)))
    assert _largest_regret(found, answers(name)) == pytest.approx(least_worst(answers(name)), abs=1e-8)


def _largest_regret(found: OnePlan, answered: Sequence[SearchResult]) -> float:
    pairs = zip(found.estimates, answered, strict=True)
    return max(estimate.step_time_s / answer.best[0].step_time_s - 1 for estimate, answer in pairs)


@pytest.mark.parametrize("name", CASES)
def test_it_is_one_layout_that_is_legal_and_safe_everywhere(name: str) -> None:
    found = chosen(one_plan(answers(name)))
    assert alike([estimate.plan for estimate in found.estimates])
    for estimate, answer, regret in zip(found.estimates, answers(name), found.regrets, strict=True):
        assert not faults(estimate.plan, answer.inputs)
        assert estimate.verdict == Verdict.SAFE
        assert regret == pytest.approx(max(estimate.step_time_s / answer.best[0].step_time_s - 1, 0.0), abs=1e-9)


def test_a_cluster_beside_itself_takes_the_best_plan_of_its_space() -> None:
    answer = answers("as many accelerators")[0]
    found = chosen(one_plan([answer, answer]))
    assert found.regrets[0] == found.regrets[1]
    best = estimate_plans(plans := legal_plans(answer.inputs), answer.inputs)
    fastest = best.step_time_s[best.verdict == Verdict.SAFE].min()
    assert len(plans)
    assert found.estimates[0].step_time_s == pytest.approx(float(fastest), rel=1e-8)


def test_the_cluster_that_lacks_memory_excludes_the_nearest_layout() -> None:
    found = [find(question(llama_70b(), where, global_batch=32), top=1) for where in ("4x8:h100", "1x8:h100")]
    nearest = one_plan(found)
    assert isinstance(nearest, Exclusion)
    assert nearest.cluster == 1
    assert isinstance(nearest.estimate, Estimate)
    assert nearest.estimate.verdict == Verdict.OUT_OF_MEMORY
    assert not nearest.faults
    assert nearest.estimate.memory.device >= found[1].leanest.memory.device


def test_a_cluster_without_a_common_layout_excludes_it_by_its_rules() -> None:
    shape = {"global_batch": 8, "precision": "bf16"}
    found = [find(question(gpt_like(), where, **shape), top=1) for where in ("1x8:h100", "1x6:h100")]
    nearest = one_plan(found)
    assert isinstance(nearest, Exclusion)
    assert nearest.estimate is None
    assert nearest.faults == tuple(faults(nearest.plan, found[nearest.cluster].inputs))
    assert nearest.faults


def test_progress_counts_the_plans_of_all_clusters() -> None:
    told: list[tuple[int, int]] = []
    found = answers("more and fewer")
    one_plan(found, lambda done, total: told.append((done, total)))
    assert told[-1] == (sum(answer.considered for answer in found),) * 2

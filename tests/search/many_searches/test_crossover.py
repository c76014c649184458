"""Crossover: fully sharded plans against 3D ones, held against searches of the cluster with other links."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest

from meshwright.cost.step import estimate_plans
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search import find as find_module
from meshwright.search.find import SearchResult, find
from meshwright.search.many_searches.crossover import HIGHEST, LOWEST, TOLERANCE, Crossover, Family, crossover
from meshwright.specs.cluster import Cluster
from meshwright.specs.model import Model
from meshwright.specs.scale import with_network
from strategies import dense_model, legal_plans, llama_8b, llama_70b, question, three_levels

pytestmark = pytest.mark.slow

RUNTIMES = ("megatron-core", "megatron-lm", "torchtitan")
QUESTIONS: dict[str, tuple[Model, str | Cluster, int]] = {
    "70b on 64 h100": (llama_70b(), "8x8:h100", 256),
    "70b on 32 a100": (llama_70b(), "4x8:a100", 128),
    "8b on 16 h100": (llama_8b(), "2x8:h100", 64),
    "small on three levels": (dense_model(), three_levels(8), 192),
}
FACTORS = (LOWEST, 1.0, HIGHEST)


@cache
def answered(name: str, runtimes: Sequence[str] = RUNTIMES) -> tuple[SearchResult, ...]:
    """The answers of the runtimes that have a plan."""
    model, cluster, batch = QUESTIONS[name]
    job = {"sequence_length": 4096, "global_batch": batch, "precision": "bf16"}
    answers = (find(question(model, cluster, runtime, **job), top=1) for runtime in runtimes)
    return tuple(answer for answer in answers if answer.best)


@cache
def crossed(name: str) -> Crossover:
    """The crossover of a question that has one."""
    crossing = crossover(answered(name))
    assert crossing
    return crossing


def is_fully_sharded(plan: Plan) -> bool:
    """What the family is defined by."""
    return plan.zero >= 2 and plan.pp == 1


def best_times(name: str, factor: float) -> dict[Family, float]:
    """Step times of both families where every plan that is legal or decided by cost is priced with other links."""
    times: dict[Family, list[float]] = {family: [] for family in Family}
    for answer in answered(name):
        inputs = answer.inputs.replace(cluster=with_network(answer.inputs.cluster, factor))
        plans = Plans.join([legal_plans(inputs), Plans.of(each.plan for each in (answer.fastest, *answer.best))])
        estimates = estimate_plans(plans, inputs)
        sharded = (plans.zero >= 2) & (plans.pp == 1)
        for family, rows in ((Family.FULLY_SHARDED, sharded), (Family.THREE_D, ~sharded)):
            times[family] += list(estimates.step_time_s[rows & (estimates.verdict == answer.best[0].verdict)])
    return {family: min(each) for family, each in times.items()}


@pytest.mark.parametrize("name", QUESTIONS)
def test_at_its_own_bandwidth_the_fastest_is_the_plain_answer(name: str) -> None:
    crossing = crossed(name)
    plain = min(answered(name), key=lambda answer: answer.fastest.step_time_s)
    assert crossing.fastest.inputs == plain.inputs
    assert crossing.fastest.estimate.plan == plain.fastest.plan
    assert crossing.fastest.estimate.step_time_s == pytest.approx(plain.fastest.step_time_s, rel=1e-12)


def test_a_plan_with_layers_chosen_by_cost_can_be_the_fastest() -> None:
    """Recomputing some of the layers is a plan of the answer, of no space."""
    model = dense_model(layers=27, hidden_size=16384, heads=128, kv_heads=8, ffn_size=53248, vocab_size=256000)
    answer = find(question(model, "8x8:h100", "internevo", sequence_length=8192, global_batch=32), top=1)
    assert answer.fastest.plan.recompute_layers
    crossing = crossover([answer])
    assert crossing
    assert crossing.fastest.estimate.plan == answer.fastest.plan


@pytest.mark.parametrize("name", QUESTIONS)
def test_both_families_are_the_best_of_all_plans_priced_one_by_one(name: str) -> None:
    crossing, times = crossed(name), best_times(name, 1.0)
    assert crossing.other
    for contender in (crossing.fastest, crossing.other):
        assert is_fully_sharded(contender.estimate.plan) == (contender.family is Family.FULLY_SHARDED)
        assert contender.estimate.step_time_s == pytest.approx(times[contender.family], rel=1e-9)
    assert crossing.fastest.family != crossing.other.family


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_winner_differs_just_before_and_just_behind_the_change(name: str) -> None:
    crossing = crossed(name)
    change, slower = crossing.change, next(each for each in Family if each != crossing.fastest.family)
    if change is None:
        for factor in FACTORS:
            times = best_times(name, factor)
            assert times[crossing.fastest.family] <= times[slower] * (1 + 1e-9)
        return
    nearer = change.factor / TOLERANCE if change.factor > 1 else change.factor * TOLERANCE
    before, behind = best_times(name, nearer), best_times(name, change.factor)
    assert before[crossing.fastest.family] <= before[slower] * (1 + 1e-9)
    assert behind[slower] < behind[crossing.fastest.family]
    assert change.overtaking.estimate.step_time_s == pytest.approx(behind[slower], rel=1e-9)
    assert change.overtaken.estimate.step_time_s == pytest.approx(behind[crossing.fastest.family], rel=1e-9)


def test_the_laws_above_meet_a_change() -> None:
    assert any(crossed(name).change for name in QUESTIONS)


@pytest.mark.parametrize("name", QUESTIONS)
def test_bandwidths_are_those_of_the_innermost_links_between_nodes(name: str) -> None:
    crossing = crossed(name)
    assert crossing.bandwidth == answered(name)[0].inputs.cluster.levels[1].effective_bandwidth
    assert crossing.lowest_bandwidth == pytest.approx(LOWEST * crossing.bandwidth)
    assert crossing.highest_bandwidth == pytest.approx(HIGHEST * crossing.bandwidth)
    if crossing.change:
        assert crossing.change.bandwidth == pytest.approx(crossing.change.factor * crossing.bandwidth)


def test_one_family_alone_has_no_other_and_no_change() -> None:
    crossing = crossover(answered("8b on 16 h100", ("megatron-lm",)))
    assert crossing
    assert (crossing.fastest.family, crossing.other, crossing.change) == (Family.THREE_D, None, None)


def test_nothing_is_said_of_a_cluster_without_links_between_nodes() -> None:
    inputs = question(llama_8b(), "1x8:h100", global_batch=64)
    assert crossover([find(inputs, top=1)]) is None


def test_the_size_of_the_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = crossed("8b on 16 h100")
    monkeypatch.setattr(find_module, "CHUNK", 400)
    pieces = crossover(answered("8b on 16 h100"))
    assert pieces
    assert pieces.fastest.estimate.plan == whole.fastest.estimate.plan
    assert (pieces.change and pieces.change.factor) == (whole.change and whole.change.factor)

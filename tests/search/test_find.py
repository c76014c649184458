"""Find: the best plan is the one that looking at every plan finds, and every plan is counted."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings

from every_plan import check_recommendation
from meshwright.answers.step_parts import PART_NAMES, why_lost
from meshwright.answers.unfit.nothing_fits import nothing_fits
from meshwright.cost.estimate import Estimates
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.errors import IllegalPlan, MeshwrightError, NothingFits
from meshwright.layout.legality import check
from meshwright.layout.named import plan_of
from meshwright.layout.plans import Plans
from meshwright.search import find as find_module
from meshwright.search.find import find
from meshwright.search.plan_space.space import space
from meshwright.search.ranking.rank import order, rank_time_s, risk_adjusted_time_s
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs
from strategies import dense_model, gemma_like, gpt_like, inputs, legal_plans, llama_8b, llama_70b, question

QUESTIONS = {
    "llama 8b on 32 h100": question(llama_8b(), "4x8:h100", global_batch=64, sequence_length=8192),
    "gemma on 24 b200": question(gemma_like(), "3x8:b200", global_batch=48),
    "gpt on 8 v100": question(gpt_like(), "1x8:v100", "megatron-lm", global_batch=16, sequence_length=1024),
    "tight 70b on 64 h100": question(llama_70b(), "8x8:h100", global_batch=128, sequence_length=8192),
}
TOO_LARGE = question(llama_70b(), "1x8:h100", global_batch=8, sequence_length=8192)


def _leanness(estimates: Estimates) -> np.ndarray:
    return estimates.memory.device[estimates.worst]


def _keys(estimates: Estimates) -> list[tuple[int, float, float]]:
    columns = estimates.verdict, rank_time_s(estimates), _leanness(estimates)
    return [*zip(*(column.tolist() for column in columns), strict=True)]


def _in_order(estimates: Estimates, keys: Iterable[tuple[int, float, float]]) -> list[tuple[int, float, float]]:
    """Verdict, then time to nine digits, then memory."""
    fastest = float(rank_time_s(estimates).min())
    return sorted(keys, key=lambda key: (key[0], round(key[1] / fastest, 9), key[2]))


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_best_plans_are_those_that_looking_at_every_plan_finds(name: str) -> None:
    found = find(QUESTIONS[name], top=12)
    assert found.best
    check_recommendation(found)


@settings(max_examples=25)
@given(inputs())
def test_a_search_of_any_question_finds_what_looking_at_every_plan_finds(asked: Inputs) -> None:
    found, plans = find(asked, top=3), legal_plans(asked)
    estimates = estimate_plans(plans, asked)
    fits = estimates.verdict < Verdict.OUT_OF_MEMORY
    assert (found.legal, found.fitting) == (len(plans), fits.sum())
    check_recommendation(found)
    assert found.leanest.memory.device == pytest.approx(_leanness(estimates).min(), abs=10)
    risky = rank_time_s(estimates)[estimates.verdict == Verdict.AT_RISK]
    assert (found.at_risk is None) == (not len(risky))
    if found.at_risk:
        assert rank_time_s(found.at_risk) <= risky.min() * (1 + 1e-9)


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_plan_of_the_space_is_considered_and_counted_once(name: str) -> None:
    asked = QUESTIONS[name]
    told: list[tuple[int, int]] = []
    found = find(asked, progress=lambda done, total: told.append((done, total)))
    plans = Plans.join(space(asked))
    legality = check(plans, asked)
    assert (found.considered, found.legal) == (len(plans), legality.legal.sum())
    assert found.refused == legality.refused
    assert found.fitting <= found.legal <= found.considered
    assert told[-1] == (len(plans), len(plans))
    assert told == sorted(told)


@pytest.mark.parametrize("size", [1, 50, 1000])
def test_the_size_of_the_chunks_changes_no_answer(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = QUESTIONS["gpt on 8 v100"]
    whole = find(asked, top=5)
    monkeypatch.setattr(find_module, "CHUNK", size)
    pieces = find(asked, top=5)
    assert [each.plan for each in pieces.best] == [each.plan for each in whole.best]
    assert (pieces.fastest.plan, pieces.equal) == (whole.fastest.plan, whole.equal)
    assert [other.plan for other in pieces.other_splits] == [other.plan for other in whole.other_splits]
    assert pieces.leanest.memory.device == whole.leanest.memory.device
    assert (pieces.legal, pieces.fitting, pieces.refused) == (whole.legal, whole.fitting, whole.refused)


def test_the_same_question_has_the_same_answer_twice() -> None:
    first, second = (find(QUESTIONS["gpt on 8 v100"], top=5) for _ in range(2))
    assert [best.plan for best in first.best] == [best.plan for best in second.best]


@pytest.mark.parametrize("name", QUESTIONS)
def test_safe_plans_come_before_plans_at_risk_and_fast_before_slow(name: str) -> None:
    asked = QUESTIONS[name]
    estimates = estimate_plans(legal_plans(asked), asked)
    ranked, every = order(estimates), _keys(estimates)
    keys = [every[row] for row in ranked]
    assert keys == _in_order(estimates, keys)
    assert len(ranked) == (estimates.verdict < Verdict.OUT_OF_MEMORY).sum()


@pytest.mark.parametrize("name", QUESTIONS)
def test_why_a_plan_lost_is_one_sentence_with_a_number(name: str) -> None:
    asked = QUESTIONS[name]
    plans = legal_plans(asked)
    estimates = estimate_plans(plans, asked)
    best, *others = estimate_each([plans[int(row)] for row in order(estimates)[:: max(len(plans) // 60, 1)]], asked)
    assert others
    for other in others:
        sentence = why_lost(other, best)
        assert re.search(r"\d", sentence), sentence
        assert "\n" not in sentence
        assert "nan" not in sentence
        assert not re.search(r"-\d", sentence)
        if other.verdict == best.verdict and "slower" in sentence:
            stated = float(re.match(r"([\d.]+)% slower", sentence)[1]) / 100
            assert stated == pytest.approx(other.step_time_s / best.step_time_s - 1, abs=6e-4)
            assert any(part in sentence for part in PART_NAMES.values())


def test_every_part_of_the_waterfall_has_a_name_for_people() -> None:
    best = find(QUESTIONS["gpt on 8 v100"], top=1).best[0]
    assert set(PART_NAMES) == set(best.time._fields)


def test_when_nothing_fits_the_leanest_plan_and_what_would_fit_are_named() -> None:
    found = find(TOO_LARGE)
    assert (found.best, found.fitting, found.at_risk) == ((), 0, None)
    assert found.leanest.verdict == Verdict.OUT_OF_MEMORY
    error = nothing_fits(found)
    assert isinstance(error, NothingFits)
    assert str(found.leanest.plan) in str(error)
    nodes = int(re.search(r"(\d+) nodes", str(error))[1])
    assert nodes > 1


def test_a_plan_is_told_what_it_gains_over_one_that_is_slower() -> None:
    asked = QUESTIONS["llama 8b on 32 h100"]
    fast, slow = estimate_each([plan_of(asked, tp=2), plan_of(asked, tp=2, recompute="full")], asked)
    share = 1 - fast.step_time_s / slow.step_time_s
    assert why_lost(fast, slow).startswith(f"{share:.1%} faster: ")
    assert "less compute" in why_lost(fast, slow)


def test_a_question_without_a_legal_plan_names_the_nearest_one_and_its_faults() -> None:
    asked = question(
        dense_model(heads=4, kv_heads=4, layers=5, ffn_size=4096), "59x1:h100", global_batch=3, sequence_length=513
    )
    with pytest.raises(IllegalPlan) as refused:
        find(asked)
    assert refused.value.faults
    assert isinstance(refused.value, MeshwrightError)
    assert re.search(r"none of the \d+ plans for 59 accelerators", str(refused.value))


def test_where_no_plan_is_safe_a_likelier_plan_may_take_longer() -> None:
    """Not the fastest of the plans at risk, but the one whose time over its probability is least."""
    at_risk = (Verdict.AT_RISK,) * 2
    times = [float(risk_adjusted_time_s(*each)) for each in zip((10.0, 11.0), at_risk, (0.2, 0.8), strict=True)]
    assert times[1] < times[0]
    asked = question(llama_70b(), "3x8:h100", global_batch=48, sequence_length=8192)
    asked = asked.replace(constraints=Constraints(cp=1, micro_batch=1))
    legal = estimate_plans(legal_plans(asked), asked)
    risky = estimate_plans(legal.plans.take(legal.verdict == Verdict.AT_RISK), asked)
    first = int(order(risky)[0])
    assert risky.step_time_s[first] / risky.probability[first] == (risky.step_time_s / risky.probability).min()


def test_more_accepted_risk_never_slows_a_plan_down() -> None:
    asked = question(llama_8b(), "1x8:h100", global_batch=64, sequence_length=8192)
    results = [find(asked.replace(job=asked.job.replace(risk=risk)), top=1) for risk in (0.01, 0.1, 0.3, 0.5)]
    times = [result.fastest.step_time_s for result in results]
    assert times == sorted(times, reverse=True)
    assert times[0] > times[-1]
    for result in results:
        assert result.best[0].fit.probability >= 1 - result.inputs.job.risk

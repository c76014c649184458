"""Rivals: no plan takes less than its least at any bandwidth, and a search keeps all that may be the fastest at one."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.cost.step import estimate_plans
from meshwright.search.find import find
from meshwright.search.many_searches.crossover import crossover
from meshwright.search.ranking.rivals import HIGHEST, LOWEST, Family, Rivals, least_step_s, members, scaled
from strategies import legal_plans, questions

ASKED = {name: inputs for name, inputs in questions().items() if inputs.cluster.num_nodes > 1}
SEARCHED = ("llama on h100, torchtitan", "mixtral-like on h100", "gpt on a100, deepspeed")


@pytest.mark.parametrize("name", ASKED)
def test_no_bandwidth_makes_a_step_shorter_than_its_least(name: str) -> None:
    inputs = ASKED[name]
    plans = legal_plans(inputs)
    slow, usual, fast = (estimate_plans(plans, scaled(inputs, factor)) for factor in (LOWEST, 1.0, HIGHEST))
    assert (least_step_s(usual) <= fast.step_time_s * (1 + 1e-12)).all()
    assert (fast.step_time_s <= usual.step_time_s * (1 + 1e-12)).all()
    assert (usual.step_time_s <= slow.step_time_s * (1 + 1e-12)).all()


@pytest.mark.parametrize("name", SEARCHED)
def test_the_fastest_at_any_bandwidth_are_kept(name: str) -> None:
    inputs, rivals = ASKED[name], Rivals()
    assert find(inputs, rivals=rivals).rivals is rivals
    plans = legal_plans(inputs)
    safe = plans.take(estimate_plans(plans, inputs).verdict == rivals.verdict)
    for family in Family:
        own = safe.take(members(safe, family))
        kept = rivals.within(family, np.inf)
        for factor in (LOWEST, 0.3, 1.0, 4.0, HIGHEST) if len(own) else ():
            fastest = (estimate_plans(each, scaled(inputs, factor)).step_time_s.min() for each in (own, kept))
            assert len({*fastest}) == 1


def test_kept_rivals_answer_as_those_of_another_search() -> None:
    inputs = ASKED[SEARCHED[0]]
    kept, again = (crossover([find(inputs, rivals=each)]) for each in (Rivals(), None))
    assert kept
    assert again
    assert kept.fastest.estimate.plan == again.fastest.estimate.plan
    assert (kept.other and kept.other.estimate.time) == (again.other and again.other.estimate.time)

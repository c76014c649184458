"""Pareto: no plan that fits beats one on the front in both, and every plan off it is beaten or equalled."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_plans
from meshwright.search import find as find_module
from meshwright.search.find import find
from meshwright.search.many_searches.pareto import pareto, unbeaten
from strategies import legal_plans, llama_8b, mixture, question

ASKED = {
    "dense": question(llama_8b(), "2x8:h100", global_batch=64, sequence_length=8192),
    "experts": question(mixture(), "1x8:h100", global_batch=32, sequence_length=4096),
}


@pytest.mark.parametrize("name", ASKED)
def test_the_front_is_what_looking_at_every_plan_finds(name: str) -> None:
    inputs = ASKED[name]
    front = pareto(find(inputs))
    estimates = estimate_plans(legal_plans(inputs), inputs)
    fits = estimates.verdict < Verdict.OUT_OF_MEMORY
    times, sizes = estimates.step_time_s[fits], estimates.memory.device[estimates.worst][fits]
    for each in front:
        assert not ((times < each.step_time_s * (1 - 1e-8)) & (sizes < each.memory.device * (1 - 1e-8))).any()
    ours = np.array([[each.step_time_s, each.memory.device] for each in front])
    covered = ((ours[:, :1] <= times * (1 + 1e-8)) & (ours[:, 1:] <= sizes * (1 + 1e-8))).any(axis=0)
    assert covered.all()
    assert all(each.verdict.fits for each in front)


def test_the_front_goes_from_the_fastest_to_the_leanest() -> None:
    front = pareto(find(ASKED["dense"]))
    assert len(front) > 2
    times = [each.step_time_s for each in front]
    sizes = [each.memory.device for each in front]
    assert times == sorted(times)
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes)


def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    found = find(ASKED["dense"])
    whole = [each.plan for each in pareto(found)]
    monkeypatch.setattr(find_module, "CHUNK", 100)
    assert [each.plan for each in pareto(found)] == whole


def test_of_equal_plans_the_first_stays() -> None:
    assert unbeaten(np.array([2.0, 1.0, 1.0]), np.array([1.0, 3.0, 3.0])).tolist() == [1, 0]
    assert unbeaten(np.array([]), np.array([])).tolist() == []

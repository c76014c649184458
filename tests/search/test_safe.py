"""Safe: the plan is the one that a whole search recommends, where that is safe."""

from __future__ import annotations

import pytest

from meshwright.arrays import IntColumn
from meshwright.cost.footprint import Footprints
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.shapes import Pipelines
from meshwright.errors import IllegalPlan, Stopped
from meshwright.layout.plans import Plans
from meshwright.search import find as find_module
from meshwright.search import safe as safe_module
from meshwright.search.find import find
from meshwright.search.ranking.longest import LongestSteps
from meshwright.search.safe import recommended, safe_plan
from meshwright.search.stop import StopSearch
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from strategies import gemma_like, llama_8b, llama_70b, mixture, question

EXPERTS = question(mixture(), "2x8:h100", "torchtitan", global_batch=64, expert_imbalance=None)
SAFE = {
    "llama 8b": question(llama_8b(), "4x8:h100", global_batch=64, sequence_length=8192),
    "gemma": question(gemma_like(), "3x8:b200", global_batch=48),
    "tight 70b": question(llama_70b(), "8x8:h100", global_batch=128, sequence_length=8192),
    "70b, torchtitan": question(llama_70b(), "4x8:h100", "torchtitan", global_batch=64, sequence_length=8192),
    "stages chosen by cost": question(llama_70b(), "5x8:h100", global_batch=40, sequence_length=8192),
    "experts, torchtitan": EXPERTS,
}
UNSAFE = {
    "nothing fits": question(llama_70b(), "1x8:h100", global_batch=8, sequence_length=8192),
    "at risk": question(read_model("mixtral-8x22b"), "5x8:h100", "torchtitan", global_batch=512, expert_imbalance=None),
}


@pytest.mark.parametrize("name", SAFE)
def test_it_is_the_plan_that_a_whole_search_recommends(name: str) -> None:
    best = find(SAFE[name], top=1).best[0]
    assert best.verdict == Verdict.SAFE
    assert safe_plan(SAFE[name]) == best


@pytest.mark.parametrize("name", UNSAFE)
def test_there_is_none_where_a_whole_search_recommends_no_safe_one(name: str) -> None:
    assert all(each.verdict != Verdict.SAFE for each in find(UNSAFE[name], top=1).best)
    assert safe_plan(UNSAFE[name]) is None


@pytest.mark.parametrize("name", SAFE | UNSAFE)
def test_a_plan_is_recommended_whether_it_is_safe_or_not(name: str) -> None:
    asked = (SAFE | UNSAFE)[name]
    assert recommended(asked) == next(iter(find(asked, top=1).best), None)


def test_plans_that_take_too_long_for_those_known_are_not_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    priced: list[int] = []
    fitting = safe_module.fitting_where_safe

    def counted(legal: Plans, pipelines: Pipelines, rows: IntColumn, inputs: Inputs) -> Footprints:
        priced.append(len(rows))
        return fitting(legal, pipelines, rows, inputs)

    monkeypatch.setattr(safe_module, "fitting_where_safe", counted)
    monkeypatch.setattr(find_module, "CHUNK", 1 << 11)
    best = safe_plan(SAFE["llama 8b"])
    few = sum(priced)
    monkeypatch.setattr(LongestSteps, "allow", lambda _, plans, least_s: least_s >= 0)  # noqa: ARG005
    assert safe_plan(SAFE["llama 8b"]) == best
    assert few < sum(priced) / 3


def test_it_is_told_where_no_plan_is_legal() -> None:
    with pytest.raises(IllegalPlan):
        safe_plan(question(llama_8b(), "3x8:h100", "pytorch-fsdp1", global_batch=7))


def _refuses(done: int, total: int) -> None:  # noqa: ARG001
    raise StopSearch


def test_a_search_that_is_stopped_has_none() -> None:
    with pytest.raises(Stopped):
        safe_plan(SAFE["llama 8b"], progress=_refuses)


def test_plans_that_are_illegal_by_their_degrees_are_not_enumerated(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    given: Inputs = SAFE["gemma"]
    safe_plan(given, progress=lambda _, total: sizes.append(total))
    assert 0 < sizes[0] < find(given, top=1).considered
    monkeypatch.setattr(safe_module, "may_be_legal", lambda *_: True)
    safe_plan(given, progress=lambda _, total: sizes.append(total))
    assert sizes[-1] == find(given, top=1).considered

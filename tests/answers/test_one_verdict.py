"""One verdict: all commands say the same plan, step time, verdict, probability and number of nodes of one question."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from commands import asked
from meshwright.answers.plan_file import plan_entry, read_plan_file
from meshwright.answers.plans.table import plan_document
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_each
from meshwright.errors import MeshwrightError
from meshwright.search.find import SearchResult, find
from meshwright.search.many_searches.best_of import best_of
from meshwright.search.many_searches.fewest_nodes import fewest_nodes
from meshwright.search.many_searches.remedies import remedies
from meshwright.search.safe import recommended
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs
from strategies import gemma_like, gpt_like, latent, llama_8b, mixture, question

pytestmark = pytest.mark.slow
MODELS = {
    "dense": (llama_8b, "megatron-core", "torchtitan", "deepspeed"),
    "gemma": (gemma_like, "megatron-core", "pytorch-fsdp1"),
    "gpt": (gpt_like, "megatron-lm", "nanotron"),
    "mixture": (mixture, "megatron-core", "torchtitan"),
    "latent": (latent, "megatron-core", "torchtitan"),
}
SIZES = (("1x2:h100", 1024, 0.1), ("1x4:a100-sxm-40gb", 2048, 0.1), ("1x4:h100", 4096, 0.01), ("1x8:h100", 8192, 0.3))
SIZES = (*SIZES, ("2x8:a100", 4096, 0.1), ("1x1:h100", 8192, 0.1))


def _questions() -> dict[str, Inputs]:
    """Each model with each of its runtimes, on the even or the odd sizes by turns."""
    asked_of = [(name, model, runtime) for name, (model, *runtimes) in MODELS.items() for runtime in runtimes]
    constraints = Constraints(cp=1, micro_batch="1,2", vpp=1, tp="1,2,4", zero="0,1,3", recompute="none,full")
    questions = {}
    for turn, (name, model, runtime) in enumerate(asked_of):
        for cluster, length, risk in SIZES[turn % 2 :: 2]:
            given = question(model(), cluster, runtime, global_batch=32, sequence_length=length, risk=risk)
            questions[f"{name}, {runtime}, {cluster}"] = given.replace(constraints=constraints)
    return questions


QUESTIONS = _questions()


@cache
def answered(name: str, top: int) -> SearchResult | str:
    """As `plan` (5), `limits` and `compare` (1) or `memo` (20) search; a refusal in words."""
    try:
        return find(QUESTIONS[name], top=top)
    except MeshwrightError as refusal:
        return str(refusal)


def said(estimate: Estimate) -> tuple[Any, ...]:
    """What no two answers may say differently."""
    fit = estimate.fit
    return str(estimate.plan), estimate.step_time_s, estimate.verdict, fit.probability, fit.needed_bytes


def test_the_questions_are_many_and_of_every_verdict() -> None:
    results = [answered(name, 5) for name in QUESTIONS]
    verdicts = {result.best[0].verdict for result in results if not isinstance(result, str) and result.best}
    assert len(QUESTIONS) == 33
    assert verdicts == {Verdict.SAFE, Verdict.AT_RISK}
    assert any(not isinstance(result, str) and not result.best for result in results)


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_search_of_a_question_recommends_the_same_plan(name: str) -> None:
    """`plan` and, by turns, `limits` and `compare` or `memo`."""
    five, other = answered(name, 5), answered(name, (1, 20)[[*QUESTIONS].index(name) % 2])
    if isinstance(five, str) or isinstance(other, str):
        assert five == other
        return
    assert [*map(said, five.best[:1])] == [*map(said, other.best[:1])]
    assert (five.legal, five.fitting, said(five.leanest)) == (other.legal, other.fitting, said(other.leanest))
    if five.best and five.fastest and other.fastest:
        assert said(five.fastest) == said(other.fastest)
        assert five.equal == other.equal


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_search_for_a_safe_plan_alone_finds_the_one_that_is_recommended(name: str) -> None:
    result = answered(name, 5)
    if isinstance(result, str):
        return
    alone = recommended(QUESTIONS[name])
    assert [*map(said, filter(None, [alone]))] == [*map(said, result.best[:1])]


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_saved_plan_is_explained_as_it_was_planned(name: str, tmp_path: Path) -> None:
    result = answered(name, 5)
    if isinstance(result, str) or not result.best:
        return
    path, result = tmp_path / "plan.json", replace(result, best=result.best[:2], other_splits=result.other_splits[:1])
    path.write_text(json.dumps(plan_document(result)), encoding="utf-8")
    inputs, plans = read_plan_file(path)
    estimates = estimate_each(plans, inputs)
    assert inputs == result.inputs
    assert [*map(said, estimates)] == [*map(said, (*result.best, *result.other_splits))]
    written = json.loads(path.read_text("utf-8"))["plans"][0]
    assert plan_entry(estimates[0], inputs) | {"lost": None} == written


@pytest.mark.parametrize("name", QUESTIONS)
def test_of_named_plans_the_one_that_a_search_recommends_is_the_best(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever others are named beside it, in any order; the search is the one that is held above."""
    result = answered(name, 5)
    if isinstance(result, str) or not result.best:
        return
    monkeypatch.setattr("meshwright.search.many_searches.best_of.recommended", lambda *_, **__: result.best[0])
    best, *others = dict.fromkeys((*result.best, *filter(None, (result.fastest, result.at_risk))))
    for named in ([*others, best], *([other, best] for other in others)):
        chosen = best_of(named, [result.inputs] * len(named))
        assert said(named[chosen.row]) == said(best)
        assert chosen.recommended in (None, best)


@pytest.mark.parametrize("name", [name for name in QUESTIONS if "2x8" in name or "40gb" in name])
def test_the_fewest_nodes_are_what_a_search_there_finds_safe(name: str) -> None:
    """And where nothing fits, the nodes that would do are no fewer."""
    result = answered(name, 5)
    if isinstance(result, str):
        return
    fewest = fewest_nodes(result.inputs)
    if fewest is None:
        return
    assert fewest.estimate.verdict == Verdict.SAFE
    assert said(find(fewest.inputs, top=5).best[0]) == said(fewest.estimate)
    nodes, asked_for = fewest.inputs.cluster.num_nodes, result.inputs.cluster
    if result.best and result.best[0].verdict == Verdict.SAFE:
        assert nodes <= asked_for.num_nodes
    for each in remedies(result) if not result.best else ():
        assert said(find(each.inputs, top=5).best[0]) == said(each.estimate)
        cluster = each.inputs.cluster
        if each.inputs.replace(cluster=asked_for) == result.inputs and cluster.gpus_per_node == asked_for.gpus_per_node:
            assert cluster.num_nodes >= nodes


ASKED = {
    "dense": ("--model", "llama-3.1-8b", "--cluster", "1x8:h100", "--seq-len", "8192", "--global-batch", "64"),
    "tight": ("--model", "llama-3.1-8b", "--cluster", "1x8:a100-sxm-40gb", "--seq-len", "8192", "--global-batch", "64"),
    "experts": (
        "--model",
        "mixtral-8x7b",
        "--cluster",
        "1x8:h200",
        "--seq-len",
        "4096",
        "--global-batch",
        "64",
        "--ep",
        "8",
    ),
}
NARROW = ("--tp", "2", "--risk", "5%")


def _fields(entry: dict[str, Any]) -> tuple[Any, ...]:
    return entry["name"], entry["step_time_s"], entry["memory"]["verdict"], entry["uncertainty"], entry["memory"]


@pytest.mark.parametrize("name", ASKED)
def test_every_command_says_the_same_of_one_question(name: str, tmp_path: Path) -> None:
    """The memo, which takes longest, of one of them: that its search agrees is held above for all."""
    options = (*ASKED[name], *NARROW, "--json")
    planned = asked("plan", *options)
    path = tmp_path / "plan.json"
    path.write_text(planned.out, encoding="utf-8")
    best = planned.document["plans"][0]
    limits = asked("limits", *options).document
    compared = asked("compare", *options, "--cluster", "1x8:b200").document["clusters"][0]
    others = {
        "limits": limits["asked"],
        "compare": compared["best"],
        "explain": asked("explain", str(path), "--json").document["plans"][0],
        "compare plans": asked("compare", "--plan-file", str(path), "--plan-file", f"{path}:2", "--json").document[
            "plans"
        ][0]["price"],
    }
    if name == "tight":
        others["memo"] = asked("memo", *options).document["recommendation"]
    for command, entry in others.items():
        assert _fields(entry) == _fields(best), command
    if best["memory"]["verdict"] == "safe":
        assert limits["fewest_nodes"]["num_nodes"] <= planned.document["inputs"]["cluster"]["num_nodes"]


def test_the_entry_of_a_plan_holds_one_verdict() -> None:
    """The probability, the verdict, the free memory and the accepted risk agree in every answer."""
    results = {name: result for name in QUESTIONS if not isinstance(result := answered(name, 5), str)}
    assert results
    for name, result in results.items():
        for estimate in (*result.best, result.leanest):
            fit, risk = estimate.fit, QUESTIONS[name].job.risk
            assert (fit.verdict == Verdict.SAFE) == (fit.margin_bytes >= 0)
            if abs(fit.probability - (1 - risk)) > 1e-4:
                assert (fit.verdict == Verdict.SAFE) == (fit.probability >= 1 - risk)
            assert (fit.verdict == Verdict.OUT_OF_MEMORY) == (fit.probability < 0.1)
        fits = result.leanest.fit.probability
        assert plan_entry(result.leanest, QUESTIONS[name])["uncertainty"]["fits"] == fits

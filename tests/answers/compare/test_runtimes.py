"""Runtimes side by side: each answers as it would alone, safe and fast ones first; fully sharded plans against 3D."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple
from unittest import mock

import pytest

from commands import asked, question
from meshwright.answers.compare.runtimes import (
    Answers,
    answers_of_each,
    crossover_entry,
    crossover_lines,
    crossover_of,
    runtimes_screen,
)
from meshwright.answers.document.blocks import Lines, Table
from meshwright.cost.memory.fit import Verdict
from meshwright.layout.plan import Plan
from meshwright.search.find import SearchResult, find
from meshwright.search.many_searches.crossover import HIGHEST, LOWEST, Crossover, CrossoverPoint, crossover
from meshwright.search.ranking.ties import share_of_ties
from meshwright.specs import catalog
from meshwright.specs.inputs import Inputs
from once import Once
from strategies import llama_8b, three_levels
from strategies import question as question_of

pytestmark = pytest.mark.slow

CLUSTERS = ("2x8:h100", "4x8:a100")
FEW = ("deepspeed", "megatron-core", "pytorch-ddp", "torchtitan")
"""Runtimes of both families, which answer on several nodes; those of one node are all that there are."""
names_of = catalog.names


class Told(NamedTuple):
    """One answer."""

    text: str
    document: Any


@cache
def answer(cluster: str) -> Told:
    """The answer of all runtimes on a cluster, as text and as JSON."""
    told = "meshwright.answers.compare.runtimes."
    words = question(runtime="all", cluster=cluster)
    runtimes = FEW if cluster in CLUSTERS else names_of("runtimes")
    with (
        mock.patch.object(catalog, "names", lambda kind: runtimes if kind == "runtimes" else names_of(kind)),
        mock.patch(f"{told}answers_of_each", Once(answers_of_each)),
        mock.patch(f"{told}crossover_of", Once(crossover_of)),
    ):
        return Told(asked("plan", *words).out, asked("plan", *words, "--json").document)


def test_every_runtime_answers_as_it_would_alone() -> None:
    document = answer("1x8:h100").document
    assert set(document["runtimes"]) == set(catalog.names("runtimes"))
    for runtime, told in document["runtimes"].items():
        alone = asked("plan", *question(runtime=runtime), "--json")
        if "refused" in told:
            assert alone.code in (2, 3)
        else:
            assert [plan["plan"] for plan in told["plans"]] == [plan["plan"] for plan in alone.document["plans"]]


def test_the_fastest_runtime_stands_first_and_all_are_told() -> None:
    text, document = answer("1x8:h100").text, answer("1x8:h100").document["runtimes"]
    best = [(answer, answer["plans"][0]) for answer in document.values() if "plans" in answer]
    ranks = [("launch_refused" in answer, p["memory"]["verdict"] != "safe", p["step_time_s"]) for answer, p in best]
    assert ranks == sorted(ranks)
    assert all(runtime in text for runtime in document)


def at_risk(result: SearchResult) -> SearchResult:
    """The same with a best plan that may run out of memory."""
    best = result.best[0]
    risky = replace(best, fit=replace(best.fit, verdict=Verdict.AT_RISK))
    return replace(result, best=(risky, *result.best[1:]))


def with_at_risk(*runtimes: str) -> Answers:
    """The answers of all runtimes, where the best plans of some may run out of memory; of all where none is named."""

    def found(inputs: Inputs, **options: Any) -> SearchResult:
        result = find(inputs, **options)
        return at_risk(result) if result.best and inputs.runtime.id in (runtimes or (inputs.runtime.id,)) else result

    inputs = question_of(llama_8b(), "2x8:h100", global_batch=64, sequence_length=8192)
    few = mock.patch.object(catalog, "names", return_value=FEW)
    with mock.patch("meshwright.answers.compare.runtimes.find", found), few:
        return answers_of_each(inputs, top=1)


def test_safe_plans_stand_before_faster_ones_at_risk_and_are_compared_alone() -> None:
    fastest = next(iter(answer("2x8:h100").document["runtimes"]))
    answers = with_at_risk(fastest)
    planned = {name: each.best[0] for name, each in answers.items() if isinstance(each, SearchResult)}
    assert list(planned)[-1] == fastest
    assert planned[fastest].step_time_s == min(each.step_time_s for each in planned.values())
    crossing = crossover_of(answers)
    assert crossing
    assert crossing.fastest.estimate.verdict == Verdict.SAFE
    assert crossing.fastest.inputs.runtime.id != fastest
    table = next(each for each in runtimes_screen(answers, None) if isinstance(each, Table))
    assert [row[-1] for row in table.rows] == ["safe"] * (len(planned) - 1) + ["at-risk"]
    assert table.note == ""


def test_where_no_plan_is_safe_a_line_says_so() -> None:
    table = next(each for each in runtimes_screen(with_at_risk(), None) if isinstance(each, Table))
    assert table.note.startswith("No runtime has a plan that fits safely")


def test_nothing_fits_for_any_runtime() -> None:
    with mock.patch("meshwright.answers.unfit.nothing_fits.what_would_fit", return_value=[]):
        answer = asked("plan", *question(runtime="all", model="llama-3.1-405b"))
    assert answer.code == 3
    assert "megatron-core" in answer.message
    assert "torchtitan" in answer.message
    assert "pytorch-ddp keeps all weights on every rank." in answer.message
    rows = re.findall(r"([\w-]+) +([\d,.]+) GiB +nothing that was tried", answer.message)
    sizes = [float(size.replace(",", "")) for _, size in rows]
    assert sizes == sorted(sizes)
    assert {name for name, _ in rows} == set(catalog.names("runtimes"))
    assert "--runtime all" not in answer.message


@pytest.mark.parametrize(
    ("model", "cluster", "runtime", "told"),
    [
        ("mixtral-8x22b", "2x8:h100", "accelerate", "8 experts on 16 ranks, the fullest rank holds 2.0 times"),
        ("mixtral-8x7b", "4x8:h100", "accelerate", "8 experts on 32 ranks, the fullest rank holds 4.0 times"),
        ("mixtral-8x22b", "2x8:h100", "megatron-core", ""),
    ],
)
def test_experts_that_leave_ranks_without_are_told(model: str, cluster: str, runtime: str, told: str) -> None:
    """Also where the leanest plan shards them over fewer ranks for that reason."""
    asked_for = question(model=model, cluster=cluster, runtime=runtime)
    with mock.patch("meshwright.answers.unfit.nothing_fits.what_would_fit", return_value=[]):
        answer = asked("plan", *asked_for)
    assert answer.code == 3
    assert (f"shards experts one by one: with {told}" in answer.message) == bool(told)


def test_experts_that_no_more_ranks_would_share_are_told_where_nothing_helps() -> None:
    asked_for = question(model="mixtral-8x7b", cluster="1x8:h100", runtime="accelerate")
    with mock.patch("meshwright.answers.unfit.nothing_fits.what_would_fit", return_value=[]):
        answer = asked("plan", *asked_for)
    assert "accelerate shards experts one by one, so that no more than 8 ranks share its 8 experts." in answer.message


def test_a_reason_that_several_runtimes_have_is_said_once() -> None:
    adapters = ("--lora-rank", "16", "--micro-batch", "1")
    screen = " ".join(asked("plan", *question(runtime="all", cluster="1x1:h100"), *adapters).out.split())
    assert (
        screen.count(
            "adapters are not priced under this runtime; use accelerate, deepspeed, megatron-bridge or pytorch-ddp"
        )
        == 1
    )
    assert "internevo" in screen
    assert "Replaced in every runtime" not in screen
    assert "frozen" not in screen


def test_a_question_that_every_runtime_refuses_is_a_wrong_one() -> None:
    answer = asked("plan", *question(runtime="all", cluster="59x1:h100"))
    assert answer.code == 2
    assert "global_batch" in answer.message


def sentences(cluster: str) -> str:
    """What stands between the table and the last line, in one line."""
    text = answer(cluster).text
    return " ".join(text[text.index("\nAt ") : text.index("meshwright plan --runtime NAME")].split())


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_sentences_say_what_the_document_holds(cluster: str) -> None:
    said, held = sentences(cluster), answer(cluster).document["crossover"]
    at = f"{held['bandwidth'] / 1e9:g} GB/s per GPU between nodes"
    assert f"{at}, {held['fastest']['family']} is predicted fastest" in said
    for entry in (held["fastest"], held["other"]):
        assert f"{entry['runtime']} with {Plan.from_dict(entry['plan'])}, " in said
    if not held["told_apart"]:
        apart = held["other"]["step_time_s"] / held["fastest"]["step_time_s"] - 1
        assert f"They are {apart:.1%} apart, closer than predictions can tell" in said
        assert "would be faster" not in said
    elif held["change"]:
        word = "Above" if held["change"]["factor"] > 1 else "Below"
        told = re.search(rf"{word} about ([\d.]+) GB/s \(([\d.]+) times\) {held['other']['family']} would be", said)
        assert told
        assert float(told[1]) * 1e9 == pytest.approx(held["change"]["bandwidth"], rel=0.01)
        assert float(told[2]) == pytest.approx(held["change"]["factor"], abs=0.006)
    else:
        limits = f"{held['lowest_bandwidth'] / 1e9:.3g} GB/s to {held['highest_bandwidth'] / 1e9:.3g} GB/s"
        assert f"No bandwidth from {limits} changes that." in said


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_fastest_is_that_of_all_runtimes_and_the_bandwidths_are_those_looked_at(cluster: str) -> None:
    """The recommended plan of a runtime may be a simpler one, which its ties tell."""
    document = answer(cluster).document
    held, answered = document["crossover"], [each for each in document["runtimes"].values() if "ties" in each]
    fastest = min((each["ties"]["fastest"] for each in answered), key=lambda plan: plan["step_time_s"])
    assert held["fastest"]["plan"] == fastest["plan"]
    assert held["fastest"]["step_time_s"] == pytest.approx(fastest["step_time_s"], rel=1e-12)
    assert held["lowest_bandwidth"] == pytest.approx(LOWEST * held["bandwidth"])
    assert held["highest_bandwidth"] == pytest.approx(HIGHEST * held["bandwidth"])


def test_a_single_node_has_no_such_sentence() -> None:
    assert "between nodes" not in answer("1x8:h100").text
    assert answer("1x8:h100").document["crossover"] is None


@cache
def crossed(*runtimes: str) -> Crossover:
    """An 8B model over leaves and a spine, with the plans of these runtimes."""
    inputs = [question_of(llama_8b(), three_levels(8), runtime, global_batch=64) for runtime in runtimes]
    crossing = crossover([find(each, top=1) for each in inputs])
    assert crossing
    return crossing


def said(crossing: Crossover) -> list[str]:
    """The sentences, without style."""
    return [line.replace("**", "") for line in crossover_lines(crossing)]


def test_a_family_without_plans_is_told_and_has_no_change() -> None:
    crossing = crossed("megatron-lm")
    (line,) = said(crossing)
    assert line.endswith(". No fully sharded plan fits as safely, however fast the links.")
    entry = crossover_entry(crossing)
    assert (entry["other"], entry["change"]) == (None, None)


def apart(crossing: Crossover, longer: float = 1.0) -> Crossover:
    """The same where the step of the slower family takes so much longer, as a share."""
    assert crossing.other
    seconds, time = crossing.fastest.estimate.step_time_s * (1 + longer), crossing.other.estimate.time
    slower = replace(crossing.other.estimate, time=time._replace(compute_s=time.compute_s + seconds - time.total))
    return replace(crossing, other=replace(crossing.other, estimate=slower))


def test_families_that_predictions_cannot_tell_apart_have_no_bandwidth_at_which_the_winner_changes() -> None:
    crossing = crossed("megatron-core", "torchtitan")
    assert crossing.other
    share = share_of_ties(crossing.fastest.inputs, published=False)
    for longer, told in ((0.01, False), (2 * share, True)):
        near = apart(crossing, longer)
        assert crossover_entry(near)["told_apart"] is told
        assert ("closer than predictions can tell" in said(near)[1]) is not told


def test_where_no_bandwidth_changes_the_winner_the_range_is_told() -> None:
    crossing = replace(apart(crossed("megatron-core", "torchtitan")), change=None)
    assert said(crossing)[1] == "No bandwidth from 3.12 GB/s to 800 GB/s changes that."


@pytest.mark.parametrize(
    ("factor", "word"), [(0.5, "Below about 25 GB/s (0.50"), (1.25, "Above about 62.5 GB/s (1.25")]
)
def test_the_change_is_told_with_its_side_and_that_all_links_change(factor: float, word: str) -> None:
    crossing = apart(crossed("megatron-core", "torchtitan"))
    assert crossing.other
    change = CrossoverPoint(factor, factor * crossing.bandwidth, crossing.other, crossing.fastest)
    told = f"{word} times, for all links between nodes) {crossing.other.family} would be faster."
    assert said(replace(crossing, change=change))[1] == told


def test_a_plan_at_risk_is_told_so() -> None:
    crossing = crossed("megatron-lm")
    estimate = crossing.fastest.estimate
    fit = replace(estimate.fit, verdict=Verdict.AT_RISK)
    risky = replace(crossing.fastest, estimate=replace(estimate, fit=fit))
    assert "s (at-risk). No" in said(replace(crossing, fastest=risky))[0]
    assert "at-risk" not in said(crossing)[0]


def test_a_table_that_has_another_plan_than_the_fastest_says_why() -> None:
    result = find(question_of(llama_8b(), "2x8:h100", global_batch=64, sequence_length=8192))
    slow = max(result.best, key=lambda each: each.step_time_s)
    for best, told in ((result.fastest, False), (slow, True)):
        assert best
        answers: Answers = {"megatron-core": replace(result, best=(best,))}
        crossing = crossover_of(answers)
        lines = [line for each in runtimes_screen(answers, crossing) if isinstance(each, Lines) for line in each.lines]
        words = f"The table has the plan that meshwright plan recommends for megatron-core, {best.plan}: it is "
        assert any(line.startswith(words) for line in lines) == told

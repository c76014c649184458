"""Compare: clusters and plans side by side say what the planner says of each alone."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from rich.console import Console

from commands import LLAMA, asked, question, refused
from meshwright.answers.basis.uncertainty import step_time_interval
from meshwright.answers.compare.clusters import ClusterComparison, Wishes, compare_clusters
from meshwright.answers.compare.clusters_table import UNPRICED, clusters_document, clusters_screen
from meshwright.answers.compare.named import named_plans
from meshwright.answers.compare.plans import compare_plans
from meshwright.answers.compare.premises import (
    cluster_premise,
    divided_over,
    fullest_states,
    least_divided,
    plan_premise,
    whole_states,
)
from meshwright.answers.compare.training import Deadline, Outlook, days_interval, outlook_of, training_of
from meshwright.answers.document.blocks import Block
from meshwright.answers.document.terminal import terminal
from meshwright.answers.step_parts import from_peak, why_lost
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.find import find
from meshwright.search.ranking.rank import LEAST_GAIN
from meshwright.specs.inputs import Inputs
from meshwright.specs.scale import with_network
from strategies import Planned, dense_model, legal_plans, llama_8b, llama_70b, planned
from strategies import question as inputs_of

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "compare.md"
TRAINED = ("--tokens", "10B", "--price", "a100=2", "--price", "1x8:h100=3")
TWO = ("--model", "llama-3.1-8b", "--seq-len", "8192", "--global-batch", "64")
CLUSTERS = (*TWO, "--cluster", "1x4:a100", "--cluster", "1x8:h100")
SMALL = inputs_of(dense_model(layers=8), "1x8:v100", global_batch=16)
TIGHT = inputs_of(llama_8b(), "1x8:h100", global_batch=16, sequence_length=8192)


def answered(*arguments: str) -> dict[str, Any]:
    """The document that `compare` prints, without a number that JSON does not have."""

    def no_number(name: str) -> None:
        raise AssertionError(name)

    answer = asked("compare", *arguments, "--json")
    assert (answer.code, answer.err) == (0, "")
    document: dict[str, Any] = json.loads(answer.out, parse_constant=no_number)
    return document


def compared(*questions: Inputs, wishes: Wishes | None = None) -> ClusterComparison:
    """Clusters side by side."""
    return compare_clusters([(each.cluster, each) for each in questions], wishes or Wishes())


def test_every_cluster_has_the_plan_that_it_has_alone() -> None:
    for entry, cluster in zip(answered(*CLUSTERS)["clusters"], ("1x4:a100", "1x8:h100"), strict=True):
        alone = asked("plan", *TWO, "--cluster", cluster, "--top", "1", "--json").document["plans"][0]
        assert entry["best"] == {name: value for name, value in alone.items() if name != "lost"}
        parts = asked("explain", *TWO, "--cluster", cluster, "--json").document["plans"][0]["from_peak"]
        assert entry["limiting"]["part"] in parts.keys() - {"ideal_s"}


def test_training_is_what_its_tokens_take() -> None:
    first, second = answered(*CLUSTERS, *TRAINED)["clusters"]
    for entry, accelerators, price in ((first, 4, 2), (second, 8, 3)):
        training, seconds = entry["training"], 10**10 / (64 * 8192) * entry["best"]["step_time_s"]
        assert training["days"] == pytest.approx(seconds / 86400)
        assert training["accelerator_hours"] == pytest.approx(accelerators * seconds / 3600)
        assert training["cost"] == pytest.approx(price * training["accelerator_hours"])
    assert first["speed"] == 1
    assert second["speed"] == pytest.approx(first["best"]["step_time_s"] / second["best"]["step_time_s"])


def test_a_cluster_has_the_faster_setup_of_its_plan_and_what_training_takes_with_it() -> None:
    words = ("--seq-len", "4096", "--global-batch", "512")
    trained = ("--tokens", "1T", "--price", "2x8:h100=2", "--price", "2x8:h200=3")
    answer = asked("compare", "qwen3-30b-a3b", "2x8:h100", "2x8:h200", *words, *trained)
    clusters = answered("qwen3-30b-a3b", "2x8:h100", "2x8:h200", *words, *trained)["clusters"]
    for entry, cluster in zip(clusters, ("2x8:h100", "2x8:h200"), strict=True):
        alone = asked("plan", "qwen3-30b-a3b", cluster, *words, "--json").document["switched_plan"]
        assert entry["switched_plan"] == alone
        days = 1e12 / (512 * 4096) * alone["step_time_s"] / 86400
        assert f"1T tokens take {days:,.1f} days" in " ".join(answer.out.split())


def test_a_cluster_without_a_price_has_no_cost() -> None:
    first, second = answered(*CLUSTERS, "--tokens", "1B", "--price", "h100=3")["clusters"]
    assert first["training"]["cost"] is None
    assert second["training"]["cost"] > 0
    assert UNPRICED in asked("compare", *CLUSTERS, "--tokens", "1B", "--price", "h100=3").out


OLD, NEW = (
    inputs_of(dense_model(layers=4), where, global_batch=16, precision="bf16", tokens=10**10)
    for where in ("1x2:a100", "1x2:h100")
)


def test_a_deadline_is_met_or_gets_the_nodes_that_meet_it() -> None:
    slow, fast = compared(OLD, NEW).rows
    assert slow.training
    assert fast.training
    assert fast.best
    in_time = days_interval(fast.training, fast.best, NEW)[1] * (1 + 1e-9)
    wishes = Wishes(prices={OLD.cluster.name: 2.0}, deadline_days=in_time)
    late, early = (row.deadline for row in compared(OLD, NEW, wishes=wishes).rows)
    assert early == Deadline(in_time, Outlook.MET, None, None)
    assert late
    assert late.nodes
    assert late.outlook != Outlook.MET
    assert late.training == training_of(late.nodes.estimate, late.nodes.inputs, 2.0)
    assert days_interval(late.training, late.nodes.estimate, late.nodes.inputs)[1] <= in_time < slow.training.days
    screen = _printed(clusters_screen(compared(OLD, NEW, wishes=wishes)), width=150)
    there = late.nodes.inputs.cluster
    assert f"{late.outlook}; met with {there.num_nodes} nodes ({there.num_gpus} in all)" in screen
    never = compared(NEW, wishes=Wishes(deadline_days=1e-9))
    assert "missed; not met with 32 times the nodes" in " ".join(_printed(clusters_screen(never)).split())
    entry = {"days": 1e-9, "met": False, "outlook": "missed", "nodes": None}
    assert clusters_document(never)["clusters"][0]["deadline"] == entry


def test_a_cluster_that_holds_nothing_has_no_deadline() -> None:
    holds, small = (
        inputs_of(llama_8b(), where, global_batch=64, sequence_length=4096, tokens=10**10)
        for where in ("1x8:h100", "1x2:l40s")
    )
    comparison = compared(holds, small, wishes=Wishes(deadline_days=10))
    assert comparison.rows[1].deadline is None
    assert "in 10 days" in _printed(clusters_screen(comparison), width=150)


def test_a_deadline_is_as_sure_as_the_range_of_days() -> None:
    [row] = compared(NEW).rows
    assert row.training
    assert row.best
    interval = step_time_interval(row.best, NEW)
    outlooks = ["missed", "at risk", "met in most runs", "met"]
    for seconds, below, above in zip(interval[:3], outlooks, outlooks[1:], strict=False):
        for share, said in ((1 - 1e-9, below), (1 + 1e-9, above)):
            assert outlook_of(row.best, NEW, share * seconds) == said
    # A prediction that meets the deadline is no reason to call it met: the range of days goes on after it.
    tight = compared(NEW, wishes=Wishes(deadline_days=row.training.days * 1.01))
    assert tight.rows[0].deadline
    assert not clusters_document(tight)["clusters"][0]["deadline"]["met"]
    assert str(tight.rows[0].deadline.outlook) in " ".join(_printed(clusters_screen(tight)).split())


def _printed(screen: tuple[Block, ...], width: int = 80) -> str:
    with (console := Console(width=width)).capture() as printed:
        console.print(terminal(screen))
    return printed.get()


@pytest.mark.parametrize("factor", [1.5, 4.0])
def test_a_faster_network_never_makes_a_cluster_slower(factor: float) -> None:
    slow = inputs_of(llama_8b(), "4x8:h100", global_batch=64, sequence_length=8192)
    first, second = compared(slow, slow.replace(cluster=with_network(slow.cluster, factor))).rows
    assert first.best
    assert second.best
    assert second.best.step_time_s <= first.best.step_time_s * (1 + LEAST_GAIN)


def test_what_does_not_fit_or_cannot_run_is_a_row() -> None:
    arguments = (*question(cluster="1x1:h100"), "--cluster", "2x8:h100", "--cluster", "1x8:v100")
    tiny, best, unable = answered(*arguments)["clusters"]
    assert best["best"]
    assert tiny["best"] is unable["best"] is tiny["limiting"] is unable["inputs"] is None
    assert tiny["contradiction"]["ranks"] > 1
    assert "What would fit" in tiny["refused"]
    assert "fp16" in unable["refused"]
    screen = asked("compare", *arguments)
    assert screen.code == 0
    assert all(text in screen.out for text in ("impossible", "refused", "What would fit", "1.00x"))


def test_nothing_that_fits_anywhere_is_exit_code_3() -> None:
    message = refused(asked("compare", *question(cluster="1x1:h100"), "--cluster", "1x1:a100"), 3)
    assert "1x1:h100-sxm-80gb" in message
    assert "1x1:a100-sxm-80gb" in message


def test_one_plan_is_shown_with_its_regrets() -> None:
    document = answered(*CLUSTERS, "--one-plan")
    entries, best = document["one_plan"]["clusters"], document["clusters"]
    for entry, row in zip(entries, best, strict=True):
        slower = entry["step_time_s"] / row["best"]["step_time_s"] - 1
        assert entry["regret"] == pytest.approx(max(slower, 0.0), abs=1e-8)
        assert entry["verdict"] == "safe"
    assert document["one_plan"]["worst_regret"] == max(entry["regret"] for entry in entries)
    assert "One layout for all" in asked("compare", *CLUSTERS, "--one-plan").out
    assert answered(*CLUSTERS)["one_plan"] is None


@pytest.mark.parametrize("other", ["1x1:h100", "1x8:v100"])
def test_who_excludes_every_layout_is_named(other: str) -> None:
    arguments = (*LLAMA, "--cluster", other, "--one-plan")
    excluded = answered(*arguments)["one_plan"]["excluded"]
    assert other in excluded
    screen = " ".join(asked("compare", *arguments).out.split())
    assert "No layout fits safely on all of them" in screen
    assert " ".join(excluded.split()) in screen


def test_plans_say_what_explain_says() -> None:
    document = answered(*LLAMA, "--plan", "tp=2", "--plan", "wide:tp=4,pp=2,zero=0,mbs=2")
    alone = (["--tp", "2"], ["--tp", "4", "--pp", "2", "--zero", "0", "--micro-batch", "2"])
    assert [entry["name"] for entry in document["plans"]] == ["A", "wide"]
    for entry, options in zip(document["plans"], alone, strict=True):
        explained = asked("explain", *LLAMA, *options, "--json").document["plans"][0]
        assert entry["plan"] == explained["plan"]
        assert entry["from_peak"] == explained["from_peak"]
        assert entry["price"] == {name: explained[name] for name in entry["price"]}


def test_differences_add_up_to_the_step_and_the_memory() -> None:
    document = answered(*LLAMA, "--plan", "tp=2", "--plan", "tp=4,pp=2", "--plan", "zero=3,recompute=full")
    first, *others = document["plans"]
    for difference, other in zip(document["differences"], others, strict=True):
        steps = other["price"]["step_time_s"] - first["price"]["step_time_s"]
        sizes = other["price"]["memory"]["device_bytes"] - first["price"]["memory"]["device_bytes"]
        assert difference["step_time_s"] == steps
        assert sum(difference["time"].values()) == pytest.approx(steps, rel=1e-6, abs=1e-9)
        assert sum(difference["memory"].values()) == pytest.approx(sizes, rel=1e-6)
        assert difference["device_bytes"] == sizes


def test_the_last_lines_name_the_better_plan_and_why() -> None:
    """The better one is that which a search recommends; what it gives up for that is said."""
    shown = find(TIGHT, top=2).best
    lines = [f"{label}:{_fields(each.plan)}" for label, each in zip("AB", shown, strict=True)]
    comparison = compare_plans(named_plans(lines[::-1], TIGHT), TIGHT)
    assert comparison.best
    assert comparison.best.estimate == shown[0]
    assert comparison.sentences[:2] == ("A is better:", f"B is {why_lost(shown[1], shown[0])}.")
    assert comparison.recommended in (None, shown[0])
    assert ("meshwright plan recommends A." in comparison.sentences) == (comparison.recommended is not None)


def test_where_the_recommended_plan_is_not_named_it_is_told() -> None:
    inputs = inputs_of(llama_8b(), "1x8:h100", global_batch=64, sequence_length=8192)
    names = named_plans(["tp=2,zero=1", "tp=2,zero=1,recompute=selective,recompute_modules=core_attn"], inputs)
    comparison = compare_plans(names, inputs)
    best, first = find(inputs).best[0], comparison.best
    assert comparison.recommended == best
    assert first
    assert best.plan not in [each.plan for each in names]
    assert comparison.sentences[-1].startswith(f"meshwright plan recommends another plan, {best.plan}: ")


def test_of_plans_too_close_to_tell_apart_the_one_that_fits_more_surely_is_better() -> None:
    """As in a search; and the faster one is named."""
    inputs = inputs_of(llama_8b(), "1x8:h100", global_batch=64, sequence_length=7168)
    lines = ["fast:zero=2,recompute=full,recompute_layers=2", "sure:zero=3"]
    comparison = compare_plans(named_plans(lines, inputs), inputs)
    assert comparison.best
    assert comparison.best.label == "sure"
    assert any("sure and fast are closer than predictions can tell; sure" in line for line in comparison.sentences)


def _fields(plan: Plan) -> str:
    written = {
        name: "on" if value is True else "off" if value is False else value for name, value in plan.to_dict().items()
    }
    listed = {name: ",".join(map(str, value)) if isinstance(value, list) else value for name, value in written.items()}
    selective = plan.to_dict()["recompute"] == "selective"
    return ",".join(
        f"{name}={value}"
        for name, value in listed.items()
        if value != "" and (selective or name != "recompute_modules")
    )


@pytest.mark.parametrize("inputs", [SMALL, TIGHT], ids=["small", "tight"])
def test_every_field_of_a_plan_can_be_written(inputs: Inputs) -> None:
    best = find(inputs, top=4).best
    assert len(best) == 4
    for estimate in best:
        first, _ = named_plans([_fields(estimate.plan), "tp=8,pp=1,recompute=selective,micro_batch=2"], inputs)
        assert first.plan == estimate.plan


def test_an_illegal_plan_says_its_rules_and_is_priced_where_only_the_framework_refuses_it() -> None:
    arguments = (*LLAMA, "--plan", "tp=3", "--plan", "tp=2,pp=2,zero=2", "--plan", "tp=2")
    odd, sharded, plain = answered(*arguments)["plans"]
    assert {"query_heads", "world_size"} <= {broken["rule"] for broken in odd["broken"]}
    assert odd["price"] is odd["from_peak"] is None
    assert [broken["rule"] for broken in sharded["broken"]] == ["zero_without_pipeline"]
    assert sharded["price"]["step_time_s"] > 0
    assert plain["legal"]
    assert answered(*arguments)["best"] == "C"
    screen = asked("compare", *arguments).out
    assert all(text in screen for text in ("breaks query_heads", "not priced", "priced as if it were legal"))
    none = answered(*LLAMA, "--plan", "tp=3", "--plan", "tp=5")
    assert (none["best"], none["differences"][0]["time"]) == (None, None)


def test_what_is_not_modelled_has_no_price() -> None:
    arguments = (*LLAMA, "--runtime", "pytorch-ddp", "--plan", "zero=3", "--plan", "zero=0")
    sharded, plain = answered(*arguments)["plans"]
    assert sharded["broken"]
    assert sharded["price"] is None
    assert plain["legal"]


def test_plan_files_are_compared_with_each_other_and_with_lines(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(asked("plan", *LLAMA, "--json").out, "utf-8")
    held = json.loads(file.read_text("utf-8"))["plans"]
    document = answered("--plan-file", str(file), "--plan-file", f"{file}:2", "--plan", "tp=4")
    assert [entry["plan"] for entry in document["plans"][:2]] == [held[0]["plan"], held[1]["plan"]]
    assert [entry["file"] for entry in document["plans"]] == [str(file), f"{file}:2", None]
    other = tmp_path / "other.json"
    other.write_text(asked("plan", *question(global_batch="128"), "--json").out, "utf-8")
    assert "128" in refused(asked("compare", "--plan-file", str(file), "--plan-file", str(other)))
    assert "10 plans" in refused(asked("compare", "--plan-file", str(file), "--plan-file", f"{file}:19"))
    assert "--cluster" in refused(asked("compare", "--plan-file", str(file), "--cluster", "1x8:h100", "--plan", "tp=2"))


@pytest.mark.parametrize("inputs", [SMALL, TIGHT], ids=["small", "tight"])
def test_a_plan_is_impossible_exactly_when_its_states_exceed_the_memory(inputs: Inputs) -> None:
    plans = legal_plans(inputs)
    some = plans.take(np.random.default_rng(1).permutation(len(plans))[:12])
    assert len(some) == 12
    for estimate in estimate_each([some[row] for row in range(len(some))], inputs):
        states = max(stage.memory.states for stage in estimate.stages)
        premise = plan_premise(estimate, inputs)
        assert (premise is not None) == (states > inputs.cluster.accelerator.visible_memory_bytes)
        if premise:
            assert premise.states_bytes == states
            assert f"at least {premise.ranks} ranks" in premise.sentence


def test_what_would_hold_the_states_is_the_least_that_does() -> None:
    legal, visible = legal_plans(TIGHT), TIGHT.cluster.accelerator.visible_memory_bytes
    holds = fullest_states(legal, TIGHT) <= visible
    least = least_divided(TIGHT)
    assert least
    assert divided_over(Plans.of([least]))[0] == divided_over(legal.take(holds)).min()
    assert fullest_states(Plans.of([least]), TIGHT)[0] <= visible


@settings(max_examples=25)
@given(planned())
def test_no_plan_keeps_less_than_the_whole_divided_over_all_ranks(case: Planned) -> None:
    most = fullest_states(case.plans, case.inputs) * case.inputs.cluster.num_gpus
    assert (most >= whole_states(case.inputs) * (1 - 1e-6)).all()


def test_plain_data_parallelism_of_30_billion_parameters_is_impossible() -> None:
    model = dense_model(name="30b", heads=56, kv_heads=56, ffn_size=28672, gated=False, layers=48, vocab_size=50304)
    inputs = inputs_of(model, "4x8:h100", global_batch=256, precision="bf16")
    plain, split = compare_plans(named_plans(["zero=0", "tp=4,pp=2,zero=1"], inputs), inputs).columns
    assert plain.contradiction
    assert split.contradiction is None
    assert re.search(r"dp 32 with ZeRO 0 keeps .* on each accelerator, 6\.\d times", plain.contradiction.sentence)
    assert "shard over at least 8 ranks" in plain.contradiction.sentence


def test_a_cluster_that_cannot_hold_the_states_says_how_many_could() -> None:
    few = inputs_of(llama_70b(), "1x8:h100", global_batch=16, precision="bf16")
    premise = cluster_premise(few)
    assert premise
    assert premise.ranks
    visible = few.cluster.accelerator.visible_memory_bytes
    assert (premise.ranks - 1) * visible < whole_states(few) <= premise.ranks * visible
    assert cluster_premise(inputs_of(llama_70b(), "2x8:h100", global_batch=16, precision="bf16")) is None


@pytest.mark.parametrize(
    "form", [(*CLUSTERS, *TRAINED, "--one-plan"), (*LLAMA, "--plan", "tp=2", "--plan", "B:pp=2", "--plan", "tp=8")]
)
def test_screens_fit_80_columns(form: tuple[str, ...]) -> None:
    answer = asked("compare", *form)
    assert (answer.code, answer.err) == (0, "")
    assert max(map(len, answer.out.splitlines())) <= 80


def test_parts_of_a_step_are_those_of_the_waterfall() -> None:
    comparison = compare_plans(named_plans(["tp=2", "tp=4"], TIGHT), TIGHT)
    assert len(comparison.columns) == 2
    for column in comparison.columns:
        assert column.estimate
        assert column.parts == from_peak(column.estimate, TIGHT)
        assert sum(column.parts.values()) == pytest.approx(column.estimate.step_time_s, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (LLAMA, "name two clusters"),
        (TWO, "no cluster is given"),
        ((*LLAMA, "--plan", "tp=2"), "another --plan"),
        ((*CLUSTERS, "--plan", "tp=2", "--plan", "tp=4"), "one cluster"),
        ((*LLAMA, "--cluster", "1x8:h100-sxm-80gb"), "same cluster"),
        ((*LLAMA, "--cluster", "1x8:h1000"), "h100"),
        ((*CLUSTERS, *TRAINED, "--price", "b200=4"), "is not compared"),
        (
            (*CLUSTERS, "--tokens", "10B", "--price", "4"),
            "of which accelerator? Write a100-sxm-80gb=4 or h100-sxm-80gb=4",
        ),
        ((*CLUSTERS, *TRAINED, "--price", "a100-sxm-80gb=4"), "has the price 2 already"),
        ((*CLUSTERS, "--tokens", "1T", "--price", "h100"), "write it as"),
        ((*CLUSTERS, "--tokens", "1T", "--price", "h100=-1"), "write it as"),
        ((*CLUSTERS, "--tokens", "1T", "--price", "h100=1e308"), "from 0 to 1e+09: write it as"),
        ((*CLUSTERS, "--tokens", "1T", "--price", "h100=nan"), "write it as"),
        (
            (*CLUSTERS, "--tokens", "1T", "--price", "h100=2,a100=1"),
            "is several prices; give the option once for each: --price h100=2 --price a100=1",
        ),
        ((*CLUSTERS, "--price", "h100=2"), "--tokens"),
        ((*CLUSTERS, "--deadline-days", "9"), "--tokens"),
        ((*CLUSTERS, "--tokens", "1T", "--deadline-days", "0"), "more than 0"),
        ((*CLUSTERS, "--tokens", "1T", "--deadline-days", "nan"), "more than 0"),
        ((*LLAMA, "--plan", "tp=2", "--plan", "tp=4", "--one-plan"), "--one-plan"),
        ((*LLAMA, "--plan", "tp=2", "--plan", "zer=4"), "nearest: zero"),
        ((*LLAMA, "--plan", "tp=2", "--plan", "four"), "not a field with a value"),
        ((*LLAMA, "--plan", "tp=2", "--plan", ""), "not a field with a value"),
        ((*LLAMA, "--plan", "tp=2", "--plan", "tp=two"), "whole number of 1 or more"),
        ((*LLAMA, "--plan", "tp=2", "--plan", "tp=0"), "whole number of 1 or more"),
        ((*LLAMA, "--plan", "tp=2", "--plan", "sp=maybe"), "on or off"),
        ((*LLAMA, "--plan", "tp=2", "--plan", "tp=4,tp=8"), "tp twice"),
        ((*LLAMA, "--plan", "tp=2", "--plan", "schedule=best"), "unknown schedule"),
        ((*LLAMA, "--plan", "tp=2", "--plan", "tp=2,dp=4"), "the same plan"),
        ((*LLAMA, "--plan", "A:tp=2", "--plan", "A:tp=4"), "name of its own"),
        ((*LLAMA, "--plan", "tp=2", "--plan", ":tp=4"), "not a plan name"),
        (
            ("--cluster", "1x8:h100", "--cluster", "2x8:h100"),
            "compare needs a model, before the clusters or by --model",
        ),
        (("llama-3.1-8b",), "no cluster is given: name two clusters, as in meshwright compare llama-3.1-8b 8x8:h100"),
        (("llama-3.1-8b", "1x8:h100"), "as in meshwright compare llama-3.1-8b 1x8:h100 8x8:b200, or plans of one"),
        (("--plan-file", "missing.json", "--plan", "tp=2"), "no plan file"),
        ((*question(precision="int4"), "--cluster", "2x8:h100"), "int4"),
        ((*question(model="llama-9"), "--cluster", "2x8:h100"), "llama-9"),
    ],
)
def test_wrong_questions_are_refused_in_words(arguments: tuple[str, ...], told: str) -> None:
    assert told in refused(asked("compare", *arguments))


def test_a_question_that_every_cluster_refuses_is_wrong() -> None:
    with pytest.raises(InvalidInput, match="no cluster has a plan"):
        compared(*(inputs_of(dense_model(), where, global_batch=2) for where in ("59x1:h100", "61x1:h100")))


@pytest.mark.parametrize("mark", ["clusters", "plans"])
def test_the_page_shows_what_is_printed_now(mark: str) -> None:
    shown = re.search(rf"<!-- {mark} -->\n```\n\$ meshwright (.*?)\n(.*?)\n```", PAGE.read_text("utf-8"), re.DOTALL)
    assert shown
    printed = "\n".join(line.rstrip() for line in asked(*shlex.split(shown[1])).out.splitlines())
    assert printed.partition("\nAssumed")[0].rstrip() == shown[2]


def test_a_plan_has_the_price_of_its_own_precision_and_runtime(tmp_path: Path) -> None:
    lines = ("--plan", "tp=2", "--plan", "b:tp=2,precision=fp8,with=overlap.tensor_parallel=0.5")
    compared = answered(*LLAMA, *lines, "--plan", "c:tp=2,runtime=torchtitan")
    files = [tmp_path / f"{index}.json" for index in range(3)]
    options: list[list[str]] = [[], ["--precision", "fp8", "--with", "overlap.tensor_parallel=0.5"]]
    for file, some in zip(files, [*options, ["--runtime", "torchtitan"]], strict=True):
        file.write_text(asked("explain", *LLAMA, "--tp", "2", *some, "--json").out, "utf-8")
    alone = [json.loads(file.read_text("utf-8"))["plans"][0]["step_time_s"] for file in files]
    assert [plan["price"]["step_time_s"] for plan in compared["plans"]] == alone
    assert [change["name"] for change in compared["plans"][1]["differs"]] == ["precision", "overlap.tensor_parallel"]
    again = answered(*(part for file in files for part in ("--plan-file", str(file))))
    assert [plan["price"]["step_time_s"] for plan in again["plans"]] == alone
    assert "b: tp2 sp pp1 dp4 zero1 mbs1 m16, precision fp8, overlap" in asked("compare", *LLAMA, *lines).out

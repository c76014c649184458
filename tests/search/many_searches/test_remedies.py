"""Remedies: what is said to fit is what a search recommends there, safe, within the constraints, and the fewest."""

from __future__ import annotations

from functools import cache
from unittest import mock

import pytest

from meshwright.answers.unfit.nothing_fits import nothing_fits, remedy_words
from meshwright.cost.footprint import footprints_of
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput
from meshwright.search.find import SearchResult, find
from meshwright.search.fits.least_states import divides_states, least_nodes, whole_states
from meshwright.search.many_searches import fewest_nodes as fewest_nodes_module
from meshwright.search.many_searches.fewest_nodes import fewest_nodes
from meshwright.search.many_searches.remedies import Kind, Remedy, remedies
from meshwright.search.plan_space.constrained import satisfies
from meshwright.search.published.untested import unpublished
from meshwright.search.safe import safe_plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.scale import with_nodes
from meshwright.specs.switches import narrower_forms
from meshwright.specs.weights import parameter_count
from meshwright.units import format_gib
from strategies import legal_plans, llama_8b, llama_70b, mixture, question

pytestmark = pytest.mark.slow

NAMES = ("llama 70b", "tp 8", "constraints", "one card", "long sequence", "logits", "mixture")


@cache
def asked(name: str) -> Inputs:
    """A question that no plan fits."""
    llama = question(llama_70b(), "1x8:h100", global_batch=32, sequence_length=8192)
    logits = question(llama_8b(), "1x8:h100", "torchtitan", global_batch=8, sequence_length=2**19)
    return {
        "llama 70b": llama,
        "tp 8": llama.replace(constraints=Constraints(tp=8)),
        "constraints": question(llama_70b(), "4x8:h100", global_batch=64).replace(
            constraints=Constraints(tp=1, pp=1, zero=1, recompute="none")
        ),
        "one card": question(llama_8b(), "1x1:l40s", "torchtitan", global_batch=16),
        "long sequence": question(llama_8b(), "1x8:h100", global_batch=8, sequence_length=2**20),
        "logits": logits.replace(runtime=logits.runtime.replace(cross_entropy="eager")),
        "mixture": question(mixture(), "1x1:l40s", global_batch=4, sequence_length=2**17),
    }[name]


@cache
def result(name: str) -> SearchResult:
    """The search of one, which finds nothing."""
    found = find(asked(name))
    assert not found.best
    return found


@cache
def ways(name: str) -> list[Remedy]:
    """What would fit in its place."""
    return remedies(result(name))


def of_kind(name: str, kind: Kind) -> list[Remedy]:
    """Of these, those of a kind."""
    return [each for each in ways(name) if each.kind is kind]


@pytest.mark.parametrize("name", NAMES)
def test_what_would_fit_is_what_a_search_recommends_there(name: str) -> None:
    assert ways(name)
    for way in {each.kind: each for each in ways(name)}.values():
        best = find(way.inputs).best[0]
        assert (best.plan, best.step_time_s) == (way.estimate.plan, way.estimate.step_time_s)
        assert best.verdict == Verdict.SAFE
        assert satisfies(best.plan, way.inputs)
        if way.kind is not Kind.FEWER_CONSTRAINTS:
            given = asked(name).constraints.given
            assert way.inputs.constraints.given.items() >= given.items()


@pytest.mark.parametrize("name", NAMES)
def test_every_way_stands_in_the_message_with_its_step_time_and_probability(name: str) -> None:
    with mock.patch("meshwright.answers.unfit.nothing_fits.what_would_fit", return_value=ways(name)):
        lines = str(nothing_fits(result(name))).splitlines()[1:]
    assert len(lines) == len(ways(name))
    for line, way in zip(lines, ways(name), strict=True):
        assert str(way.estimate.plan) in line
        assert f"probability of fitting {way.estimate.fit.probability:.0%}" in line
        assert all(option in line for option in way.options if way.kind is not Kind.SHORTER_SEQUENCE)


def test_two_forms_together_are_named_where_neither_alone_is_enough() -> None:
    inputs = question(read_model("gpt-oss-20b"), "1x8:h100", "accelerate", sequence_length=131_072, global_batch=8)
    ways = [each.options for each in remedies(find(inputs), 2) if each.kind is Kind.FEWER_BYTES]
    assert ways == [("--with liger=on", "--with optimizer_states=offloaded")]


def test_narrower_optimizer_states_come_before_more_accelerators() -> None:
    """Two bf16 moments and the remainders of fp32 weights, 6 bytes a parameter for 12, and nothing else less."""
    inputs = question(llama_8b(), "1x1:h200", global_batch=4, precision="bf16")
    way, *_ = remedies(find(inputs), most=1)
    assert way.options == ("--with optimizer_states=bf16",)
    memory = way.estimate.memory
    before = estimate_each([way.estimate.plan], inputs)[0].memory
    assert memory.optimizer_states == before.optimizer_states / 2 == 6 * parameter_count(inputs.model)
    assert (memory.parameters, memory.gradients) == (before.parameters, before.gradients)
    assert [change for change, _ in narrower_forms(way.inputs)] == [
        "optimizer_states=fp8",
        "optimizer_states=offloaded",
    ]


@pytest.mark.parametrize(("nodes", "offered"), [(1, False), (2, True)])
def test_states_are_offered_to_hosts_that_can_hold_them(nodes: int, offered: bool) -> None:
    """Those of Llama 3.1 405B take 6.5 TB, more than one node is sold with."""
    asked = read_model("llama-3.1-405b"), f"{nodes}x8:b200", "deepspeed"
    ways = remedies(find(question(*asked, sequence_length=4096, global_batch=64)), 1)
    assert (("--with optimizer_states=offloaded",) in [each.options for each in ways]) is offered


@pytest.mark.parametrize("name", ["llama 70b", "tp 8", "long sequence"])
def test_more_nodes_begin_where_limits_do_and_each_is_faster(name: str) -> None:
    found = of_kind(name, Kind.MORE_ACCELERATORS)
    counts = [each.inputs.cluster.num_nodes for each in found]
    times = [each.estimate.step_time_s for each in found]
    assert counts[0] == fewest_nodes(asked(name)).inputs.cluster.num_nodes
    assert counts == sorted(set(counts))
    assert times == sorted(set(times), reverse=True)
    assert any(not unpublished(each.estimate.plan, each.inputs) for each in found)


def test_no_question_is_searched_twice() -> None:
    given = result("llama 70b")
    with mock.patch.object(fewest_nodes_module, "safe_plan", wraps=safe_plan) as searched:
        remedies(given)
    questions = [call.args[0] for call in searched.call_args_list]
    assert len(questions) == len(set(questions)) > 1


@pytest.mark.parametrize("name", ["llama 70b", "tp 8"])
def test_no_plan_is_safe_on_one_node_fewer(name: str) -> None:
    nodes = of_kind(name, Kind.MORE_ACCELERATORS)[0].inputs.cluster.num_nodes
    assert not is_safe(asked(name).replace(cluster=with_nodes(asked(name).cluster, nodes - 1)))


@pytest.mark.parametrize("name", NAMES)
def test_no_plan_is_safe_where_not_even_the_states_are(name: str) -> None:
    inputs = asked(name)
    least = least_nodes(inputs, 32)
    assert least is not None
    counts = range(max(1, least - 2), least)
    assert not any(is_safe(inputs.replace(cluster=with_nodes(inputs.cluster, nodes))) for nodes in counts)


def test_states_that_no_plan_divides_are_whole_on_every_rank_whatever_their_number() -> None:
    small = question(llama_8b(), "2x8:h100", "pytorch-ddp", global_batch=32, sequence_length=512)
    held = footprints_of(legal_plans(small), small).worst_memory.states
    assert divides_states(asked("llama 70b"))
    assert not divides_states(small)
    assert held.min() >= whole_states(small)
    large = question(llama_70b(), "2x8:h100", "pytorch-ddp", global_batch=32, sequence_length=512)
    assert least_nodes(large, 32) is None
    assert not any(is_safe(large.replace(cluster=with_nodes(large.cluster, nodes))) for nodes in (2, 4))


def is_safe(inputs: Inputs) -> bool:
    """Whether a search recommends a plan that is safe."""
    try:
        best = find(inputs, top=1).best
    except InvalidInput:
        return False
    return bool(best) and best[0].verdict == Verdict.SAFE


def test_a_machine_is_filled_in_sizes_that_are_sold_before_there_are_more() -> None:
    clusters = [each.inputs.cluster for each in of_kind("one card", Kind.MORE_ACCELERATORS)]
    assert all(cluster.num_nodes == 1 for cluster in clusters)
    assert {cluster.gpus_per_node for cluster in clusters} <= {2, 4, asked("one card").cluster.accelerator.node_size}


def test_adapters_are_offered_under_a_runtime_that_has_them() -> None:
    """Once, beside attention alone where a model has experts, and not for models for which they are not priced."""
    told = {}
    for model in ("llama-3.1-8b", "gpt-oss-20b", "moonlight-16b-a3b"):
        asked_of = question(read_model(model), "1x1:h100", global_batch=64, precision="bf16")
        told[model] = [each for each in remedies(find(asked_of)) if each.kind == Kind.ADAPTERS]
    (adapted,) = told["llama-3.1-8b"]
    assert adapted.options == ("--runtime accelerate", "--lora-rank 16")
    assert adapted.inputs.runtime.id == "accelerate"
    assert adapted.estimate.verdict == Verdict.SAFE
    (beside_experts,) = told["gpt-oss-20b"]
    assert beside_experts.options[1:] == ("--lora-rank 16", "--lora-modules q_proj,k_proj,v_proj,o_proj")
    assert not told["moonlight-16b-a3b"]


def test_nodes_of_the_usual_machine_are_called_so_where_a_part_of_one_was_asked_for() -> None:
    told = {}
    for cluster in ("1x4:rtx-4090", "2x4:rtx-4090"):
        inputs = question(llama_8b(), cluster, "deepspeed", global_batch=64, precision="bf16")
        told[cluster] = [remedy_words(each) for each in remedies(find(inputs)) if each.kind == Kind.MORE_ACCELERATORS]
    assert told["1x4:rtx-4090"]
    assert all("nodes of 8, the usual machine (" in words for words in told["1x4:rtx-4090"])
    assert told["2x4:rtx-4090"]
    assert all(" nodes (" in words for words in told["2x4:rtx-4090"])


def test_another_form_of_the_logits_comes_before_shorter_sequences_and_these_before_nodes() -> None:
    kinds = [each.kind for each in ways("logits")]
    assert kinds == sorted(kinds, key=[*Kind].index)
    assert {Kind.FEWER_BYTES, Kind.MORE_ACCELERATORS} <= set(kinds)
    assert any(each.options == ("--with cross_entropy=chunked_compiled",) for each in ways("logits"))


def test_the_first_way_alone_stands_in_one_line() -> None:
    message = str(nothing_fits(result("tp 8"), most=1))
    assert "\n" not in message
    first, inputs = ways("tp 8")[0], asked("tp 8")
    host = format_gib(16 * parameter_count(inputs.model))  # fp32 weights, moments and gradients
    assert first.options == ("--with optimizer_states=offloaded",)
    assert f"What would fit: {first.options[0]} ({host} of the memory of each host): tp8" in message


def test_packed_weights_that_are_loaded_in_pieces_are_offered_where_loading_them_whole_is_too_much() -> None:
    job = {"precision": "bf16", "global_batch": 8, "sequence_length": 1024, "lora_rank": 16}
    asked_of = question(read_model("llama-3.1-70b"), "1x4:a100-40gb", "accelerate", **job)
    packed = asked_of.replace(runtime=with_behaviours(asked_of.runtime, ["frozen_weights=nf4"]))
    ways = remedies(find(packed))
    assert [each.options for each in ways if each.kind == Kind.FEWER_BYTES] == [("--with loads_whole=false",)]

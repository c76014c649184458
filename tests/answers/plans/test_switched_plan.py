"""Switched plan: the best plan with exchanges made and hidden the fastest way that the launch can set."""

from __future__ import annotations

import pytest

from commands import asked
from meshwright.answers.plans.switched_plan import switched_entry, switched_lines, switched_plan
from meshwright.answers.plans.switches import WORTH
from meshwright.cost.step import estimate_each
from meshwright.errors import Stopped
from meshwright.search.changes.question_knobs import switches
from meshwright.search.find import find
from meshwright.search.stop import StopSearch
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from strategies import latent, llama_8b, question

QWEN = ("--model", "qwen3-30b-a3b", "--cluster", "4x8:h100", "--seq-len", "4096", "--global-batch", "512")


def with_options(inputs: Inputs, options: tuple[str, ...]) -> Inputs:
    return inputs.replace(runtime=with_behaviours(inputs.runtime, options))


def test_it_is_the_best_plan_of_the_question_that_asks_for_the_switches() -> None:
    told = asked("plan", *QWEN, "--json").document
    switched = told["switched_plan"]
    options = [word for each in switched["options"] for word in ("--with", each)]
    again = asked("plan", *QWEN, *options, "--json").document
    assert again["plans"][0]["plan"] == switched["plan"]
    assert again["plans"][0]["step_time_s"] == pytest.approx(switched["step_time_s"], rel=1e-6)
    assert switched["gain"] == pytest.approx(1 - switched["step_time_s"] / told["plans"][0]["step_time_s"], rel=1e-3)
    assert switched["gain"] >= WORTH
    assert "switched_plan" not in again


def test_the_screen_names_the_options_what_the_launch_sets_and_what_it_needs() -> None:
    screen = " ".join(asked("plan", *QWEN).out.split())
    assert "Faster setup: --with dispatcher=fused" in screen
    assert "--moe-token-dispatcher-type flex" in screen
    assert "--overlap-moe-expert-parallel-comm" in screen
    assert "It needs DeepEP installed on every node." in screen


@pytest.mark.parametrize("cluster", ["2x8:v100", "2x8:l40s", "2x8:mi300x", "2x8:a100-40gb"])
def test_a_fused_dispatcher_is_named_only_where_it_runs(cluster: str) -> None:
    inputs = question(latent(), cluster, global_batch=64, precision="fp16" if "v100" in cluster else "bf16")
    switched = switched_plan(find(inputs))
    assert not switched or not any("dispatcher" in each for each in switched.options)
    changes = [str(each.change) for knob, each_way in switches(inputs) if knob == "dispatcher" for each in each_way]
    assert not any("fused" in each for each in changes)


@pytest.mark.parametrize(("runtime", "flag"), [("deepspeed", "offload_optimizer"), ("megatron-core", "cpu-offload")])
def test_states_on_the_host_are_offered_back_where_a_plan_then_fits(runtime: str, flag: str) -> None:
    """Another plan may be the best then: the states take memory that this one needs."""
    usual = question(llama_8b(), "1x8:h100", runtime, sequence_length=4096, global_batch=64)
    result = find(with_options(usual, ("optimizer_states=offloaded",)))
    switched = switched_plan(result)
    assert switched
    assert switched.options == ("optimizer_states=fp32",)
    assert flag in switched.flag
    assert switched.flag.startswith("without")
    assert switched.estimate.plan == find(usual).best[0].plan
    assert switched.estimate.step_time_s < result.best[0].step_time_s


def test_states_on_the_host_stay_where_nothing_fits_without() -> None:
    inputs = question(llama_8b(), "1x2:h100", "deepspeed", sequence_length=4096, global_batch=64)
    assert switched_plan(find(with_options(inputs, ("optimizer_states=offloaded",)))) is None


def test_each_switch_makes_the_step_shorter() -> None:
    inputs = question(latent(), "2x8:h100", global_batch=512)
    switched = switched_plan(find(inputs))
    assert switched
    for left_out in switched.options:
        rest = tuple(each for each in switched.options if each != left_out)
        (without,) = estimate_each([switched.estimate.plan], with_options(inputs, rest) if rest else inputs)
        assert without.step_time_s > switched.estimate.step_time_s


@pytest.mark.parametrize(
    "inputs",
    [
        question(llama_8b(), "1x8:h100", global_batch=64),
        question(latent(), "2x8:h100", "megatron-bridge", global_batch=64),
        question(latent(), "2x8:h100", "deepspeed", global_batch=64),
        with_options(question(latent(), "2x8:h100", global_batch=64), ("dispatcher=all_gather",)),
    ],
    ids=["dense", "all is set", "the launch cannot", "the question names the dispatcher"],
)
def test_nothing_is_said_where_there_is_nothing_to_switch(inputs: Inputs) -> None:
    result = find(inputs)
    assert switched_plan(result) is None
    assert switched_entry(None) == {}
    assert switched_lines(None, result.best[0]) == []


def test_an_overlap_that_the_question_replaces_stays() -> None:
    large = ("qwen3-235b-a22b", "8x8:b200", "--seq-len", "4096", "--global-batch", "512")
    for replaced, options in (((), {"tensor_parallel_overlap=on"}), (("--with", "overlap.tensor_parallel=0.1"), set())):
        switched = asked("plan", *large, *replaced, "--json").document["switched_plan"]
        assert "dispatcher=fused" in switched["options"]
        assert {"tensor_parallel_overlap=on"} & set(switched["options"]) == options


def stops(_done: int, _size: int) -> None:
    raise StopSearch


def test_a_search_that_is_stopped_tells_nothing() -> None:
    with pytest.raises(Stopped):
        switched_plan(find(question(latent(), "2x8:h100", global_batch=64)), stops)

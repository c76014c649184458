"""Check: every rule green or red, and what it accepts is exactly what plan may propose."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from commands import asked
from meshwright.answers.document.terminal import terminal
from meshwright.answers.explain.check import check_document, check_of, check_screen
from meshwright.layout.legality import check, faults, rules_of
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.plan_space.space import space
from meshwright.specs import catalog
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime.capabilities import Enforcement
from strategies import llama_8b, llama_70b, question

ASKED = ["--model", "llama-3.1-70b", "--cluster", "8x8:h100", "--seq-len", "8192", "--global-batch", "256"]


@pytest.mark.parametrize("runtime", catalog.names("runtimes"))
def test_check_accepts_exactly_what_plan_may_propose(runtime: str) -> None:
    """Of every plan of the search, 400 by lot: `check` says of each alone what the search says of all together."""
    inputs = question(llama_8b(), "3x4:h100", runtime, global_batch=48, sequence_length=8192)
    plans = Plans.join(space(inputs))
    chosen = plans.take(np.random.default_rng(0).permutation(len(plans))[:400])
    accepted = [not faults(chosen[row], inputs) for row in range(len(chosen))]
    assert np.array_equal(accepted, check(chosen, inputs).legal)
    assert any(accepted)
    assert not all(accepted)


def test_a_broken_rule_is_red_with_its_reason_and_the_others_are_green() -> None:
    inputs = question(llama_8b(), "1x8:h100", global_batch=16)
    document = check_document(check_of(Plan(tp=3, dp=8, num_microbatches=2), inputs))
    broken = {entry["name"]: entry["reason"] for entry in document["rules"] if not entry["kept"]}
    assert not document["legal"]
    assert {"world_size", "query_heads", "kv_heads", "ffn_size"} == set(broken)
    assert "tp 3" in broken["query_heads"]
    assert all(entry["source"] for entry in document["rules"])


def test_a_legal_plan_is_told_whether_it_fits() -> None:
    small = asked("check", *ASKED, "--tp", "2", "--pp", "1")
    assert small.code == 0
    words = " ".join(small.out.split())
    assert "rules pass out-of-memory: stage 0 needs" in words
    assert words.count("probability of fitting at most 1%") == 1
    inputs = question(llama_70b(), "8x8:h100", global_batch=256, sequence_length=8192)
    document = check_document(check_of(Plan(tp=2, sp=True, dp=32, zero=1, num_microbatches=8), inputs))
    assert document["fit"]["verdict"] == "out-of-memory"
    assert document["fit"]["needed_bytes"] > 3 * document["fit"]["visible_bytes"]
    assert check_document(check_of(Plan(tp=3, dp=8, num_microbatches=2), inputs))["fit"] is None


def test_what_is_not_modelled_is_a_broken_rule_among_the_others() -> None:
    inputs = question(llama_8b(), "1x8:h100", global_batch=16)
    inputs = inputs.replace(runtime=inputs.runtime.replace(zero_stages=(0, 1)))
    document = check_document(check_of(Plan(ep=2, dp=8, zero=3, num_microbatches=2), inputs))
    broken = [entry["name"] for entry in document["rules"] if not entry["kept"]]
    assert {"zero", "experts_present"} == set(broken)
    assert not document["legal"]


def test_the_command_tells_the_shell() -> None:
    legal = asked("check", *ASKED, "--tp", "8", "--pp", "4", "--vpp", "5")
    inputs = question(llama_70b(), "8x8:h100")
    assert legal.code == 0
    assert f"accepts it: all {len(rules_of(inputs))} rules pass" in " ".join(legal.out.split())
    late = asked("check", *ASKED, "--tp", "8", "--pp", "4", "--vpp", "30")
    assert late.code == 2
    assert "nearest vpp: 20" in " ".join(late.out.split())


def _enforced(when: str) -> Enforcement:
    return Enforcement(source="in its arguments", enforced=when)


def test_a_rule_says_when_the_framework_enforces_it() -> None:
    inputs = question(llama_8b(), "1x8:h100", global_batch=16)
    checks = {"kv_heads": _enforced("late"), "sequence_parallel": _enforced("silently")}
    inputs = inputs.replace(runtime=inputs.runtime.replace(checks=checks, rules=()))
    plan = Plan(tp=3, dp=8, num_microbatches=2)
    document = check_document(check_of(plan, inputs))
    when = {entry["name"]: entry["enforced"] for entry in document["rules"]}
    assert (when["query_heads"], when["kv_heads"], when["sequence_parallel"]) == ("at start", "late", "silently")
    shown = _printed(plan, inputs, more=True)
    assert "late: 8 key-value heads are neither a multiple nor a divisor of tp 3" in shown
    assert "silently: in its arguments" in shown
    assert "late: the framework notices only after it has started" in shown
    assert "silently: the framework does something else without a word" in shown
    assert "at start" not in shown


def test_a_launch_is_told_what_it_must_set_but_no_plan_is_illegal_for_it() -> None:
    inputs = question(llama_8b(), "1x8:h100", global_batch=16)
    plan = Plan(tp=8, sp=True, num_microbatches=16)
    document = check_document(check_of(plan, inputs))
    assert document["legal"]
    setting = next(each for each in document["launch"] if each["name"] == "single_connection")
    assert (setting["set"], setting["unset"]) == ({"CUDA_DEVICE_MAX_CONNECTIONS": "1"}, [])
    assert setting["source"]
    assert setting["text"].startswith("CUDA_DEVICE_MAX_CONNECTIONS=1: tp 8")
    shown = _printed(plan, inputs)
    assert "The launch must set - CUDA_DEVICE_MAX_CONNECTIONS=1" in shown
    alone = inputs.replace(runtime=inputs.runtime.replace(launch=""))
    assert "The launch must set" not in _printed(plan, alone)
    assert not check_document(check_of(Plan(tp=8, ep=2, num_microbatches=16), inputs))["launch"], "no legal plan"


def _printed(plan: Plan, inputs: Inputs, more: bool = False) -> str:
    console = Console(width=300, file=io.StringIO(), record=True)
    console.print(terminal(check_screen(check_of(plan, inputs), inputs, more=more)))
    return " ".join(console.export_text().split())


def test_the_command_as_json() -> None:
    assert asked("check", *ASKED, "--tp", "8", "--pp", "2", "--json").document["legal"] is True


def test_what_is_broken_comes_first_then_what_the_launch_must_set_then_how_many_rules_pass() -> None:
    layout = ("--tp", "16", "--pp", "3", "--vpp", "2", "--runtime", "torchtitan")
    marks, more = _marks(asked("check", *ASKED, *layout).out), _marks(asked("check", *ASKED, *layout, "--more").out)
    assert {*marks} == {"broken"}
    assert len(marks) > 1
    assert more == sorted(more)
    assert {*more} == {"broken", "ok"}
    legal = ("--tp", "8", "--pp", "4", "--vpp", "3")
    brief, whole = (asked("check", *ASKED, *legal, *option).out for option in ((), ("--more",)))
    rules = len(rules_of(question(llama_70b(), "8x8:h100")))
    assert brief.splitlines()[-1] == f"{rules} rules pass; --more lists each with where it is enforced."
    assert "The launch must set" in brief
    assert _marks(brief) == []
    assert _marks(whole) == ["ok"] * rules
    assert whole.index("The launch must set") < whole.index("world_size")


def _marks(printed: str) -> list[str]:
    return [words[0] for words in map(str.split, printed.splitlines()) if words and words[0] in ("ok", "broken")]

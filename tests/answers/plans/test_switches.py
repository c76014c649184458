"""Switches: the behaviour to replace first, as `plan` tells it."""

from __future__ import annotations

import re
from operator import attrgetter

import pytest

from commands import LLAMA, asked
from meshwright.answers.plans.switches import WORTH, switch_entry, switch_lines, switches_of
from meshwright.cost.step import estimate_each
from meshwright.layout.named import plan_of
from meshwright.specs.behaviours import with_behaviours
from strategies import latent, llama_8b, question

INPUTS = question(latent(), "2x8:h100", global_batch=64)
(ESTIMATE,) = estimate_each([plan_of(INPUTS, ep=16)], INPUTS)


def test_each_switch_is_priced_as_its_own_question_is() -> None:
    gaining = switches_of(ESTIMATE, INPUTS).gaining
    assert {each.knob for each in gaining} >= {"dispatcher"}
    for each in gaining:
        asked_for = INPUTS.replace(runtime=with_behaviours(INPUTS.runtime, [each.option.removeprefix("--with ")]))
        (alone,) = estimate_each([ESTIMATE.plan], asked_for)
        assert alone.step_time_s == each.estimate.step_time_s
        assert each.gain == pytest.approx(1 - alone.step_time_s / ESTIMATE.step_time_s)
        assert each.estimate.verdict <= ESTIMATE.verdict
        assert each.flag.startswith("--")


def test_the_first_gains_most() -> None:
    switches = switches_of(ESTIMATE, INPUTS)
    assert switches.first
    assert switches.first.gain == max(each.gain for each in switches.gaining) >= WORTH
    assert switches.tried >= len(switches.gaining)


def test_what_is_switched_on_is_not_named_again() -> None:
    first = switches_of(ESTIMATE, INPUTS).first
    assert first
    after = switches_of(first.estimate, first.inputs)
    assert first.knob not in {each.knob for each in after.gaining}


def test_nothing_is_said_where_nothing_is_worth_a_run() -> None:
    inputs = question(llama_8b(), "1x2:h100", "nanotron")
    (estimate,) = estimate_each([plan_of(inputs, zero=1)], inputs)
    assert not switch_lines(estimate, inputs)
    assert not switch_entry(estimate, inputs)


def test_the_gain_of_an_overlap_stands_behind_what_it_must_hide() -> None:
    overlaps = [each for each in switches_of(ESTIMATE, INPUTS).gaining if each.knob.startswith("overlap.")]
    assert overlaps
    for each in overlaps:
        hidden = attrgetter(each.knob)(each.inputs.runtime)
        assert each.condition == f"if communication hides behind {hidden:.0%} of the compute beside it, "


def test_plan_tells_it_on_the_screen_and_in_the_file() -> None:
    question = (*LLAMA, "--tp", "2")
    told, screen = asked("plan", *question, "--json").document["switch"], " ".join(asked("plan", *question).out.split())
    assert told["option"] == "--with tensor_parallel_overlap=on"
    assert re.search(rf"Worth trying: {told['option']} \({told['flag']}\); if [^;]*, it makes this plan ", screen)
    again = asked("plan", *question, *told["option"].split(), "--json").document
    assert again["plans"][0]["step_time_s"] <= told["step_time_s"] * (1 + 1e-9)
    assert again.get("switch", {}).get("option") != told["option"]


def test_fused_experts_are_named_with_all_that_a_launch_sets_and_needs() -> None:
    question = (
        "--model",
        "gpt-oss-120b",
        "--cluster",
        "16x4:gb300-nvl72",
        "--seq-len",
        "4096",
        "--global-batch",
        "1280",
    )
    answer = asked("plan", *question, "--precision", "mxfp8", "--runtime", "megatron-bridge")
    said = " ".join(answer.out.split())
    fields = "model.use_transformer_engine_op_fuser True, model.moe_mlp_glu_interleave_size 32"
    told = f"{fields}, NVTE_CUTEDSL_FUSED_GROUPED_MLP=1"
    assert f"Worth trying: --with fused_experts=on ({told}); it makes this plan" in said
    assert "It needs Transformer Engine 2.14 or later installed on every node." in said


@pytest.mark.parametrize(
    ("cluster", "cp", "backend", "library"),
    [
        ("1x8:h200", 1, "varlen", "FlashAttention-3"),
        ("1x8:h200", 8, "flex_flash", "FlashAttention-4"),
        ("1x8:b200", 8, "flex_flash", "FlashAttention-4"),
    ],
)
def test_the_newest_attention_of_torchtitan_needs_the_library_of_its_backend(
    cluster: str, cp: int, backend: str, library: str
) -> None:
    inputs = question(llama_8b(), cluster, "torchtitan", sequence_length=32768, global_batch=8, precision="bf16")
    (estimate,) = estimate_each([plan_of(inputs, cp=cp, zero=3)], inputs)
    (switch,) = (each for each in switches_of(estimate, inputs).gaining if each.knob == "attention")
    assert (switch.flag, switch.library) == (f"model_spec.attn_backend {backend}", library)

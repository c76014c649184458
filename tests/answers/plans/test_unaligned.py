"""Sizes that are not aligned: named with what they cost, and padded as a change, by check, plan and explain."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from commands import asked
from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.plan_file import json_schema
from meshwright.answers.plans.unaligned import unaligned_sizes
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.search.changes.padding import paddings
from meshwright.search.changes.sensitivity import sensitivity
from meshwright.specs.inputs import Inputs
from strategies import dense_model, mixture, question

GPT2 = ["--model", "gpt2-xl", "--cluster", "1x1:h100", "--seq-len", "1024", "--global-batch", "4"]
GPT2 += ["--runtime", "pytorch-ddp"]


def _words(text: str) -> str:
    return " ".join(text.split())


def _document(*command: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(asked(*command, *GPT2, "--json").out)
    return document


@pytest.mark.parametrize("command", ["check", "plan", "explain"])
def test_gpt2_is_told_to_pad_its_vocabulary(command: str) -> None:
    (size,) = _document(command)["unaligned"]
    assert (size["field"], size["size"], size["on_rank"], size["padded"]) == ("vocab_size", 50257, 50257, 50304)
    shown = _words(asked(command, *GPT2).out)
    assert size["warning"] in shown
    assert size["change"] in shown
    assert size["warning"].startswith("The vocabulary of 50257 is not a multiple of 8, so slower kernels run on it")
    assert size["change"].startswith("Pad the vocabulary from 50257 to 50304: ")
    assert size["change"].endswith(" MiB more per GPU.")


def test_the_change_is_listed_with_the_others_and_saves_what_the_warning_says() -> None:
    explained = _document("explain")
    (plan,), (size,) = explained["plans"], explained["unaligned"]
    (padded,) = (each for each in plan["knobs"]["changes"] if each["knob"] == "vocab_size")
    assert padded["change"] == "vocab_size 50257 -> 50304"
    assert plan["step_time_s"] - padded["step_time_s"] == pytest.approx(size["cost_s"], rel=1e-3)
    assert size["cost_share"] == pytest.approx(size["cost_s"] / plan["step_time_s"], rel=1e-3)
    jsonschema.Draft202012Validator(json_schema()).validate(explained)


def test_a_model_of_aligned_sizes_is_told_nothing() -> None:
    """Neither is one whose vocabulary the runtime pads itself."""
    for runtime, size in (("pytorch-ddp", 50304), ("megatron-core", 50257)):
        inputs = question(dense_model(vocab_size=size), "1x8:h100", runtime, global_batch=8)
        assert not list(paddings(Plan(dp=8), inputs))
        (estimate,) = estimate_each([Plan(dp=8)], inputs)
        assert unaligned_sizes(estimate, inputs) == ()
        assert not any(each.knob == "vocab_size" for each in sensitivity(estimate, inputs).changes)


def _padded(plan: Plan, inputs: Inputs) -> dict[str, tuple[int, int]]:
    return {each.field: (each.on_rank, each.padded) for each in paddings(plan, inputs)}


def test_every_size_is_looked_at_as_its_rank_sees_it() -> None:
    model = dense_model(heads=16, head_dim=108, hidden_size=1732, ffn_size=11_000, vocab_size=32_064)
    inputs = question(model, "1x8:h100", "torchtitan")
    assert _padded(Plan(), inputs) == {"hidden_size": (1732, 1736), "head_dim": (108, 112)}
    split = {"vocab_size": (4008, 32_064)} | _padded(Plan(tp=8), inputs)
    assert split == {
        "vocab_size": (4008, 32_064),
        "hidden_size": (1732, 1736),
        "head_dim": (108, 112),
        "ffn_size": (1375, 11_008),
    }
    on_a100 = _padded(Plan(tp=8), question(model, "1x8:a100", "torchtitan"))
    assert on_a100["ffn_size"] == (1375, 11_264), "64 elements on each of 8 ranks"
    assert on_a100["vocab_size"] == (4008, 32_256)


def test_padding_makes_every_size_aligned() -> None:
    model = dense_model(heads=16, head_dim=108, hidden_size=1732, ffn_size=11_001, vocab_size=32_001)
    for runtime, accelerator, tp in (("torchtitan", "h100", 4), ("pytorch-ddp", "a100", 1), ("torchtitan", "l40s", 8)):
        inputs, plan = question(model, f"1x8:{accelerator}", runtime), Plan(tp=tp)
        while offered := list(paddings(plan, inputs)):
            inputs = offered[0].inputs
        assert inputs.model.vocab_size % (8 * tp) == inputs.model.hidden_size % 8 == 0


def test_experts_are_padded_over_their_own_ranks() -> None:
    model = mixture()
    (kind,) = model.layer_kinds
    odd = kind.replace(feed_forward=kind.feed_forward.replace(ffn_size=1404, shared_ffn_size=1402))
    inputs = question(model.replace(layer_kinds=(odd,)), "1x8:h100")
    assert _padded(Plan(tp=2, ep=2), inputs) == {
        "experts.ffn_size": (1404, 1408),
        "experts.shared_ffn_size": (701, 1408),
    }


def test_what_is_assumed_is_said() -> None:
    inputs = question(dense_model(vocab_size=50257), "1x8:b200", "torchtitan", global_batch=8)
    (estimate,) = estimate_each([Plan(dp=8)], inputs)
    (size,) = unaligned_sizes(estimate, inputs)
    assert size.source.startswith("assumed: as measured on H100")
    assert size.warning.endswith("(assumed here).")


def test_heads_that_no_fused_attention_takes_keep_their_scores() -> None:
    narrow, wide = (
        question(dense_model(heads=32, head_dim=head), "1x8:a100", global_batch=64, sequence_length=8192)
        for head in (100, 104)
    )
    plan = Plan(dp=8, zero=1, num_microbatches=8)
    unfused, fused = (estimate_each([plan], each)[0] for each in (narrow, wide))
    scores = 2 * 32 * 8192**2 * narrow.model.num_layers
    assert unfused.memory.activations - fused.memory.activations > 0.9 * scores
    (head,) = (each for each in unaligned_sizes(unfused, narrow) if each.padding.field == "head_dim")
    assert head.unfused
    assert "no fused attention takes it" in head.warning
    assert head.change.endswith(" GiB less per GPU.")
    assert any("no fused kernel takes heads of 100 elements" in each for each in assumptions(narrow))
    assert not any("no fused kernel" in each for each in assumptions(wide))


@pytest.mark.parametrize(
    ("accelerator", "head", "runtime", "fused"),
    [
        ("a100", 128, "megatron-core", True),
        ("a100", 100, "megatron-core", False),
        ("a100", 256, "megatron-core", True),
        ("l40s", 256, "megatron-core", False),
        ("rtx-4090", 256, "megatron-bridge", False),
        ("l40s", 192, "megatron-core", True),
        ("h100", 264, "megatron-core", False),
        ("v100", 128, "megatron-core", False),
        ("a100", 100, "accelerate", True),
        ("l40s", 256, "torchtitan", True),
        ("a100", 100, "nanotron", True),
    ],
)
def test_fused_attention_takes_the_heads_that_its_libraries_take(
    accelerator: str, head: int, runtime: str, fused: bool
) -> None:
    precision = "fp16" if accelerator == "v100" else "bf16"
    inputs = question(dense_model(head_dim=head), f"1x8:{accelerator}", runtime, global_batch=8, precision=precision)
    assert (inputs.attention_generation != "eager") == fused

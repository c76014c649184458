"""Refusals of launch files: what a framework cannot run, in the words of the field."""

from __future__ import annotations

import pytest

from meshwright.launch.fields import normal_fields
from meshwright.launch.refusals import refusal, refusals
from meshwright.launch.table import launch_table
from meshwright.layout.plan import Plan
from meshwright.specs.examples import LLAMA


@pytest.mark.parametrize(
    ("name", "ran", "wanted", "said"),
    [
        ("model.norms", 2, 4, "4 norms a layer, and would run 2"),
        ("model.query_rank", None, 1536, "query rank 1536 of latent attention, and would run none"),
        ("model.qkv_bias", False, True, "biases of queries, keys and values, and would run without"),
        ("job.expert_capacity", None, 1.25, "an expert capacity of 1.25, and its experts would take all their tokens"),
        ("job.expert_capacity", 1.0, None, "experts that take all their tokens, and would drop those above a capacity"),
        ("model.not_named_yet", 1, 2, "not named yet 2, and would run 1"),
        ("plan.chunk_layers", (40, 40), (1,) * 80, "1, ... layers, and would run 40, 40"),
    ],
)
def test_a_refusal_says_the_value_in_the_words_of_the_field(name: str, ran: object, wanted: object, said: str) -> None:
    assert said in str(refusal(name, ran, wanted))


def test_a_part_that_cannot_be_left_out_is_named() -> None:
    assert refusal("model.bias", True, False).what == "it has no setting to run without biases of feed-forward blocks"


def test_a_gate_and_its_activation_are_one_refusal() -> None:
    wanted = {"model.gated": True, "model.activation": "gelu"}
    ran = {"model.gated": False, "model.activation": "gelu"}
    for names in (["model.gated"], ["model.activation", "model.gated"]):
        (fault,) = refusals(names, ran, wanted, launch_table("megatron-lm"))
        assert str(fault) == (
            "model: it has no setting for feed-forward blocks with gated GELU, and would run GELU without a gate"
        )


def test_no_field_of_a_plan_goes_by_its_internal_name() -> None:
    fields = normal_fields(Plan(tp=8, sp=True, dp=8, zero=1, num_microbatches=32), LLAMA)
    for name in fields:
        assert "_" not in str(refusal(name, "one", "other")), name

"""Check: every rule green or red, and what it accepts is exactly what plan may propose."""

from __future__ import annotations

import numpy as np
import pytest

from commands import asked
from meshwright.answers.check_table import check_document, is_legal
from meshwright.layout.legality import check
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.space import space
from strategies import gpt_like, llama_8b, question

ASKED = ["--model", "llama-3.1-70b", "--cluster", "8x8:h100", "--seq-len", "8192", "--global-batch", "256"]


@pytest.mark.parametrize(
    ("model", "cluster", "runtime"),
    [(llama_8b(), "1x8:h100", "megatron-core"), (gpt_like(), "3x8:v100", "megatron-lm")],
)
def test_check_accepts_exactly_what_plan_may_propose(model, cluster, runtime) -> None:  # type: ignore[no-untyped-def]
    inputs = question(model, cluster, runtime, global_batch=48, sequence_length=1024)
    plans = Plans.join(space(inputs))
    accepted = [is_legal(plans[row], inputs) for row in range(len(plans))]
    assert np.array_equal(accepted, check(plans, inputs).legal)
    assert any(accepted)
    assert not all(accepted)


def test_a_broken_rule_is_red_with_its_reason_and_the_others_are_green() -> None:
    inputs = question(llama_8b(), "1x8:h100", global_batch=16)
    document = check_document(Plan(tp=3, dp=8, num_microbatches=2), inputs)
    broken = {entry["name"]: entry["reason"] for entry in document["rules"] if not entry["kept"]}
    assert not document["legal"]
    assert {"world_size", "query_heads", "kv_heads", "ffn_size"} == set(broken)
    assert "tp 3" in broken["query_heads"]
    assert all(entry["source"] for entry in document["rules"])


def test_what_is_not_modelled_is_named_instead_of_the_rules() -> None:
    inputs = question(llama_8b(), "1x8:h100", global_batch=16)
    document = check_document(Plan(cp=2, dp=4, zero=3, num_microbatches=4), inputs)
    assert [entry["name"] for entry in document["rules"]] == ["cp", "zero"]
    assert not document["legal"]


def test_the_command_tells_the_shell() -> None:
    legal = asked("check", *ASKED, "--tp", "8", "--pp", "4", "--vpp", "5")
    assert legal.code == 0
    assert "accepts it: 12 rules kept" in legal.out
    late = asked("check", *ASKED, "--tp", "8", "--pp", "4", "--vpp", "3")
    assert late.code == 2
    assert "nearest vpp: 2 or 4" in " ".join(late.out.split())


def test_the_command_as_json() -> None:
    assert asked("check", *ASKED, "--tp", "8", "--pp", "2", "--json").document["legal"] is True

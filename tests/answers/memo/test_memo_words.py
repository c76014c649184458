"""The memo's words: one figure for one thing, and sentences that also hold for one micro-batch."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest
from memos_asked import recommended

from commands import asked
from meshwright.answers.memo.sections.decision import equal_plans
from meshwright.answers.memo.sections.plan import FLAG

pytestmark = pytest.mark.slow

EXPERTS = (
    *("memo", "qwen3-30b-a3b", "4x8:h100", "--runtime", "torchtitan", "--seq-len", "4096", "--global-batch", "256"),
    *("--tp", "1", "--cp", "1", "--pp", "1", "--ep", "1", "--zero", "3", "--recompute", "full", "--micro-batch", "8"),
)
DENSE = (
    *("memo", "llama-3.1-8b", "1x8:h100", "--runtime", "accelerate", "--seq-len", "4096", "--global-batch", "64"),
    *("--cp", "1"),
)

ALONE = (
    *("memo", "llama-3.2-1b", "1x1:h100", "--runtime", "torchtitan", "--with", "compiled=false"),
    *("--seq-len", "512", "--global-batch", "8"),
)


@cache
def told_of_experts() -> str:
    """As running text."""
    return " ".join(asked(*EXPERTS).out.split())


def test_states_are_one_figure_whenever_memory_is_highest() -> None:
    told = told_of_experts()
    (alone,) = re.findall(r"optimizer states of \S+ alone take (\S+ GiB)", told)
    assert re.findall(r"divides the work of a step, not the (\S+ GiB) of states", told) == [alone]


def test_one_micro_batch_is_told_as_one() -> None:
    told = told_of_experts()
    assert "The one micro-batch gathers weights before every layer" in told
    assert "leaves each replica 1 micro-batch instead of 2" in told
    assert "1 micro-batches" not in told


def test_experts_of_one_rank_are_not_spread() -> None:
    told = told_of_experts()
    assert "the experts of a layer stay together" in told
    assert "spread over 1 rank" not in told


def test_one_accelerator_is_told_of_no_shards_and_of_what_was_replaced() -> None:
    told = " ".join(asked(*ALONE).out.split())
    assert "a step; bf16; torchtitan with compiled false ## Recommendation" in told
    assert "One replica takes the whole batch; it works through" in told
    assert "- runtime: torchtitan with compiled false" in told
    assert "One launch switch could be set differently; it makes the step no shorter." in told


def test_a_published_layout_that_is_slower_leaves_other_plans_to_tell_of() -> None:
    told = asked(*DENSE).out
    assert "is split as a published run of Llama-3-8B" in told
    assert "no other plan" not in told
    memo = recommended("experts")
    count, published = equal_plans(replace(memo, search=replace(memo.search, equal=1))) or ("", "")
    assert count == "none as fast"
    assert "is split as the fastest published run of this job" in published


@pytest.mark.parametrize(
    ("said", "marked"),
    [
        ("ddp.grad_reduce_in_fp32 False", "`ddp.grad_reduce_in_fp32` False"),
        ("no comm_overlap.overlap_p2p_comm = False", "no `comm_overlap.overlap_p2p_comm` = False"),
        ("--recompute-modules moe_act", "`--recompute-modules` moe_act"),
    ],
)
def test_names_of_settings_are_marked_whole(said: str, marked: str) -> None:
    assert FLAG.sub(r"`\1`", said) == marked

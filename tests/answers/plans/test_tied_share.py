"""Where plans count as equal up to more than the usual share, it is told why one is preferred."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from commands import asked
from meshwright.answers.pace import pace
from meshwright.answers.plans import ties
from meshwright.answers.plans.ties import fastest_lines, preferred_words, tie_lines, tied_share
from meshwright.search.find import SearchResult, find
from meshwright.search.ranking.ties import share_of_layouts, share_of_ties
from meshwright.specs.inputs import Inputs
from strategies import llama_8b, mixture, question

DENSE = question(llama_8b(), "2x8:h100", global_batch=64, sequence_length=8192)
EXPERTS = question(mixture(), "2x8:h100", global_batch=64)
PREFERRED = "Preferred"


def _slower(result: SearchResult, share: float, published: bool, patch: pytest.MonkeyPatch) -> SearchResult:
    """A result whose recommended plan takes so much longer than the fastest one, which is or is not published."""
    slow, *_ = (each for each in (*result.best, *result.other_splits) if result.fastest and each != result.fastest)
    patch.setattr(ties, "rank_time_s", lambda estimate: 1 + share * (estimate is slow))
    patch.setattr(ties, "is_unbeaten", lambda *_: np.array([published]))
    return replace(result, best=(slow,), equal=7)


@pytest.mark.parametrize(
    ("inputs", "longer", "published", "why"),
    [
        (DENSE, 0.5 * share_of_ties(DENSE), True, ""),
        (DENSE, 0.0, False, ""),
        (DENSE, 0.5 * share_of_ties(DENSE), False, PREFERRED),
        (DENSE, 1.1 * share_of_ties(DENSE, published=False), False, PREFERRED),
        (EXPERTS, 0.5 * share_of_ties(EXPERTS), True, ""),
        (EXPERTS, 0.5 * share_of_ties(EXPERTS, published=False), False, PREFERRED),
        (EXPERTS, 1.5 * share_of_ties(EXPERTS), True, PREFERRED),
        (EXPERTS, 0.99 * share_of_layouts(EXPERTS), True, PREFERRED),
    ],
)
def test_what_predictions_can_tell_is_not_said_to_be_closer_than_they_can(
    inputs: Inputs, longer: float, published: bool, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = _slower(find(inputs), longer, published, monkeypatch)
    usual = share_of_ties(result.inputs)
    assert (tied_share(result) > usual) == bool(why)
    assert preferred_words(result).startswith(why)
    line, *_ = tie_lines(result)
    assert line.startswith(why or f"7 plans are within {tied_share(result):.1%} of the fastest, closer ")
    assert all("closer than" not in each for each in (line, *fastest_lines(result))) == bool(why)


def test_a_plan_that_was_run_is_said_to_be_preferred_for_that() -> None:
    """Llama 3.1 8B on 16 H100: 6.3 % slower than a plan of a kind that no published run has."""
    result = find(question(llama_8b(), "2x8:h100", global_batch=512, sequence_length=8192))
    assert result.fastest
    told, fastest = tie_lines(result)
    assert told.startswith("Preferred because plans like it have been run: this plan stays within what ")
    share = tied_share(result)
    assert told.endswith(f"must be predicted to be over {share / (1 + share):.1%} faster.")
    assert fastest == f"Predicted fastest: {result.fastest.plan}, {pace(result.fastest, result.best[0])}."


def test_options_of_a_published_run_are_the_switches_that_people_know() -> None:
    options = ("--seq-len", "4k", "--global-batch", "128", "--runtime", "megatron-bridge")
    told = " ".join(asked("plan", "qwen3-8b", "2x8:h100", *options).out.split())
    assert "--with activation_fusion=off --with rope_fusion=off --with binds_ranks=false." in told


def test_the_memory_of_a_published_run_stands_beside_its_time() -> None:
    told = " ".join(asked("plan", "llama-3.1-8b", "1x8:h100", "--global-batch", "512", "--more").out.split())
    assert re.search(r"; flagperf-002\)\. It held 71\.0 GiB of device memory \(predicted [\d.]+ GiB\)\. ", told)


def test_behaviours_of_a_published_run_that_nobody_would_type_are_counted() -> None:
    options = ("--seq-len", "8k", "--global-batch", "256", "--runtime", "torchtitan")
    told = " ".join(asked("plan", "llama-3.1-70b", "8x8:h100", *options).out.split())
    assert re.search(r"recompute-full and --runtime torchtitan@0\.2\.2 and \d\d behaviours of its own\.", told)

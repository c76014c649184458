"""The share up to which plans count as equal is explained where it is not the usual one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.answers.plans import ties
from meshwright.answers.plans.ties import tie_lines, tied_share, wider_words
from meshwright.search.find import SearchResult, find
from meshwright.search.ranking.ties import share_of_layouts, share_of_ties
from meshwright.specs.inputs import Inputs
from strategies import llama_8b, mixture, question

DENSE = question(llama_8b(), "2x8:h100", global_batch=64, sequence_length=8192)
EXPERTS = question(mixture(), "2x8:h100", global_batch=64)
UNTESTED = "no published run is of the fastest plan's kind"
PUBLISHED = "this one is split as a published run"


def _slower(result: SearchResult, share: float, published: bool, patch: pytest.MonkeyPatch) -> SearchResult:
    """A result whose recommended plan takes so much longer than the fastest one, which is or is not published."""
    slow, *_ = (each for each in (*result.best, *result.other_splits) if result.fastest and each != result.fastest)
    patch.setattr(ties, "rank_time_s", lambda estimate: 1 + share * (estimate is slow))
    patch.setattr(ties, "is_published", lambda *_: np.array([published]))
    return replace(result, best=(slow,), equal=7)


@pytest.mark.parametrize(
    ("inputs", "longer", "published", "why"),
    [
        (DENSE, 0.5 * share_of_ties(DENSE), True, ""),
        (DENSE, 0.0, False, ""),
        (DENSE, 0.5 * share_of_ties(DENSE), False, UNTESTED),
        (DENSE, 1.1 * share_of_ties(DENSE, published=False), False, UNTESTED),
        (EXPERTS, 0.5 * share_of_ties(EXPERTS), True, ""),
        (EXPERTS, 0.5 * share_of_ties(EXPERTS, published=False), False, UNTESTED),
        (EXPERTS, 1.5 * share_of_ties(EXPERTS), True, PUBLISHED),
        (EXPERTS, 0.99 * share_of_layouts(EXPERTS), True, PUBLISHED),
    ],
)
def test_a_share_that_is_not_the_usual_one_is_explained(
    inputs: Inputs, longer: float, published: bool, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = _slower(find(inputs), longer, published, monkeypatch)
    usual = share_of_ties(result.inputs)
    assert wider_words(result) == (f" (wider than the usual {usual:.1%}, as {why})" if why else "")
    assert (tied_share(result) > usual) == bool(why)
    line, *_ = tie_lines(result)
    assert line.startswith(f"7 plans are within {tied_share(result):.1%} of the fastest{wider_words(result)}, closer ")

"""Runners-up of the memo: why each lost, in whole words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from meshwright.answers.memo.memo import Memo
from meshwright.answers.memo.sections.plan import reason_lost
from meshwright.cost.memory.fit import Verdict
from meshwright.search.find import find
from strategies import llama_70b, question


def test_a_reason_ends_with_what_it_says_of_memory() -> None:
    found = find(question(llama_70b(), "3x8:h100", global_batch=100, sequence_length=8192))
    target = cast("Memo", SimpleNamespace(best=found.best[0], inputs=found.inputs))
    risky = [each for each in found.other_splits if each.verdict == Verdict.AT_RISK]
    assert risky
    for each in risky:
        reason = reason_lost(each, target)
        assert reason.split("; no published")[0].endswith(f"probability of fitting {each.fit.probability:.0%})")
    for each in found.best[2:]:
        assert reason_lost(each, target).count(", ") <= 1, "two parts of the step"

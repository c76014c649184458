"""Unproven coverage: runs of kinds that no other source has, in intervals that rest on the others."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from meshwright.validation.fit.unproven import unproven_coverage
from meshwright.validation.outcomes import Outcome
from tables import outcome

KNOWN = (0.0, 0.02, -0.02)


def ran(source: str, log_error: float, zero: int = 1) -> Outcome:
    """A run of a source whose ln(measured / predicted) is this."""
    made = outcome((math.exp(log_error), 1.0), dataset=source)
    assert made.case
    return replace(made, case=made.case._replace(plan=replace(made.case.plan, zero=zero)))


def test_only_runs_of_kinds_that_no_other_source_has_count() -> None:
    """Of three runs with ZeRO 2, which one source alone has, one lies far outside."""
    proven = [ran(source, error) for source in "abc" for error in KNOWN]
    unproven = [ran("a", error, zero=2) for error in (0.0, 0.01, 0.9)]
    found = unproven_coverage([*proven, *unproven])
    assert (found.n, found.sources) == (3, 1)
    assert found.inside == pytest.approx(2 / 3)


def test_a_kind_that_two_sources_have_is_proven() -> None:
    runs = [ran(source, error, zero=2) for source in "ab" for error in KNOWN]
    more = [ran("c", error, zero=3) for error in KNOWN]
    assert unproven_coverage([*runs, *more]).n == len(KNOWN)

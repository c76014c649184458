"""Plan kinds: how far apart errors of kinds of plans lie, by hand from small tables."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import StatisticsError

import pytest

from meshwright.validation.fit.plan_kinds import plan_kind_difference
from meshwright.validation.outcomes import Outcome
from tables import outcome


def ran(source: str, log_error: float, **plan: object) -> Outcome:
    """A run of a source whose ln(measured / predicted) is this; plan: fields in which its plan differs."""
    made = outcome((math.exp(log_error), 1.0), dataset=source)
    assert made.case
    return replace(made, case=made.case._replace(plan=replace(made.case.plan, **plan)))


ONE = [ran("one", 0.00), ran("one", 0.02, micro_batch=2), ran("one", 0.04, zero=2), ran("one", 0.10, zero=2)]
"""Means 0.01 and 0.07."""
OTHER = [ran("other", -0.5), ran("other", -0.5), ran("other", -0.48, zero=3), ran("other", -0.48, zero=3)]
"""However far both lie from what is predicted."""
THIRD = [ran("third", 0.0), ran("third", 0.0), ran("third", 0.03, zero=2), ran("third", 0.03, zero=2)]


def test_it_is_the_median_over_sources_of_how_far_means_of_kinds_lie_apart() -> None:
    assert [plan_kind_difference(each) for each in (ONE, OTHER, THIRD)] == pytest.approx([0.06, 0.02, 0.03])
    assert plan_kind_difference([*ONE, *OTHER, *THIRD]) == pytest.approx(0.03)
    assert plan_kind_difference([*THIRD, *OTHER, *ONE[::-1]]) == plan_kind_difference([*ONE, *OTHER, *THIRD])


def test_of_several_kinds_a_source_counts_the_median_of_its_pairs() -> None:
    """Means 0.01, 0.07 and 0.21, which lie 0.06, 0.14 and 0.2 apart."""
    assert plan_kind_difference([*ONE, *[ran("one", 0.21, zero=3)] * 2]) == pytest.approx(0.14)


def test_a_single_run_and_what_its_source_doubts_are_no_kind() -> None:
    noisy = [ran("one", 0.9, zero=3)]
    doubted = [replace(ran("one", 0.9, zero=3), configuration=outcome(dataset="one", quality="slow").configuration)] * 2
    assert plan_kind_difference([*ONE, *noisy, *doubted]) == plan_kind_difference(ONE)


def test_a_degree_that_does_not_decide_whether_a_plan_is_proven_makes_no_kind() -> None:
    with pytest.raises(StatisticsError):
        plan_kind_difference(
            [ran("one", 0.0), ran("one", 0.0), ran("one", 0.3, micro_batch=2), ran("one", 0.3, micro_batch=2)]
        )

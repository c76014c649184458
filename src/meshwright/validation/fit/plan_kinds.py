"""Plan kinds: how far the errors of published runs lie apart whose plans are of different kinds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations
from statistics import fmean, median

from meshwright.layout.plans import Plans
from meshwright.search.published.kinds import kinds
from meshwright.specs.residuals import Likeness
from meshwright.validation.fit.residuals import step_time_residuals
from meshwright.validation.outcomes import Outcome
from meshwright.validation.rows.reading import Case

FEWEST = 2
"""Runs of one kind that have a mean."""


def plan_kind_difference(outcomes: Iterable[Outcome]) -> float:
    """How far the mean errors of two kinds of plans lie apart: median over sources of median |m_a - m_b|, a share.

    m_k is the mean of ln(measured / predicted) over the runs of one source that are alike (`Likeness`) and whose plans
    are of kind k; the pairs (a, b) are all those of a source within like runs. A kind is the set of those that decide
    whether a plan is proven (`kinds`); of fewer than two runs it has no mean. What like runs of one kind differ by is
    not taken off, so that the share is rather too large than too small. Raises `StatisticsError` where no source has
    two kinds.
    """
    differences: dict[str, list[float]] = defaultdict(list)
    for (source, _), of_kinds in _errors(outcomes).items():
        means = [fmean(errors) for errors in of_kinds.values() if len(errors) >= FEWEST]
        differences[source] += (abs(one - other) for one, other in combinations(means, 2))
    return round(median(median(each) for each in differences.values() if each), 4)


def _errors(outcomes: Iterable[Outcome]) -> dict[tuple[str, Likeness], dict[frozenset[str], list[float]]]:
    """ln(measured / predicted) of sound runs by source and likeness, and by the kind of their plans."""
    errors: dict[tuple[str, Likeness], dict[frozenset[str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in outcomes:
        for run in step_time_residuals([each]):
            if each.case:
                errors[run.source, run.like][_kind(each.case)].append(run.log_ratio)
    return errors


def _kind(case: Case) -> frozenset[str]:
    return frozenset(name for name, is_of in kinds(Plans.of([case.plan]), case.inputs).items() if is_of.item())

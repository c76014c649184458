"""Unproven: how many runs lie in the interval of a kind of plan that no run of another source has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from meshwright.layout.plans import Plans
from meshwright.search.published.extents import Extent, extent_for, generation, joined_extents
from meshwright.search.published.runs import PublishedRun, extents_of
from meshwright.search.published.untested import goes_beyond
from meshwright.specs.predictive import of_a_new_source, of_an_unproven_kind, widening
from meshwright.validation.fit.residuals import Coverage, counted, residuals_of, step_time_residuals
from meshwright.validation.outcomes import Outcome
from meshwright.validation.rows.reading import Case


def unproven_coverage(outcomes: Sequence[Outcome]) -> Coverage:
    """How many runs whose kind of plan no other source has lie in the interval that the runs of the other sources give
    an unproven plan (`of_an_unproven_kind`).

    outcomes: as `leave_one_source_out` returns them.
    """
    runs = [(run, each.case) for each in outcomes for run in step_time_residuals([each]) if each.case]
    sources = sorted({run.source for run, _ in runs})
    extents = {name: _extents([case for run, case in runs if run.source == name]) for name in sources}
    inside: dict[str, list[bool]] = defaultdict(list)
    for source in sources:
        others = joined_extents(each for name, each in extents.items() if name != source)
        known = residuals_of([run for run, _ in runs if run.source != source], off_zero=True)
        for run, case in runs:
            if run.source == source and _goes_beyond(case, others):
                error = of_a_new_source(run.like, known).widened(widening(run.waiting, known.waiting))
                low, high = of_an_unproven_kind(error).eight_of_ten
                inside[source].append(bool(low <= np.exp(run.log_ratio) <= high))
    return counted(inside)


def _extents(cases: Sequence[Case]) -> dict[int, Extent]:
    return extents_of(PublishedRun(case.plan, case.inputs, None) for case in cases)


def _goes_beyond(case: Case, extents: dict[int, Extent]) -> bool:
    known = extent_for(generation(case.inputs), extents)
    return bool(goes_beyond(Plans.of([case.plan]), case.inputs, known).item())

"""Published layouts: which plans are split as the fastest published run of a job of the model, and what it took."""

from __future__ import annotations

import operator
from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.published.options import options_of
from meshwright.search.published.runs import LAYOUT, Layout, degrees_of, published_plans, question_key
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs


class FastestRun(NamedTuple):
    """The fastest published run of a job."""

    name: str
    """Of its row or recipe."""
    step_time_s: float
    """As it was measured."""
    predicted_s: float | None
    """What is predicted for it with its own settings."""
    plan: str
    """Its plan, by name."""
    options: tuple[str, ...]
    """What it had that the question does not have, as options of commands."""


def has_published_layout(plans: Plans, inputs: Inputs) -> BoolColumn:
    """Whether the fastest published run of this job was split as each plan is, shape (n,); of the same model in the
    family of runtimes, as precise and on as many of the same accelerators. Where none is of this batch, those of
    others with sequences as long count that no other batch has shown to be slower.
    """
    return _of_layouts(plans, _layouts_for(inputs))


def is_known_to_work(plans: Plans, inputs: Inputs) -> BoolColumn:
    """Whether each plan is split so, and recomputes whole layers only where the run did, shape (n,)."""
    layouts = _layouts_for(inputs)
    recomputing = [each for each in layouts if each.recomputes_all]
    partly = _of_layouts(plans, layouts) & (plans.recompute < Recompute.FULL)
    known: BoolColumn = partly | _of_layouts(plans, recomputing)
    return known


def _of_layouts(plans: Plans, layouts: list[Layout]) -> BoolColumn:
    found = np.zeros(len(plans), dtype=bool)
    for layout in layouts:
        columns = [getattr(plans, name) == value for name, value in zip(LAYOUT, layout.degrees, strict=True)]
        found |= np.all(columns, axis=0)
    return found


def _layouts_for(inputs: Inputs) -> list[Layout]:
    asked, job = (*question_key(inputs), inputs.job.sequence_length), inputs.job
    keys = operator.attrgetter("model", "family", "accelerator", "accelerators", "bits", "sequence_length")
    alike = [each for each in published_plans().layouts if keys(each) == asked]
    of_job = [each for each in alike if each.global_batch == job.global_batch]
    return of_job or [each for each in alike if not each.beaten]


def fastest_run_of(plan: Plan, inputs: Inputs) -> FastestRun | None:
    """The fastest published run of this very job, where it was split as a plan; None where no run was, or no time is
    printed.
    """
    degrees = degrees_of(plan)
    of_job = [each for each in _layouts_for(inputs) if each.global_batch == inputs.job.global_batch]
    for each in of_job:
        if each.degrees == degrees and each.step_time_s:
            asked = options_of(inputs)
            own = tuple(option for option in each.options if option not in asked)
            return FastestRun(
                name=each.run, step_time_s=each.step_time_s, predicted_s=each.predicted_s, plan=each.plan, options=own
            )
    return None

"""Published layouts: which plans are split as the fastest published run of a job of the model, and what it took."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.published.options import options_of
from meshwright.search.published.runs import LAYOUT, HeldMemory, Layout, degrees_of, published_plans, question_key
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs


class FastestRun(NamedTuple):
    """The fastest published run of a model and layout."""

    name: str
    """Of its row or recipe."""
    model: str
    """As it called its model."""
    global_batch: int
    step_time_s: float
    """As it was measured."""
    predicted_s: float | None
    """What is predicted for it with its own settings."""
    memory: HeldMemory | None
    """None where it is not printed."""
    plan: str
    """Its plan, by name."""
    options: tuple[str, ...]
    """What it had that the question does not have, as options of commands."""


def has_published_layout(plans: Plans, inputs: Inputs) -> BoolColumn:
    """Whether the fastest published run of this job was split as each plan is, shape (n,); of the same model in the
    family of runtimes, as precise, on as many of the same accelerators, with all weights trained or adapters alone.
    Where none is of this batch, those of others with sequences as long count that no batch has shown to be slower.
    """
    return _of_layouts(plans, _layouts_for(inputs))


def is_known_to_work(plans: Plans, inputs: Inputs) -> BoolColumn:
    """Whether each plan is split so, or as those of another precision, and recomputes whole layers or spells out the
    layers of chunks only where the run did, the latter also where stages are not equal; shape (n,). Fewer chunks a rank
    work where more did, and may be as good for another job.
    """
    known = np.zeros(len(plans), dtype=bool)
    spells = (plans.chunk_layers > 0) & has_equal_stages(plans, inputs)
    whole = plans.recompute == Recompute.FULL
    for each in itertools.chain(*_by_precision(inputs)):
        allowed = (each.recomputes_all | ~whole) & (each.spells_chunks | ~spells)
        of_job = each.global_batch == inputs.job.global_batch and each.bits == question_key(inputs)[-1]
        known |= _of_layouts(plans, [each], fewer_chunks=not of_job) & allowed
    return known


def has_equal_stages(plans: Plans, inputs: Inputs) -> BoolColumn:
    """Whether pp divides the layers of the model, alone or with both ends as layers, shape (n,)."""
    layers = inputs.model.num_layers
    with_ends = ((layers + 2) % plans.pp == 0) & (True in inputs.runtime.plans.ends_as_layers)
    equal: BoolColumn = (layers % plans.pp == 0) | with_ends
    return equal


def _of_layouts(plans: Plans, layouts: list[Layout], *, fewer_chunks: bool = False) -> BoolColumn:
    """Whether each plan is split as one of these, with fewer_chunks also in fewer chunks a rank, shape (n,)."""
    found = np.zeros(len(plans), dtype=bool)
    for layout in layouts:
        degrees = dict(zip(LAYOUT, layout.degrees, strict=True))
        chunks = degrees.pop("vpp")
        columns = [getattr(plans, name) == value for name, value in degrees.items()]
        columns.append(plans.vpp <= chunks if fewer_chunks else plans.vpp == chunks)
        found |= np.all(columns, axis=0)
    return found


def is_split_in_another_precision(plan: Plan, inputs: Inputs) -> bool:
    """Whether a published run of the model in another precision was split as a plan."""
    return bool(_of_layouts(Plans.of([plan]), _by_precision(inputs)[1]).item())


def _layouts_for(inputs: Inputs) -> list[Layout]:
    return _by_precision(inputs)[0]


def _by_precision(inputs: Inputs) -> tuple[list[Layout], list[Layout]]:
    """Those of the question's precision that count for it, and those of others that none was measured to beat."""
    model, family, accelerator, accelerators, freezes, bits = question_key(inputs)
    question = model, family, accelerator, accelerators, freezes, inputs.job.sequence_length
    alike = published_plans().layouts_by_question.get(question, [])
    as_precise = [each for each in alike if each.bits == bits]
    of_job = [each for each in as_precise if each.global_batch == inputs.job.global_batch]
    unbeaten = [each for each in alike if not each.beaten]
    return of_job or [each for each in unbeaten if each.bits == bits], [each for each in unbeaten if each.bits != bits]


def fastest_run_of(plan: Plan, inputs: Inputs) -> FastestRun | None:
    """The fastest published run of this job that was split as a plan; where none is of this batch, that of the nearest
    one. None where no run was, or no time is printed.
    """
    degrees, batch, asked = degrees_of(plan), inputs.job.global_batch, options_of(inputs)
    alike = [each for each in _layouts_for(inputs) if each.degrees == degrees and each.step_time_s]
    if not alike:
        return None
    ran = min(alike, key=lambda each: abs(math.log(each.global_batch / batch)))
    return FastestRun(
        name=ran.run,
        model=ran.model_name,
        global_batch=ran.global_batch,
        step_time_s=ran.step_time_s or math.nan,
        predicted_s=ran.predicted_s,
        memory=ran.memory,
        plan=ran.plan,
        options=tuple(option for option in ran.options if option not in asked),
    )

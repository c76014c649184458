"""Nearest: the legal plan that differs least from one that is not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields

import numpy as np

from meshwright.arrays import FloatColumn
from meshwright.layout.legality import check
from meshwright.layout.plan import Plan
from meshwright.layout.plans import COLUMNS, Plans, regrouped
from meshwright.search.changes.knobs import plan_knobs
from meshwright.search.plan_space.constrained import CODES, satisfies
from meshwright.search.plan_space.space import parts, tables_of
from meshwright.search.stop import Progress
from meshwright.specs.choices import Recompute
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs

NAMED = 100.0
"""Weight of a field that was asked for; others have 1."""
ORDERED = ("tp", "cp", "pp", "vpp", "ep", "etp", "zero", "micro_batch")
"""Of two other values, the nearer one in ratio counts less."""
TABLE = 1 << 14
"""Plans that are held against the rules at once."""
FOLLOWING = ("num_microbatches", "microbatch_group")
"""Fields that differ because others do."""


def nearest_legal(
    plan: Plan, inputs: Inputs, named: Collection[str] = (), progress: Progress | None = None
) -> Plan | None:
    """Of all legal plans of a question the one that shares most fields with a plan.

    Every single change of the plan is looked at, and the space within what is named, or all of it where that is empty.
    named: fields that keep their value where any legal plan has it; progress: told as by `find`, anew for each space,
    and what it raises is raised. Returns None where no plan is legal.
    """

    def nearest(tables: Iterable[Plans], total: int) -> Iterator[tuple[float, Plan]]:
        done = 0
        for plans in regrouped(tables, TABLE):
            if progress:
                progress(done, total)
            done += len(plans)
            legal = plans.take(check(plans, inputs).legal)
            if len(legal):
                distance = _distance(legal, plan, named)
                row = int(distance.argmin())
                yield float(distance[row]), legal[row]

    def of_space(question: Inputs) -> list[tuple[float, Plan]]:
        known = parts(question)
        return [*nearest(tables_of(known, question), sum(part.size for part in known))]

    changed = [variant.plan for knob in plan_knobs(plan, inputs) for variant in knob.variants]
    axes = [name for name in named if name in Constraints.model_fields]
    named_alone = inputs.replace(constraints=Constraints(**{name: _value(name, plan) for name in axes}))
    within = _with_its_pipeline(plan, named_alone)
    one_change = nearest([Plans.of(changed)], len(changed)) if changed else ()
    known = [*one_change, *(of_space(within) or of_space(_with_its_pipeline(plan, inputs)))]
    return _restored(min(known, key=lambda each: each[0])[1], plan, inputs, named) if known else None


def _with_its_pipeline(plan: Plan, inputs: Inputs) -> Inputs:
    """The question with the stages of a plan beside one, where its runtime's search does not try pipelines unasked."""
    if inputs.runtime.plans.searches_pipelines or inputs.constraints.pp:
        return inputs
    stages = tuple(sorted({1, plan.pp}))
    return inputs.replace(constraints=Constraints(**inputs.constraints.given | {"pp": stages}))


def _restored(near: Plan, plan: Plan, inputs: Inputs, named: Collection[str]) -> Plan:
    """The near plan with every value of the plan that the space does not hold beside its own, and that is legal."""
    for name in (each.name for each in fields(Plan) if each.name not in FOLLOWING):
        tried = near.replace(**{name: getattr(plan, name)})
        closer = (_distance(Plans.of([tried]), plan, named) < _distance(Plans.of([near]), plan, named)).item()
        if closer and check(Plans.of([tried]), inputs).legal.item() and satisfies(tried, inputs):
            near = tried
    return near


def _value(name: str, plan: Plan) -> int | str:
    """A field as constraints take it."""
    if isinstance(getattr(plan, name), bool):
        return bool(getattr(plan, name))
    value = int(getattr(plan, name))
    return next((word for word, code in CODES.get(name, {}).items() if code == value), value)


def _distance(plans: Plans, plan: Plan, named: Collection[str]) -> FloatColumn:
    """How many fields of each plan, shape (n,), differ from those of one plan, and by how much."""
    wanted, distance = Plans.of([plan]), np.zeros(len(plans))
    silent = {
        *FOLLOWING,
        *([] if plan.cp > 1 else ["context_exchange"]),
        *([] if plan.recompute == Recompute.SELECTIVE else ["recompute_modules"]),
    }
    for name in COLUMNS:
        if name == "chunk_layers" or (name in silent and name not in named):
            continue
        there, here = getattr(plans, name), int(getattr(wanted, name)[0])
        weight = NAMED if name in named else 1.0
        distance += weight * (there != here)
        if name in ORDERED:
            distance += 0.1 * weight * np.abs(np.log2((there + 1) / (here + 1)))
    spelled = np.array([sizes != plan.chunk_layers for sizes in plans.chunkings])[plans.chunk_layers]
    total: FloatColumn = distance + np.where(spelled, NAMED if "chunk_layers" in named else 1.0, 0.0)
    return total

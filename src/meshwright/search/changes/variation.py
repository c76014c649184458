"""Variation: a plan and its question with some fields changed, and what follows from that."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.errors import Fault, IllegalPlan
from meshwright.layout.legality import faults, require_counts
from meshwright.layout.plan import Plan
from meshwright.reprs import lines_of
from meshwright.search.changes.changed_plans import changed_plans
from meshwright.search.changes.knobs import Variant
from meshwright.search.changes.nearest import nearest_legal
from meshwright.search.changes.question_knobs import FieldChange
from meshwright.search.changes.sensitivity import SHORT, field_changes
from meshwright.search.plan_space.constrained import keeps
from meshwright.search.stop import Progress
from meshwright.specs.inputs import Inputs

DIVIDED = ("tp", "cp", "pp")
"""Degrees that leave the rest of the ranks to dp."""


@dataclass(frozen=True)
class Variation:
    """One plan, changed."""

    saved: Plan
    saved_inputs: Inputs
    plan: Plan
    inputs: Inputs
    named: tuple[FieldChange, ...]
    """What was asked for."""
    follows: tuple[FieldChange, ...]
    """What else changes with it."""
    fields: tuple[str, ...]
    """Fields of the plan that were asked for."""

    def __repr__(self) -> str:
        changes = ", ".join(map(str, (*self.named, *self.follows))) or "nothing changed"
        return lines_of(f"<Variation of {self.saved}: {changes}; {self.plan}>")

    @property
    def estimate(self) -> Estimate:
        """What the changed plan costs; raises `IllegalPlan`, with the nearest plan that works, where it is illegal."""
        return self.priced()

    def priced(self, progress: Progress | None = None) -> Estimate:
        """The same; progress: of the search for the nearest plan."""
        broken = faults(self.plan, self.inputs)
        if broken:
            raise IllegalPlan(f"plan {self.plan}", [*broken, Fault("", self.nearest_words(progress))])
        return estimate_each([self.plan], self.inputs)[0]

    @property
    def saved_estimate(self) -> Estimate:
        """What the saved plan costs, for its own question."""
        return estimate_each([self.saved], self.saved_inputs)[0]

    @property
    def nearest(self) -> Plan | None:
        """The legal plan that differs least from the changed one, with what was asked for where any has it."""
        return self.nearest_plan()

    def nearest_plan(self, progress: Progress | None = None) -> Plan | None:
        """The same; progress: as `nearest_legal` tells it."""
        return nearest_legal(self.plan, self.inputs, self.fields, progress)

    def nearest_words(self, progress: Progress | None = None) -> str:
        """The same with what is changed for it."""
        nearest = self.nearest_plan(progress)
        if nearest is None:
            return f"no plan of {self.inputs.runtime.id} for this question is legal"
        changes = field_changes(self.plan, Variant(nearest, self.inputs))
        return f"nearest plan that works: {', '.join(map(str, changes))} ({nearest})"


def varied(plan: Plan, inputs: Inputs, changed: Inputs, fields: dict[str, Any], named: Collection[str]) -> Variation:
    """A plan and its question with some fields changed; not yet held against the runtime's rules.

    dp takes what the other degrees leave of the cluster, and the rest follows as `changed_plans` lets it, by the first
    choice that is legal. Constraints of the question that the plan no longer keeps are left out.
    changed: the question after it; fields: of `Plan`, as `changed_fields` reads them; named: those of them that
    were asked for. Raises `IllegalPlan` for counts below 1.
    """
    require_counts(replace(plan, **fields))
    after = dict(fields)
    moves = any(name in fields for name in DIVIDED) or changed.cluster.num_gpus != inputs.cluster.num_gpus
    if moves and "dp" not in fields:
        degrees = [after.get(name, getattr(plan, name)) for name in DIVIDED]
        after["dp"] = max(changed.cluster.num_gpus // (degrees[0] * degrees[1] * degrees[2]), 1)
    choices = list(changed_plans(plan, changed, after)) if after or changed != inputs else [plan]
    chosen = next((each for each in choices if not faults(each, changed)), choices[0])
    broken = [name for name in changed.constraints.given if not keeps(chosen, name, changed)]
    unbound = changed.replace(constraints=changed.constraints.without(*broken)) if broken else changed
    of_plan = [*field_changes(plan, Variant(chosen, unbound)), *_micro_batches(plan, chosen)]
    asked = {SHORT.get(name, name) for name in named}
    given = inputs.constraints
    left_out = [
        FieldChange(given.option(name), "", "left out") for name in given.given if name not in unbound.constraints.given
    ]
    return Variation(
        saved=plan,
        saved_inputs=inputs,
        plan=chosen,
        inputs=unbound,
        named=(*question_changes(inputs, unbound), *(each for each in of_plan if each.name in asked)),
        follows=(*(each for each in of_plan if each.name not in asked), *left_out),
        fields=tuple(named),
    )


def _micro_batches(before: Plan, after: Plan) -> list[FieldChange]:
    counts = before.num_microbatches, after.num_microbatches
    return [FieldChange("m", str(counts[0]), str(counts[1]))] if counts[0] != counts[1] else []


def question_changes(before: Inputs, after: Inputs) -> list[FieldChange]:
    """The parts of two questions that differ, constraints apart."""
    parts = [
        ("model", before.model.name, after.model.name),
        ("cluster", before.cluster.name, after.cluster.name),
        ("runtime", before.runtime.id, after.runtime.id),
        *((name, *_values(name, before, after)) for name in type(before.job).model_fields if name != "assumptions"),
    ]
    changes = [FieldChange(name.replace("_", " "), old, new) for name, old, new in parts if old != new]
    same = before.runtime.id == after.runtime.id
    replaced = [each for each in after.runtime.replaced if not same or each not in before.runtime.replaced]
    return changes + [FieldChange(each.behaviour, each.usual or "unset", each.value) for each in replaced]


def _values(name: str, before: Inputs, after: Inputs) -> tuple[str, str]:
    """A field of two jobs, as people write it."""
    old, new = (getattr(each.job, name) for each in (before, after))
    return ("by default" if old is None else str(old)), ("by default" if new is None else str(new))

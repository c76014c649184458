"""Sensitivity: every single change of a plan or its question, priced by the planner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from math import isclose
from typing import TypeVar

from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_each
from meshwright.layout.legality import check
from meshwright.layout.plan import Plan, in_runs
from meshwright.layout.plans import Plans
from meshwright.schedules.records import SCHEDULE_NAMES
from meshwright.search.changes.knobs import Knob, Variant, knobs
from meshwright.search.changes.question_knobs import FieldChange
from meshwright.search.plan_space.constrained import satisfies
from meshwright.search.ranking.rank import rank_key
from meshwright.specs.choices import CONTEXT_EXCHANGE_NAMES, RECOMPUTE_NAMES, Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.recompute_modules import names_of

Answer = TypeVar("Answer")
SAME = 1e-9
"""Of a step time or of bytes, as a ratio: what a change without effect may differ by."""
SHORT = {
    "micro_batch": "mbs",
    "dp_replicate": "replicate",
    "context_exchange": "exchange",
    "microbatch_group": "group",
    "chunk_layers": "chunks",
}
"""Fields by the names that plans are written with."""
IMPLIED = ("num_microbatches", "recompute_modules")
"""Fields that change only with others, which are listed."""


@dataclass(frozen=True)
class PricedChange:
    """One change of a plan or its question, priced."""

    knob: str
    """The field that is changed."""
    fields: tuple[FieldChange, ...]
    """All fields that change, that of the question first."""
    inputs: Inputs
    estimate: Estimate

    @property
    def change(self) -> str:
        """As `tp 8 -> 4, dp 2 -> 4`."""
        return ", ".join(map(str, self.fields))


@dataclass(frozen=True)
class Sensitivity:
    """Every single change of one plan."""

    changes: tuple[PricedChange, ...]
    """By verdict, the safest first, then by step time."""
    illegal: int
    """Changes that the runtime refuses, or that make no valid question."""
    idle: int
    """Changes without effect on time and memory."""
    outside: int = 0
    """Changes of the plan that the constraints of its question exclude."""


def sensitivity(estimate: Estimate, inputs: Inputs, changes: Iterable[Knob] | None = None) -> Sensitivity:
    """Every single legal change of a priced plan within the constraints of its question, priced as the changed plan and
    question are by themselves; changes: only these.
    """
    plan, every = estimate.plan, list(knobs(estimate.plan, inputs) if changes is None else changes)
    tried = list(filter(None, map(_within, every)))
    chosen = _first_legal(tried)
    unique: dict[tuple[Plan, FieldChange | None], tuple[Knob, Variant]] = {}
    for knob, variant in zip(tried, chosen, strict=True):
        if variant and (variant.plan != plan or variant.change):
            unique.setdefault((variant.plan, variant.change), (knob, variant))
    after = _of_each([variant for _, variant in unique.values()], estimate_each)
    priced = [
        PricedChange(knob.name, field_changes(plan, variant), variant.inputs, each)
        for (knob, variant), each in zip(unique.values(), after, strict=True)
    ]
    moving = [each for each in priced if not _same(each.estimate, estimate)]
    ranked = sorted(moving, key=lambda each: (each.estimate.verdict, each.estimate.step_time_s))
    return Sensitivity(tuple(ranked), chosen.count(None), len(priced) - len(moving), len(every) - len(tried))


def _within(knob: Knob) -> Knob | None:
    """A change with those of its variants that keep the constraints of their question; None where none of them does."""
    variants = tuple(each for each in knob.variants if satisfies(each.plan, each.inputs))
    return Knob(knob.name, variants) if variants or not knob.variants else None


def field_changes(plan: Plan, variant: Variant) -> tuple[FieldChange, ...]:
    """The change of the question, if it is one, then every field of the plan that has another value."""
    before, after = (_values(each, variant.inputs) for each in (plan, variant.plan))
    if plan.cp == 1 or variant.plan.cp == 1:
        del before["exchange"]
    of_plan = (FieldChange(name, before[name], after[name]) for name in before if before[name] != after[name])
    return (*filter(None, [variant.change]), *of_plan)


def _values(plan: Plan, inputs: Inputs) -> dict[str, str]:
    """The value of each field as people write it, by the name that they write; modules where a launch names them."""
    named = {field.name: getattr(plan, field.name) for field in fields(Plan) if field.name not in IMPLIED}
    names_modules = plan.recompute == Recompute.SELECTIVE and inputs.runtime.plans.recompute_modules
    modules = f"({','.join(names_of(plan.recompute_modules))})" if names_modules else ""
    named |= {
        "chunk_layers": in_runs(plan.chunk_layers) or "by the runtime",
        "context_exchange": CONTEXT_EXCHANGE_NAMES[plan.context_exchange],
        "recompute": f"{RECOMPUTE_NAMES[plan.recompute]}{modules}",
        "schedule": SCHEDULE_NAMES[plan.schedule],
        "sp": "on" if plan.sp else "off",
    }
    return {SHORT.get(name, name): str(value) for name, value in named.items()}


def _first_legal(tried: list[Knob]) -> list[Variant | None]:
    """Of every knob the first variant that its runtime accepts."""
    variants = [each for knob in tried for each in knob.variants]
    legal = iter(_of_each(variants, lambda plans, inputs: check(Plans.of(plans), inputs).legal))
    ruled = [[(each, next(legal)) for each in knob.variants] for knob in tried]
    return [next((each for each, accepted in of_knob if accepted), None) for of_knob in ruled]


def _of_each(variants: Sequence[Variant], answer: Callable[[list[Plan], Inputs], Iterable[Answer]]) -> list[Answer]:
    """The answer for every variant, those of one question asked for together."""
    plans: dict[int, tuple[Inputs, list[Plan]]] = {}
    for each in variants:
        plans.setdefault(id(each.inputs), (each.inputs, []))[1].append(each.plan)
    answers = {key: iter(answer(group, inputs)) for key, (inputs, group) in plans.items()}
    return [next(answers[id(each.inputs)]) for each in variants]


def _same(after: Estimate, before: Estimate) -> bool:
    pairs = ((after.step_time_s, before.step_time_s), (after.memory.device, before.memory.device))
    return after.verdict == before.verdict and all(isclose(*pair, rel_tol=SAME) for pair in pairs)


def cheapest_safe(result: Sensitivity) -> list[PricedChange]:
    """Of the changes those with which the plan is safe: on the same ranks first, then as `order` ranks."""

    def cost(each: PricedChange) -> tuple[bool, tuple[int, float, float]]:
        return each.knob in ("nodes", "network"), rank_key(each.estimate)

    safe = (each for each in result.changes if each.estimate.verdict == Verdict.SAFE)
    return sorted(safe, key=cost)

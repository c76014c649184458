"""Turn: every knob of a plan that can be turned, priced by the planner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from math import isclose

from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_each
from meshwright.layout.legality import check, unmodelled
from meshwright.layout.plan import CONTEXT_EXCHANGE_NAMES, RECOMPUTE_NAMES, Plan, Recompute, in_runs
from meshwright.layout.plans import Plans
from meshwright.layout.recompute_modules import names_of
from meshwright.schedules.records import SCHEDULE_NAMES
from meshwright.search.knobs import Knob, Way, knobs
from meshwright.specs.inputs import Inputs

SAME = 1e-9
"""Of a step time or of bytes, as a ratio: what a change of nothing may differ by."""
SHORT = {
    "micro_batch": "mbs",
    "dp_replicate": "replicate",
    "context_exchange": "exchange",
    "microbatch_group": "group",
    "chunk_layers": "chunks",
}
"""Fields by the names that plans are written with."""
FOLLOWS = ("num_microbatches", "recompute_modules")
"""Fields that other changes tell of, as cp does of its first exchange."""


@dataclass(frozen=True)
class Turned:
    """One change of a plan or its question, priced."""

    knob: str
    """The field that is changed."""
    change: str
    """As `tp 8 -> 4, dp 2 -> 4`."""
    inputs: Inputs
    estimate: Estimate


@dataclass(frozen=True)
class Turns:
    """Every knob of one plan."""

    turned: tuple[Turned, ...]
    """What fits first, then by step time."""
    illegal: int
    """Changes that the runtime refuses, or that make no question."""
    idle: int
    """Changes that change neither time nor memory."""


def turn(estimate: Estimate, inputs: Inputs) -> Turns:
    """Every single change of a priced plan that is legal, priced as the changed plan and question are by themselves."""
    plan, tried = estimate.plan, list(knobs(estimate.plan, inputs))
    chosen = _first_legal(tried)
    unique: dict[Plan | tuple[Plan, str], tuple[Knob, Way]] = {}
    for knob, way in zip(tried, chosen, strict=True):
        if way and (way.plan != plan or way.told):
            unique.setdefault((way.plan, way.told) if way.told else way.plan, (knob, way))
    priced = [
        Turned(knob.name, told(plan, way), way.inputs, after)
        for (knob, way), after in zip(unique.values(), _priced([way for _, way in unique.values()]), strict=True)
    ]
    moving = [each for each in priced if not _same(each.estimate, estimate)]
    ranked = sorted(moving, key=lambda each: (not each.estimate.verdict.fits, each.estimate.step_time_s))
    return Turns(tuple(ranked), chosen.count(None), len(priced) - len(moving))


def told(plan: Plan, way: Way) -> str:
    """A change in words: what it changes beside the plan, then every field of the plan that another one replaces."""
    before, after = _words(plan), _words(way.plan)
    if plan.cp == 1 or way.plan.cp == 1:
        del before["exchange"]
    moved = [f"{name} {before[name]} -> {after[name]}" for name in before if before[name] != after[name]]
    return ", ".join(filter(None, [way.told, *moved]))


def _words(plan: Plan) -> dict[str, str]:
    """What each field says, by the name that people write."""
    named = {field.name: getattr(plan, field.name) for field in fields(Plan) if field.name not in FOLLOWS}
    modules = f"({','.join(names_of(plan.recompute_modules))})" if plan.recompute == Recompute.SELECTIVE else ""
    named |= {
        "chunk_layers": in_runs(plan.chunk_layers) or "by the runtime",
        "context_exchange": CONTEXT_EXCHANGE_NAMES[plan.context_exchange],
        "recompute": f"{RECOMPUTE_NAMES[plan.recompute]}{modules}",
        "schedule": SCHEDULE_NAMES[plan.schedule],
        "sp": "on" if plan.sp else "off",
    }
    return {SHORT.get(name, name): str(value) for name, value in named.items()}


def _first_legal(tried: list[Knob]) -> list[Way | None]:
    """Of every knob the first way that its runtime accepts and that is priced."""
    by_question: dict[int, tuple[Inputs, dict[Plan, bool]]] = {}
    for knob in tried:
        for way in knob.ways:
            by_question.setdefault(id(way.inputs), (way.inputs, {}))[1][way.plan] = False
    for inputs, plans in by_question.values():
        legal = check(Plans.of(plans), inputs).legal
        plans |= {plan: bool(kept) for plan, kept in zip(plans, legal, strict=True)}
    return [_first(knob.ways, by_question) for knob in tried]


def _first(ways: Iterable[Way], known: dict[int, tuple[Inputs, dict[Plan, bool]]]) -> Way | None:
    legal = (way for way in ways if known[id(way.inputs)][1][way.plan])
    return next((way for way in legal if not unmodelled(way.plan, way.inputs)), None)


def _priced(ways: list[Way]) -> list[Estimate]:
    """The estimate of every way, those of one question together."""
    plans: dict[int, tuple[Inputs, list[Plan]]] = {}
    for way in ways:
        plans.setdefault(id(way.inputs), (way.inputs, []))[1].append(way.plan)
    answers = {key: iter(estimate_each(group, inputs)) for key, (inputs, group) in plans.items()}
    return [next(answers[id(way.inputs)]) for way in ways]


def _same(after: Estimate, before: Estimate) -> bool:
    pairs = ((after.step_time_s, before.step_time_s), (after.memory.device, before.memory.device))
    return after.verdict == before.verdict and all(isclose(*pair, rel_tol=SAME) for pair in pairs)


def cheapest_that_fit(turns: Turns) -> list[Turned]:
    """Of the changes those with which the plan fits: on the same ranks first, safe before at risk, then the fastest."""

    def dearness(each: Turned) -> tuple[bool, Verdict, float]:
        return each.knob in ("nodes", "network"), each.estimate.verdict, each.estimate.step_time_s

    return sorted((each for each in turns.turned if each.estimate.verdict.fits), key=dearness)

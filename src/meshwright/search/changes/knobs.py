"""Knobs: every single change of a plan or of its question, legal or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any, NamedTuple

from meshwright.layout.legality.named_layers import chunk_layers, end_stage_layers
from meshwright.layout.legality.rule import divisors
from meshwright.layout.plan import Plan
from meshwright.layout.splits import RUNTIME_SPLIT
from meshwright.schedules.records import Schedule, usual_schedule
from meshwright.search.changes.changed_plans import changed_plans
from meshwright.search.changes.question_knobs import FieldChange, QuestionChange, question_knobs
from meshwright.search.plan_space.modules import module_sets
from meshwright.search.resolve.stages import best_splits
from meshwright.specs.choices import CONTEXT_EXCHANGE_NAMES, RECOMPUTE_NAMES, Recompute
from meshwright.specs.inputs import Inputs

AXES = ("tp", "cp", "pp", "dp")
"""Their product is the number of ranks, so that one grows only where another shrinks."""


class Variant(NamedTuple):
    """One way to make a change."""

    plan: Plan
    inputs: Inputs
    change: FieldChange | None = None
    """Of the question, where it is not the plan that is changed."""


class Knob(NamedTuple):
    """One change, and its variants, which differ in what else must change; the first legal one counts."""

    name: str
    """The field of the plan, the job, the cluster or the runtime that is changed."""
    variants: tuple[Variant, ...]


def knobs(plan: Plan, inputs: Inputs) -> Iterator[Knob]:
    """Every single change of a plan, as `plan_knobs` makes it, or of what it is for, as `question_knobs` does."""
    yield from plan_knobs(plan, inputs)
    yield from question_changes(plan, question_knobs(plan, inputs))


def question_changes(plan: Plan, changed: Iterable[tuple[str, list[QuestionChange]]]) -> Iterator[Knob]:
    """A plan under changes of its question, by the name of each."""
    for name, changes in changed:
        plans_of = ((change, changed_plans(plan, change.inputs, change.plan_fields)) for change in changes)
        yield Knob(
            name, tuple(Variant(each, change.inputs, change.change) for change, some in plans_of for each in some)
        )


def plan_knobs(plan: Plan, inputs: Inputs) -> Iterator[Knob]:
    """Every single change of a plan.

    A degree of tp, cp, pp or dp takes its smallest factor from another; ep and etp double and halve; the micro-batch
    doubles, and goes to each of its divisors; vpp goes to its neighbours; the layers of 1F1B stages as `best_splits`
    chooses them; every other kind or set of recomputation, ZeRO stage, sharding group, schedule and context exchange of
    the runtime; and sequence parallelism.
    """
    for name, fields in _changes(plan, inputs):
        plans = (each for some in fields for each in changed_plans(plan, inputs, some))
        yield Knob(name, tuple(Variant(each, inputs) for each in plans))


def _changes(plan: Plan, inputs: Inputs) -> Iterator[tuple[str, Iterable[dict[str, Any]]]]:
    yield from _degrees(plan, inputs)
    yield from _experts(plan, inputs)
    yield "micro_batch", [{"micro_batch": 2 * plan.micro_batch}]
    for fewer in reversed(divisors(plan.micro_batch)[:-1]):
        yield "micro_batch", [{"micro_batch": fewer}]
    yield from _pipeline(plan, inputs)
    yield from _recompute(plan, inputs)
    yield from _sharding(plan, inputs)
    if plan.tp > 1 and inputs.runtime.plans.sequence_parallel:
        yield "sp", [{"sp": not plan.sp}]
    if plan.cp > 1:
        for code, name in CONTEXT_EXCHANGE_NAMES.items():
            if name in inputs.runtime.plans.context_exchanges and code != plan.context_exchange:
                yield "context_exchange", [{"context_exchange": code}]


def _degrees(plan: Plan, inputs: Inputs) -> Iterator[tuple[str, Iterable[dict[str, Any]]]]:
    """One axis takes a factor from another: `tp 4 -> 8, dp 4 -> 2`."""
    axes = [axis for axis in AXES if axis != "cp" or inputs.runtime.plans.context_exchanges]
    for grown, shrunk in permutations(axes, 2):
        factor = _smallest_factor(getattr(plan, shrunk))
        if factor > 1:
            yield grown, [{grown: factor * getattr(plan, grown), shrunk: getattr(plan, shrunk) // factor}]


def _experts(plan: Plan, inputs: Inputs) -> Iterator[tuple[str, Iterable[dict[str, Any]]]]:
    for axis in ("ep", "etp") if inputs.model.is_moe else ():
        degree = getattr(plan, axis)
        yield axis, [{axis: 2 * degree}]
        if degree > 1:
            yield axis, [{axis: degree // _smallest_factor(degree)}]


def _pipeline(plan: Plan, inputs: Inputs) -> Iterator[tuple[str, Iterable[dict[str, Any]]]]:
    """vpp to its neighbours, the runtime's other schedules with as many chunks, one or two, and layers by cost."""
    if plan.pp == 1:
        return
    (split,) = best_splits([_with_layers_that_fill(plan, inputs)], inputs)
    if split != plan:
        yield "chunk_layers", [{name: getattr(split, name) for name in RUNTIME_SPLIT}]
    most = -(-(inputs.model.num_layers + 2) // plan.pp)
    yield "vpp", [_interleaved(plan, vpp) for vpp in range(plan.vpp + 1, most + 1)]
    if plan.vpp > 1:
        yield "vpp", [_interleaved(plan, vpp) for vpp in range(plan.vpp - 1, 0, -1)]
    for schedule in Schedule:
        record = schedule.record
        if record.name in inputs.runtime.plans.schedules and schedule != plan.schedule:
            counts = {max(plan.vpp, 2): None, 2: None} if record.chunks == "several" else (record.chunks,)
            yield "schedule", [{"schedule": schedule, "vpp": vpp} for vpp in counts]


def _with_layers_that_fill(plan: Plan, inputs: Inputs) -> Plan:
    """The plan, without numbers of layers where those it names are not the model's."""
    filled = all(rule.legal(plan, inputs) for rule in (chunk_layers, end_stage_layers))
    return plan if filled else replace(plan, **RUNTIME_SPLIT)


def _interleaved(plan: Plan, vpp: int) -> dict[str, Any]:
    """Another number of chunks; 1F1B is what interleaving is with one, and the other way round."""
    plain = {Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED}
    return {"vpp": vpp} | ({"schedule": usual_schedule(vpp)} if plan.schedule in plain else {})


def _recompute(plan: Plan, inputs: Inputs) -> Iterator[tuple[str, Iterable[dict[str, Any]]]]:
    for kind, name in RECOMPUTE_NAMES.items():
        if name not in inputs.runtime.plans.recompute:
            continue
        if kind == Recompute.SELECTIVE:
            for modules in module_sets(inputs):
                if (plan.recompute, plan.recompute_modules) != (kind, modules):
                    yield "recompute", [{"recompute": kind, "recompute_modules": modules}]
        elif kind != plan.recompute:
            yield "recompute", [{"recompute": kind}]


def _sharding(plan: Plan, inputs: Inputs) -> Iterator[tuple[str, Iterable[dict[str, Any]]]]:
    """The runtime's other ZeRO stages; sharding groups that end where a level of links does, or hold every rank."""
    ranks = plan.dp * plan.cp
    if ranks == 1 and not inputs.runtime.shards_one_rank:
        return
    for stage in inputs.runtime.plans.zero_stages:
        if stage != plan.zero:
            yield "zero", [{"zero": stage}]
    if plan.zero and inputs.runtime.plans.hybrid_sharding:
        sizes = [level.size // plan.tp for level in inputs.cluster.levels] + [ranks]
        for replicas in sorted({ranks // size for size in sizes if 1 < size <= ranks and ranks % size == 0}):
            if replicas != plan.dp_replicate:
                yield "dp_replicate", [{"dp_replicate": replicas}]


def _smallest_factor(number: int) -> int:
    return next(iter(divisors(number)[1:]), 1)

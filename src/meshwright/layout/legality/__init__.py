"""Legality: named rules; a runtime's data file lists the ones that it enforces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn
from meshwright.errors import Fault, IllegalPlan, InvalidSpec, NotModelled, quoted
from meshwright.layout.legality import (
    absent,
    context,
    experts,
    mesh,
    named_layers,
    pipeline,
    recompute,
    schedules,
    sharding,
    tensor,
)
from meshwright.layout.legality.rule import Rule
from meshwright.layout.plan import CONTEXT_EXCHANGE_NAMES, RECOMPUTE_NAMES, Plan, Recompute
from meshwright.layout.plans import Plans
from meshwright.layout.recompute_modules import RecomputeModules, names_of
from meshwright.schedules.records import SCHEDULE_NAMES
from meshwright.specs.inputs import Inputs

_TOPICS = (mesh, tensor, context, pipeline, named_layers, schedules, experts, sharding, recompute, absent)
RULES = {rule.name: rule for topic in _TOPICS for rule in topic.RULES}


class Legality(NamedTuple):
    """Which plans a runtime accepts."""

    legal: BoolColumn
    """Per plan, shape (n,)."""
    refused: dict[str, int]
    """Per rule, in the runtime's order, how many plans break it."""


def rules_of(inputs: Inputs) -> list[Rule]:
    """The rules that the runtime enforces, in its order; raises `InvalidSpec` for one that nobody has written."""
    unknown = [
        Fault(f"runtime.rules[{index}].name", f"{quoted(reference.name)} is no rule; known: {', '.join(RULES)}")
        for index, reference in enumerate(inputs.runtime.rules)
        if reference.name not in RULES
    ]
    if unknown:
        raise InvalidSpec(f"runtime {quoted(inputs.runtime.id)}", unknown)
    return [RULES[reference.name] for reference in inputs.runtime.rules]


def check(plans: Plans, inputs: Inputs) -> Legality:
    """Hold every plan against every rule of the runtime."""
    legal, refused = np.ones(len(plans), dtype=bool), {}
    for rule in rules_of(inputs):
        kept = np.broadcast_to(rule.legal(plans, inputs), len(plans))
        refused[rule.name] = len(plans) - int(np.count_nonzero(kept))
        legal &= kept
    return Legality(legal, refused)


def faults(plan: Plan, inputs: Inputs) -> list[Fault]:
    """Every rule that one plan breaks, with its values and the nearest legal change."""
    return [Fault(rule.name, rule.reason(plan, inputs)) for rule in rules_of(inputs) if not rule.legal(plan, inputs)]


def unmodelled(plan: Plan, inputs: Inputs) -> list[Fault]:
    """What of one plan is not priced, or not for this runtime, with what is."""
    runtime = inputs.runtime
    schedule, kind = SCHEDULE_NAMES[plan.schedule], RECOMPUTE_NAMES[plan.recompute]
    faults = []
    if plan.zero not in runtime.plans.zero_stages and (plan.zero or plan.dp * plan.cp > 1):
        stages = ", ".join(map(str, runtime.plans.zero_stages))
        faults.append(Fault("zero", f"ZeRO {plan.zero} is not modelled for {runtime.id}; its stages: {stages}"))
    if plan.dp_replicate > 1 and not runtime.plans.hybrid_sharding:
        faults.append(
            Fault("dp_replicate", f"{plan.dp_replicate} is not modelled for {runtime.id}; use dp_replicate 1")
        )
    if plan.sp and not runtime.plans.sequence_parallel:
        faults.append(Fault("sp", f"is not modelled for {runtime.id}; use no sp"))
    exchange = CONTEXT_EXCHANGE_NAMES[plan.context_exchange]
    for name, value, known in (
        ("schedule", schedule, runtime.plans.schedules),
        ("recompute", kind, runtime.plans.recompute),
        *([("context_exchange", exchange, runtime.plans.context_exchanges or ("cp 1 alone",))] if plan.cp > 1 else []),
    ):
        if value not in known:
            faults.append(Fault(name, f"{value} is not modelled for {runtime.id}; it has {', '.join(known)}"))
    return faults + (_unmodelled_modules(plan, inputs) if plan.recompute == Recompute.SELECTIVE else [])


def _unmodelled_modules(plan: Plan, inputs: Inputs) -> list[Fault]:
    """Modules of selective recomputation that the runtime has not; where it chooses for itself, all but the default."""
    runtime, default = inputs.runtime, names_of(RecomputeModules.CORE_ATTENTION)
    known, asked = runtime.plans.recompute_modules or default, names_of(plan.recompute_modules)
    unknown = [name for name in asked if name not in known]
    if asked and not unknown:
        return []
    told = f"{', '.join(unknown)} is not modelled for {runtime.id}" if asked else "names no module"
    return [Fault("recompute_modules", f"{told}; it has {', '.join(known)}")]


def require_legal(plan: Plan, inputs: Inputs) -> None:
    """Raise `IllegalPlan` with every broken rule, or `NotModelled` for what is not priced yet."""
    unpriced = unmodelled(plan, inputs)
    if unpriced:
        raise NotModelled("; ".join(f"{fault.where} {fault.what}" for fault in unpriced))
    small = [(name, getattr(plan, name)) for name in _COUNTS if getattr(plan, name) < 1]
    if small:
        raise IllegalPlan(f"plan {plan}", [Fault(name, f"is {value}; it must be 1 or more") for name, value in small])
    broken = faults(plan, inputs)
    if broken:
        raise IllegalPlan(f"plan {plan}", broken)


_COUNTS = ("tp", "cp", "pp", "vpp", "dp", "ep", "etp", "dp_replicate", "micro_batch", "num_microbatches")

"""Legality: named rules. Most hold for any plan; a runtime's file lists those that its framework adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn, IntColumn
from meshwright.errors import Fault, IllegalPlan, InvalidSpec, quoted
from meshwright.layout.legality import (
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
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime import Runtime

_TOPICS = (mesh, tensor, context, pipeline, named_layers, schedules, experts, sharding, recompute)
RULES = {rule.name: rule for topic in _TOPICS for rule in vars(topic).values() if isinstance(rule, Rule)}
"""Every rule by name."""
ALWAYS = tuple(rule for rule in RULES.values() if rule.kind != "restriction")
"""The rules that every plan of every runtime is held against."""
_ALWAYS = {rule.name for rule in ALWAYS}


class Legality(NamedTuple):
    """Which plans a runtime accepts."""

    broken: IntColumn
    """How many rules each plan breaks, shape (n,)."""
    refused: dict[str, int]
    """Per rule how many plans break it."""

    @property
    def legal(self) -> BoolColumn:
        """Whether a plan breaks none, shape (n,)."""
        legal: BoolColumn = self.broken == 0
        return legal


def rules_of(inputs: Inputs) -> tuple[Rule, ...]:
    """The rules that plans are held against: those of all runtimes, and those that the runtime's file lists.

    Raises `InvalidSpec` where the file lists what is no such rule, or gives a parameter that it does not have.
    """
    runtime = inputs.runtime
    faults = list(_misnamed(runtime))
    if faults:
        raise InvalidSpec(f"runtime {quoted(runtime.id)}", faults)
    listed = ((RULES[each.name], each.parameters) for each in runtime.rules)
    return (*ALWAYS, *(replace(rule, parameters=given) if given else rule for rule, given in listed))


def _misnamed(runtime: Runtime) -> Iterator[Fault]:
    for index, each in enumerate(runtime.rules):
        where = f"runtime.rules[{index}]"
        if each.name in _ALWAYS:
            yield Fault(f"{where}.name", f"{quoted(each.name)} holds for every runtime; say under checks who checks it")
        elif each.name not in RULES:
            known = ", ".join(name for name in RULES if name not in _ALWAYS)
            yield Fault(f"{where}.name", f"{quoted(each.name)} is no rule; known: {known}")
        elif unknown := [name for name in each.parameters if name not in RULES[each.name].known_parameters]:
            parameters = ", ".join(sorted(RULES[each.name].known_parameters)) or "none"
            yield Fault(f"{where}.parameters", f"{quoted(min(unknown))} is no parameter; known: {parameters}")
    for name in runtime.checks:
        if name not in _ALWAYS:
            what = f"{quoted(name)} is no rule that holds for every runtime; known: {', '.join(sorted(_ALWAYS))}"
            yield Fault(f"runtime.checks.{name}", what)


_OF_DEGREES = (
    tensor.query_heads,
    tensor.kv_heads,
    tensor.ffn_size,
    mesh.global_batch,
    experts.expert_tensor_parallel,
    experts.expert_ffn_size,
)
"""Rules for every plan that read nothing of it but tp, dp and etp, and the sequences of a step."""


def may_be_legal(plan: Plan, inputs: Inputs) -> bool:
    """Whether some plan with the tp, dp, etp and sequences of this one may be legal: it keeps the rules that read
    nothing else.
    """
    return all(rule.legal(plan, inputs) for rule in _OF_DEGREES)


def check(plans: Plans, inputs: Inputs) -> Legality:
    """Hold every plan against every rule of the runtime."""
    broken, refused = np.zeros(len(plans), dtype=np.int8), {}
    for rule in rules_of(inputs):
        keeps = np.broadcast_to(rule.legal(plans, inputs), len(plans))
        refused[rule.name] = len(plans) - int(np.count_nonzero(keeps))
        broken += ~keeps
    return Legality(broken, refused)


def faults(plan: Plan, inputs: Inputs) -> list[Fault]:
    """Every rule that one plan breaks, with its values and the nearest legal change."""
    return [Fault(rule.name, rule.reason(plan, inputs)) for rule in rules_of(inputs) if not rule.legal(plan, inputs)]


def require_legal(plan: Plan, inputs: Inputs, besides: Sequence[Fault] = ()) -> None:
    """Raise `IllegalPlan` with every broken rule, and with what is wrong besides."""
    require_counts(plan)
    broken = faults(plan, inputs)
    if broken:
        raise IllegalPlan(f"plan {plan}", [*broken, *besides])


def require_counts(plan: Plan) -> None:
    """Raise `IllegalPlan` with every count that is less than 1, which no rule can be asked about."""
    small = [(name, getattr(plan, name)) for name in _COUNTS if getattr(plan, name) < 1]
    if small:
        raise IllegalPlan(f"plan {plan}", [Fault(name, f"is {value}; it must be 1 or more") for name, value in small])


def priced_anyway(broken: Fault) -> bool:
    """Whether a plan that breaks a rule has a price all the same, as the rule is its framework's alone."""
    return broken.where in RULES and RULES[broken.where].kind != "invariant"


_COUNTS = ("tp", "cp", "pp", "vpp", "dp", "ep", "etp", "dp_replicate", "micro_batch", "num_microbatches")

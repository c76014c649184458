"""Unmet: why a question has no legal plan, or none that keeps its constraints, and the nearest that works."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from meshwright.errors import Fault, IllegalPlan
from meshwright.layout.legality import check, faults
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.plan_space.constrained import CODES, RULES, satisfies, values_of
from meshwright.search.plan_space.space import Part, parts, space, tables_of
from meshwright.specs.inputs import Inputs

NEAREST = 4
"""Values of an axis that are named."""


def nothing_legal(inputs: Inputs, considered: int) -> IllegalPlan:
    """The error for a space without a legal plan: the faults of the plan that breaks the fewest rules, and which
    constraints leave none.

    considered: plans of the space, a count.
    """
    plan = None if inputs.constraints.given else simplest(inputs)
    if plan is None:
        return nothing_allowed(inputs)
    subject = f"none of the {considered} plans for {inputs.cluster.num_gpus} accelerators; the nearest, {plan},"
    return IllegalPlan(f"{inputs.runtime.id}: {subject}", faults(plan, inputs))


def simplest(inputs: Inputs) -> Plan | None:
    """Of the first plan of every split the one that breaks the fewest rules; None where the space is empty."""
    firsts = [Part(each.split, [choice[:1] for choice in each.choices], each.grids[:1]) for each in parts(inputs)]
    if not firsts:
        return None
    plans = Plans.join(tables_of(firsts, inputs))
    return plans[int(check(plans, inputs).broken.argmin())]


def nothing_allowed(inputs: Inputs) -> IllegalPlan:
    """The error for constraints that no legal plan keeps.

    The rules that the nearest plan with them breaks: one of the space or, where it has none, a plan that is legal
    without one of them and is given it; else what the space holds of the axes that leave it empty. For every constraint
    the nearest values that work while all others hold. Where more than one is in the way, what is wrong with each that
    leaves none by itself.
    """
    constraints, runtime = inputs.constraints, inputs.runtime.id
    options = " ".join(map(constraints.option, constraints.given))
    without = {name: _without(name, inputs) for name in constraints.given}
    found = {name: _fault(name, each.present, inputs) for name, each in without.items()}
    if len(found) > 1 and not any(found.values()) and (each_alone := _each_alone(inputs)):
        return IllegalPlan(f"{runtime}: {options}", each_alone)
    if plan := simplest(inputs) or _nearest([plan for each in without.values() for plan in each.given], inputs):
        rules = [*faults(plan, inputs)]
        subject = f"{runtime}: no plan with {options} works; even the nearest, {plan},"
    else:
        clashing = [name for name, each in found.items() if each] or [*found]
        rules = [Fault("", rule) for rule in dict.fromkeys(map(_rules(inputs).get, clashing)) if rule]
        subject = f"{runtime}: {options}"
    return IllegalPlan(subject, [*rules, *(each for each in found.values() if each)])


def _each_alone(inputs: Inputs) -> list[Fault]:
    """The faults of every constraint that no legal plan keeps even by itself."""
    constraints, known = inputs.constraints, list[Fault]()
    for name in constraints.given:
        others = constraints.given.keys() - {name}
        alone = inputs.replace(constraints=constraints.without(*others))
        if not any(check(table, alone).legal.any() for table in space(alone)):
            known += nothing_allowed(alone).faults
    return [*dict.fromkeys(known)]


def _rules(inputs: Inputs) -> dict[str, str]:
    """By constraint, what the plans of the space keep."""
    plans, layers, runtime = inputs.runtime.plans, inputs.model.num_layers, inputs.runtime.id
    degrees = f"tp x cp x pp x dp must make the {inputs.cluster.num_gpus} accelerators"
    chunks = f"pp x vpp chunks share {layers} layers, and vpp is 1 without a pipeline"
    experts = math.gcd(*(each.count for each in inputs.model.mixtures)) if inputs.model.is_moe else 0
    mixture = f"ep divides {experts} experts and tp x cp x dp / etp" if experts else "ep and etp are 1 without experts"
    beside = "; beside a pipeline 0 or 1 alone" if inputs.runtime.storage.weights == "half" else ""
    return {
        **dict.fromkeys(("tp", "cp", "pp", "dp"), degrees),
        **dict.fromkeys(("vpp", "even_chunks"), chunks),
        **dict.fromkeys(("ep", "etp"), mixture),
        "zero": f"{runtime} has ZeRO {', '.join(map(str, plans.zero_stages))}{beside}",
        "micro_batch": f"micro-batch x dp divides the {inputs.job.global_batch} sequences of a step",
        "recompute": f"{runtime} has recomputation {', '.join(plans.recompute)}",
        "sp": f"{runtime} {'has' if plans.sequence_parallel else 'has no'} sequence parallelism, of tp 2 or more",
        "max_nodes_per_tp": f"a node has {inputs.cluster.gpus_per_node} accelerators, and ranks of tp lie side by side",
    }


class _Without(NamedTuple):
    """Legal plans of a question without one of its constraints."""

    present: dict[int, Plan]
    """The first with each value of its axis."""
    given: list[Plan]
    """Of every table of the space, the nearest to legal of those that are given a value it allows."""


def _without(name: str, inputs: Inputs) -> _Without:
    others = inputs.replace(constraints=inputs.constraints.without(name))
    found = _Without({}, [])
    for table in space(others):
        legal = table.take(check(table, others).legal)
        for plan in _first_of_each(name, legal):
            found.present.setdefault(_value(name, plan), plan)
        values = () if name in RULES else (values_of(name, inputs) or ())[:NEAREST]
        nearest = (_nearest(_with(name, value, legal, inputs), inputs) for value in values)
        found.given.extend(plan for plan in nearest if plan)
    return found


def _with(name: str, value: int, plans: Plans, inputs: Inputs) -> Plans:
    """Plans that are given a value of an axis, with the replicas and micro-batches that this leaves; those of them that
    keep every constraint on all accelerators.
    """
    world, batch = inputs.cluster.num_gpus, inputs.job.global_batch
    given: dict[str, Any] = {name: np.full(len(plans), value)}
    plans = replace(plans, **given)
    split = plans.tp * plans.cp * plans.pp
    plans = plans if name == "dp" else replace(plans, dp=np.maximum(world // split, 1))
    plans = replace(plans, num_microbatches=np.maximum(batch // (plans.dp * plans.micro_batch), 1))
    return plans.take((split * plans.dp == world) & satisfies(plans, inputs))


def _nearest(plans: Plans | list[Plan], inputs: Inputs) -> Plan | None:
    """Of those that a rule refuses, the one that breaks the fewest."""
    table = plans if isinstance(plans, Plans) else Plans.of(plans)
    broken = check(table, inputs).broken
    refused = np.flatnonzero(broken)
    return table[int(refused[broken[refused].argmin()])] if len(refused) else None


def _fault(name: str, present: dict[int, Plan], inputs: Inputs) -> Fault | None:
    """What works in place of one constraint while all others hold; None where nothing does.

    present: of the legal plans without it the first with each value of its axis.
    """
    option = inputs.constraints.option(name)
    if not present:
        return None
    if name in RULES:
        return Fault(option, f"without it {next(iter(present.values()))} is legal")
    wanted = values_of(name, inputs) or ()
    words = {code: word for word, code in CODES.get(name, {}).items()}
    distances = {value: 0.0 if words else min(_distance(value, each) for each in wanted) for value in present}
    near = sorted(present, key=lambda value: (distances[value], value))[:NEAREST]
    listed = ", ".join(str(words.get(value, value)) for value in near)
    beside = " beside the others" if len(inputs.constraints.given) > 1 else ""
    return Fault(option, f"no legal plan has it{beside}; nearest {name.replace('_', '-')}: {listed}")


def _first_of_each(name: str, legal: Plans) -> list[Plan]:
    """Of legal plans the first with each value of an axis."""
    if name in RULES:
        return [legal[0]] if len(legal) else []
    column = getattr(legal, name)
    return [legal[int((column == value).argmax())] for value in dict.fromkeys(column.tolist())]


def _value(name: str, plan: Plan) -> int:
    return 0 if name in RULES else int(getattr(plan, name))


def _distance(value: int, wanted: int) -> float:
    return abs(math.log((value + 1) / (wanted + 1)))

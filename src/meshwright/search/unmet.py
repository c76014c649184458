"""Unmet: why a question has no legal plan, or none that keeps its constraints, and the nearest that works."""

from __future__ import annotations

import math

from meshwright.errors import Fault, IllegalPlan
from meshwright.layout.legality import check, faults
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.constrained import CODES, RULES, values_of
from meshwright.search.space import Part, parts, space, tables_of
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
    firsts = [Part(part.split, [choice[:1] for choice in part.choices]) for part in parts(inputs)]
    if not firsts:
        return None
    plans = Plans.join(tables_of(firsts, inputs))
    return plans[int(check(plans, inputs).broken.argmin())]


def nothing_allowed(inputs: Inputs) -> IllegalPlan:
    """The error for constraints that no legal plan keeps.

    Where no plan of the space keeps them, what the space holds of these axes; else the rules that the nearest plan
    breaks. For every constraint the nearest values that work while all others hold.
    """
    constraints, runtime = inputs.constraints, inputs.runtime.id
    options = " ".join(map(constraints.option, constraints.given))
    found = [_fault(name, inputs) for name in constraints.given]
    if plan := simplest(inputs):
        rules = [*faults(plan, inputs)]
        subject = f"{runtime}: none of the plans with {options}; the nearest, {plan},"
    else:
        rules = [Fault("", rule) for rule in dict.fromkeys(map(_rules(inputs).get, constraints.given)) if rule]
        subject = f"{runtime}: {options}"
    return IllegalPlan(subject, [*rules, *(each for each in found if each)])


def _rules(inputs: Inputs) -> dict[str, str]:
    """By constraint, what the plans of the space keep."""
    plans, layers, runtime = inputs.runtime.plans, inputs.model.num_layers, inputs.runtime.id
    degrees = f"tp x cp x pp x dp must make the {inputs.cluster.num_gpus} accelerators"
    chunks = f"pp x vpp chunks share {layers} layers, and vpp is 1 without a pipeline"
    experts = math.gcd(*(each.count for each in inputs.model.mixtures)) if inputs.model.is_moe else 0
    mixture = f"ep divides {experts} experts and tp x cp x dp / etp" if experts else "ep and etp are 1 without experts"
    beside = ", 0 and 1 alone beside a pipeline" if inputs.runtime.storage.weights == "half" else ""
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


def _fault(name: str, inputs: Inputs) -> Fault | None:
    """What works in place of one constraint while all others hold; None where nothing does."""
    others, option = inputs.replace(constraints=inputs.constraints.without(name)), inputs.constraints.option(name)
    present: dict[int, Plan] = {}
    for table in space(others):
        for plan in _first_of_each(name, table, others):
            present.setdefault(_value(name, plan), plan)
    if not present:
        return None
    if name in RULES:
        return Fault(option, f"without it {next(iter(present.values()))} is legal")
    wanted = values_of(name, inputs) or ()
    words = {code: word for word, code in CODES.get(name, {}).items()}
    distances = {value: 0.0 if words else min(_distance(value, each) for each in wanted) for value in present}
    near = sorted(present, key=lambda value: (distances[value], value))[:NEAREST]
    listed = ", ".join(str(words.get(value, value)) for value in near)
    beside = " beside the others" if others.constraints.given else ""
    return Fault(option, f"no legal plan has it{beside}; nearest {name.replace('_', '-')}: {listed}")


def _first_of_each(name: str, table: Plans, inputs: Inputs) -> list[Plan]:
    """Of the legal plans the first with each value of an axis."""
    legal = table.take(check(table, inputs).legal)
    if name in RULES:
        return [legal[0]] if len(legal) else []
    column = getattr(legal, name)
    return [legal[int((column == value).argmax())] for value in dict.fromkeys(column.tolist())]


def _value(name: str, plan: Plan) -> int:
    return 0 if name in RULES else int(getattr(plan, name))


def _distance(value: int, wanted: int) -> float:
    return abs(math.log((value + 1) / (wanted + 1)))

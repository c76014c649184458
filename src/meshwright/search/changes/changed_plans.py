"""Changed plans: a plan with some fields changed, and what else must change for it to stay legal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from meshwright.layout.microbatches import group_sizes
from meshwright.layout.named import usual_exchange, usual_stage
from meshwright.layout.plan import Plan
from meshwright.layout.splits import RUNTIME_SPLIT
from meshwright.schedules.records import Schedule
from meshwright.specs.inputs import Inputs

NEIGHBOURS = 6
"""Numbers of chunks that are tried where another number of stages cannot keep its own."""
WITHOUT_PIPELINE = {
    "vpp": 1,
    "microbatch_group": 0,
    "schedule": Schedule.ONE_F_ONE_B,
    **RUNTIME_SPLIT,
}


def changed_plans(plan: Plan, inputs: Inputs, changes: dict[str, Any]) -> Iterator[Plan]:
    """The plan with some fields changed, with every choice of the fields that depend on them, the least change first.

    Micro-batches follow from the batch. Sequence parallelism, ZeRO and the context exchange come as the runtime has
    them with the axis that they need, and go with it. vpp, the ends as layers, groups of micro-batches, replicas of the
    sharding group, layers that the plan names, ep and etp keep their value first, then give way.
    inputs: what the changed plan is for; changes: fields of `Plan`.
    """
    base = replace(plan, **{**_certain(plan, inputs, changes), **changes})
    base = replace(base, num_microbatches=max(inputs.job.global_batch // (base.micro_batch * base.dp), 1))
    choices = {name: values for name, values in _choices(plan, base, inputs).items() if name not in changes}
    for chosen in product(*choices.values()):
        yield replace(base, **dict(zip(choices, chosen, strict=True)))


def _certain(plan: Plan, inputs: Inputs, changes: dict[str, Any]) -> dict[str, Any]:
    """What can follow in one way alone."""
    after = {name: changes.get(name, getattr(plan, name)) for name in ("tp", "cp", "pp", "dp", "vpp")}
    follows: dict[str, Any] = {}
    if after["tp"] == 1 or plan.tp == 1:
        follows["sp"] = after["tp"] > 1 and inputs.runtime.plans.sequence_parallel
    if plan.cp == 1 < after["cp"]:
        follows["context_exchange"] = usual_exchange(inputs)
    ranks, before = after["dp"] * after["cp"], plan.dp * plan.cp
    if ranks == 1 or before == 1:
        follows["zero"] = usual_stage(inputs, ranks)
    if ranks == 1:
        follows["dp_replicate"] = 1
    if (after["pp"], after["vpp"]) != (plan.pp, plan.vpp):
        follows |= {"chunk_layers": ()}
    if after["pp"] != plan.pp:
        follows |= {"first_stage_layers": 0, "last_stage_layers": 0}
    return follows | (WITHOUT_PIPELINE if after["pp"] == 1 else {})


def _choices(plan: Plan, base: Plan, inputs: Inputs) -> dict[str, list[Any]]:
    """What can follow in several ways, each with the value that changes least first."""
    choices: dict[str, list[Any]] = {}
    if base.dp_replicate > 1:
        choices["dp_replicate"] = [base.dp_replicate, 1]
    if base.ep > 1:
        choices["ep"] = [base.ep, base.ep // 2, 2 * base.ep]
    if base.etp > 1:
        choices["etp"] = list(dict.fromkeys((base.etp, base.tp if plan.etp == plan.tp else base.etp, 1)))
    if base.pp > 1:
        choices |= _of_pipeline(plan, base, inputs)
    return choices


def _of_pipeline(plan: Plan, base: Plan, inputs: Inputs) -> dict[str, list[Any]]:
    choices = {name: [given, nothing] for name, nothing in RUNTIME_SPLIT.items() if (given := getattr(base, name))}
    if base.pp != plan.pp and base.vpp > 1:
        most = -(-(inputs.model.num_layers + 2) // base.pp)
        nearest = sorted(range(2, most + 1), key=lambda vpp: (abs(vpp - base.vpp), vpp))
        choices["vpp"] = nearest[:NEIGHBOURS] or [base.vpp]
    for name in ("embedding_as_layer", "head_as_layer"):
        choices[name] = [getattr(base, name), not getattr(base, name)]
    if base.vpp > 1:
        fitting = next(group_sizes(base.pp, base.num_microbatches), 0)
        choices["microbatch_group"] = list(dict.fromkeys((base.microbatch_group, 0, fitting)))
    else:
        choices["microbatch_group"] = [0]
    return choices

"""Shrink: a plan with fewer ranks on its axes, and a model that one laptop trains in a second."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from meshwright.errors import CannotVerify, InvalidInput
from meshwright.layout.legality import require_legal
from meshwright.layout.plan import Plan
from meshwright.layout.splits import layers_of_chunks
from meshwright.pytorch.real_world.small_model import small_model
from meshwright.schedules.records import Schedule
from meshwright.specs.inputs import Inputs

LEAST, MOST = 2, 4
"""Processes."""
SEQUENCE = 64
MICRO_BATCHES, IN_A_PIPELINE = 2, 4
MORE = 8
"""Layers and micro-batches beyond the usual ones that a legal plan is sought with."""
AXES = ("pp", "tp", "cp", "dp", "dp_replicate")
"""In the order in which they get ranks: what is hardest to get right in training stands first. `dp` is
without its replicas; ep takes its ranks from tp, cp and dp."""
THREE = ("pp", "dp", "dp_replicate")
"""The axes that can be 3; heads and sequences are split by powers of two."""


class Shrunken(NamedTuple):
    """What can be run on few processes."""

    plan: Plan
    inputs: Inputs
    left_out: tuple[str, ...]
    """What of the plan is not run, in words."""


def shrunken(plan: Plan, inputs: Inputs, processes: int) -> Shrunken:
    """The plan on 2 to 4 ranks, with the same kinds of layers at a 64th of their width and less.

    Axes that the plan splits get 2 ranks each, in the order of `AXES`, as long as there are processes; where only one
    is split, it gets 4. Three processes are one axis, of `THREE`. Everything else stays: schedule, recomputation, ZeRO
    stage, and more than one sequence or chunk where the plan has more.

    processes: 2 to 4, a count. Raises `CannotVerify` where they are other than that or more than the axes fill, or
    where nothing legal is left.
    """
    if not LEAST <= processes <= MOST:
        raise CannotVerify(f"--real {processes}: a plan is trained with {LEAST} to {MOST} processes")
    small = _on_fewer_ranks(plan, _filled(_degrees(plan), processes))
    return Shrunken(*_legal(small, inputs), tuple(_left_out(plan, small)))


def _degrees(plan: Plan) -> dict[str, int]:
    return {axis: getattr(plan, axis) for axis in AXES} | {"dp": plan.dp // plan.dp_replicate}


def _filled(degrees: dict[str, int], processes: int) -> dict[str, int]:
    """A degree for every axis; their product is the number of processes."""
    fewer = dict.fromkeys(AXES, 1)
    if math.prod(degrees.values()) == 1:
        raise CannotVerify("the plan has one rank: there is nothing to compare with one process")
    if processes == 3:
        axis = next((axis for axis in THREE if degrees[axis] >= 3), None)
        if axis is None:
            raise CannotVerify(f"--real 3 needs pp or dp of 3 or more, but {_split(degrees)}; use --real 2")
        return fewer | {axis: 3}
    for ranks in (2, 4):
        for axis in AXES:
            if degrees[axis] >= ranks and math.prod(fewer.values()) < processes:
                fewer[axis] = ranks
    filled = math.prod(fewer.values())
    if filled < processes:
        raise CannotVerify(
            f"--real {processes}: {_split(degrees)}, which fills {filled} processes; use --real {filled}"
        )
    return fewer


def _split(degrees: dict[str, int]) -> str:
    split = [f"{axis} {degree}" for axis, degree in degrees.items() if degree > 1]
    return f"the plan has {' and '.join(split)}"


def _on_fewer_ranks(plan: Plan, fewer: dict[str, int]) -> Plan:
    """The plan with these degrees, and without what names layers or groups of the larger one."""
    pipelined = fewer["pp"] > 1
    lends = fewer["tp"] * fewer["cp"] * fewer["dp"] % 2 == 0
    return replace(
        plan,
        tp=fewer["tp"],
        sp=plan.sp and fewer["tp"] > 1,
        cp=fewer["cp"],
        pp=fewer["pp"],
        vpp=min(plan.vpp, 2) if pipelined else 1,
        schedule=plan.schedule if pipelined else Schedule.ONE_F_ONE_B,
        embedding_as_layer=plan.embedding_as_layer and pipelined,
        head_as_layer=plan.head_as_layer and pipelined,
        dp=fewer["dp"] * fewer["dp_replicate"],
        dp_replicate=fewer["dp_replicate"],
        ep=2 if plan.ep > 1 and lends else 1,
        etp=1,
        micro_batch=min(plan.micro_batch, 2),
        num_microbatches=IN_A_PIPELINE if pipelined else MICRO_BATCHES,
        first_stage_layers=0,
        last_stage_layers=0,
        chunk_layers=(),
        microbatch_group=0,
        recompute_layers=min(plan.recompute_layers, 1),
    )


def _left_out(plan: Plan, small: Plan) -> Iterator[str]:
    asked, run = (_degrees(each) | {"ep": each.ep, "etp": each.etp} for each in (plan, small))
    for axis, degree in asked.items():
        if degree > 1 == run[axis]:
            yield f"{axis} {degree}: not run with {small.num_gpus} processes"
    if plan.chunk_layers or plan.first_stage_layers or plan.last_stage_layers:
        yield "numbers of layers that the plan names: split as the runtime does"
    if plan.microbatch_group:
        yield f"microbatch_group {plan.microbatch_group}: groups as the runtime makes them"


def _legal(plan: Plan, inputs: Inputs) -> tuple[Plan, Inputs]:
    """The plan with the fewest layers, one a chunk at least, and the fewest micro-batches that the runtime takes."""
    chunks, refusal = plan.pp * plan.vpp, ""
    fewest = max(len(set(inputs.model.layer_pattern)), 4, chunks)
    for layers in range(fewest, fewest + MORE):
        for count in range(plan.num_microbatches, plan.num_microbatches + MORE if plan.pp > 1 else 3):
            small = replace(plan, num_microbatches=count)
            try:
                asked = _asked(small, inputs, layers)
                require_legal(small, asked)
            except InvalidInput as error:
                refusal = refusal or str(error)
                continue
            if layers_of_chunks(asked, small).min() >= 1:
                return small, asked
            break
    raise CannotVerify(f"the plan cannot be trained with {plan.num_gpus} processes: {refusal}")


def _asked(plan: Plan, inputs: Inputs, layers: int) -> Inputs:
    """The small model on one node of as many accelerators behind their innermost links."""
    batch = plan.dp * plan.micro_batch * plan.num_microbatches
    job = {"sequence_length": SEQUENCE, "global_batch": batch, "tokens": None, "mtp_layers": None}
    even, ranks = {"expert_imbalance": 1.0, "expert_capacity": None}, plan.num_gpus
    level = inputs.cluster.levels[0].replace(size=ranks)
    one_node = {"num_nodes": 1, "gpus_per_node": ranks, "levels": (level,)}
    return Inputs(
        model=small_model(inputs.model, layers, plan.tp),
        cluster=inputs.cluster.replace(name=f"{ranks} processes", **one_node),
        job=inputs.job.replace(**job, **even),
        runtime=inputs.runtime,
    )

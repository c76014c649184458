"""Stages: which layers each stage of a 1F1B pipeline holds, by what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn, column
from meshwright.cost.memory.fit import Bounds, Verdict, verdict
from meshwright.cost.shape_times import ShapeTimes
from meshwright.cost.step import stage_costs
from meshwright.distinct import distinct_rows
from meshwright.layout.microbatches import filling
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.layout.splits import RUNTIME_SPLIT, layers_before, layers_of_chunks
from meshwright.layout.stages import Stages
from meshwright.schedules.peak import in_flight
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule
from meshwright.search.fits.bounds import unfit_stages
from meshwright.specs.inputs import Inputs


def best_splits(
    plans: Sequence[Plan], inputs: Inputs, times: ShapeTimes | None = None, accepted: Verdict = Verdict.AT_RISK
) -> list[Plan]:
    """Every plan with the layers of its 1F1B stages chosen by cost: as safe as can be, then the least time of the
    slowest stage, then the least memory of the fullest.

    A dynamic program over every split into consecutive layers, exact: with T the time of one micro-batch (head,
    embedding and multi-token prediction included) and M the bytes of stage s that holds layers j to i - 1,
    F(s, i) = min over j of max(F(s - 1, j), T(s, j, i)) over stages that are safe; then the same of M over stages
    with T no larger than F(pp, L). Stages between the ends hold a layer or more. The bubble of 1F1B is
    sum of T_s - max of T_s, so that the least maximum makes the shortest pipeline (arXiv:2104.04473, section 2.2).

    Returns the plan itself where the question asks for even chunks, or where it has no such pipeline, recomputes a part
    of the layers, or has a runtime that takes no numbers of layers. The stages of all plans are priced together. times:
    as of `estimate_plans`; accepted: the worst verdict of stages that are chosen.
    """
    asked = [plan for plan in plans if _divisible(plan, inputs)]
    splits = iter(_splits(asked, inputs, times, accepted) if asked else [])
    return [next(splits) if _divisible(plan, inputs) else plan for plan in plans]


def _divisible(plan: Plan, inputs: Inputs) -> bool:
    spelled = inputs.runtime.plans.takes_chunk_layers and not inputs.constraints.even_chunks
    one_chunk = plan.pp > 1 and plan.vpp == 1 and plan.schedule == Schedule.ONE_F_ONE_B
    return one_chunk and spelled and not plan.recompute_layers


def _fastest_split(
    plan: Plan,
    layers: IntColumn,
    run: IntColumn,
    worst: Verdict,
    times: FloatColumn,
    memory: FloatColumn,
    verdicts: FloatColumn,
) -> Plan:
    """layers: of the plan's own stages, shape (pp,); run: as of `_partition`; worst: the worst verdict that is
    accepted; the others: shape (pp, k).
    """
    ends = np.cumsum(layers)
    own = np.arange(plan.pp), run[ends - layers, ends]
    for accepted in range(worst + 1):
        fits = verdicts <= accepted
        # No stage of the best split takes longer than the slowest of the plan's own, where these are accepted.
        most = times[own].max() if fits[own].all() else np.inf
        slowest, _ = _partition(run, np.where(fits & (times <= most), times, np.inf))
        if np.isfinite(slowest):
            _, ends = _partition(run, np.where(fits & (times <= slowest), memory, np.inf))
            return with_chunks(plan, np.diff(ends))
    return plan


def named_by_ends(plan: Plan, inputs: Inputs) -> Plan:
    """The same layers in fewer numbers, where all stages but the first and the last hold as many: those of these two,
    or none. The plan itself where that does not say its chunks, or its runtime takes no such numbers.
    """
    sizes = plan.chunk_layers
    between = {*sizes[1:-1]} or {*sizes[-1:]}
    if not inputs.runtime.plans.takes_end_stage_layers or plan.vpp > 1 or len(between) != 1 or not all(sizes):
        return plan
    first, last = (0 if size in between else size for size in (sizes[0], sizes[-1]))
    return replace(plan, chunk_layers=(), first_stage_layers=first, last_stage_layers=last)


def with_chunks(plan: Plan, layers: IntColumn) -> Plan:
    """The plan with these layers in every chunk, shape (pp x vpp,), in place of whatever else the plan says of them."""
    return replace(plan, **RUNTIME_SPLIT | {"chunk_layers": tuple(layers.tolist())})


def _partition(run: IntColumn, costs: FloatColumn) -> tuple[float, IntColumn]:
    """The split of layers 0 to L - 1 into stages whose largest cost is least, and where its stages end.

    run: which of k costs layers j to i - 1 have, k where there is no such run, shape (L + 1, L + 1); costs: of stage s
    with each, shape (stages, k). Runs that no stage may have are not looked at, and the tables of one stage at a time.
    Returns that cost and L + 1 borders at most.
    """
    allowed, last = np.append(np.isfinite(costs).any(axis=0), False)[run], np.arange(len(run))
    widest = int((allowed * (last - last[:, None])).max())
    # Where stages begin that end at layer i and hold at most as many layers as any may, (widest + 1, L + 1).
    begin = np.maximum(last - np.arange(widest, -1, -1)[:, None], 0)
    own = run[begin, last]
    best, borders = np.full(len(run), np.inf), []
    best[0] = -np.inf
    for cost in costs:
        reached = np.maximum(best[begin], np.append(cost, np.inf)[own])
        borders.append(begin[reached.argmin(axis=0), last])
        best = reached.min(axis=0)
    ends = [len(run) - 1]
    for border in reversed(borders):
        ends.append(int(border[ends[-1]]))
    return float(best[-1]), np.array(ends[::-1])


def _splits(plans: Sequence[Plan], inputs: Inputs, times: ShapeTimes | None, accepted: Verdict) -> Iterator[Plan]:
    """Every plan with the layers of its stages chosen.

    By the seconds, bytes and verdict of stage s with each run of layers, shape (pp, k), infinite where there is no such
    stage, or it cannot fit. What a stage costs depends on its layers by kind alone: each number of them is priced once.
    """
    layers, before = inputs.model.num_layers + 1, layers_before(inputs.model)
    first, last = np.triu_indices(layers)
    kinds, index = distinct_rows(*(before[last] - before[first]).T)
    counts = np.stack(np.broadcast_arrays(*kinds), axis=1)
    run = np.full((layers, layers), len(counts))
    run[first, last] = index
    stages = Stages.join(
        [
            as_stages(plan, inputs, np.repeat(np.arange(plan.pp), len(counts)), np.tile(counts, (plan.pp, 1)))
            for plan in plans
        ]
    )
    columns, of_chunks = Plans.of(plans), [layers_of_chunks(inputs, plan) for plan in plans]
    own = [
        start + np.arange(plan.pp) * len(counts) + run[np.cumsum(held) - held, np.cumsum(held)]
        for plan, held, start in zip(plans, of_chunks, stages.start, strict=True)
    ]
    may_fit = ~unfit_stages(filling(columns), stages, inputs, accepted)
    may_fit[np.concatenate(own)] = True
    priced = np.flatnonzero(may_fit)
    values = np.full((3, len(may_fit)), np.inf)
    values[:, priced] = _priced(columns, stages.some_of_each(priced), inputs, times)
    for plan, held, start in zip(plans, of_chunks, stages.start, strict=True):
        of_plan = (each[start : start + plan.pp * len(counts)].reshape(plan.pp, -1) for each in values)
        yield _fastest_split(plan, held, run, accepted, *of_plan)


def _priced(plans: Plans, stages: Stages, inputs: Inputs, times: ShapeTimes | None) -> FloatColumn:
    """Seconds, bytes and verdict of every stage, infinite where there is none; shape (3, r)."""
    seconds, held = stage_costs(plans, stages, inputs, times)
    memory, routing = held.memory, held.routing_bytes(np.arange(len(stages.plan)))
    limits = Bounds.of(memory, inputs, routing)
    between = (stages.stage > 0) & (stages.stage < plans.pp[stages.plan] - 1)
    there = ~between | (stages.layers.sum(axis=1) > 0)
    return np.where(there, np.array([seconds, memory.device, verdict(limits, inputs)]), np.inf)


def as_stages(plan: Plan, inputs: Inputs, block: IntColumn, layers: IntColumn) -> Stages:
    """These blocks of a pipeline, 0 first, each as if it were all of its rank's stage, with these layers of each kind;
    those of multi-token prediction with the head.

    block: shape (r,); layers: shape (r, kinds).
    """
    stage, head = block % plan.pp, block == plan.pp * plan.vpp - 1
    shape = PipelineShape(
        stages=plan.pp, micro_batches=plan.num_microbatches, chunks=plan.vpp, microbatch_group=plan.pp
    )
    live = column(in_flight(plan.schedule, stage, shape))
    predicted, none = np.zeros_like(layers), np.zeros_like(layers)
    predicted[:, inputs.model.layer_pattern[-1]] = inputs.mtp_layers * head
    return Stages(
        plan=np.zeros(len(stage), dtype=np.int64),
        start=np.zeros(1, dtype=np.int64),
        stage=stage,
        layers=layers + predicted,
        last_chunk_layers=inputs.runtime.sharding.defers_reduction * (layers + predicted),
        first_chunk_layers=inputs.runtime.sharding.defers_reduction * (layers + predicted),
        in_flight_layers=layers * live[:, None] + predicted,
        further_layers=none,
        layers_not_recomputed=none,
        in_flight_not_recomputed=none,
        model_layers_not_recomputed=none,
        waiting_layers=none,
        in_flight_micro_batches=live,
        in_flight_chunks=live,
        in_flight_at_head=live * head,
        receives=inputs.runtime.pipeline.receives_ahead * ((block > 0) * 1 + ~head),
        embedding=block == 0,
        head=head,
        copies=np.ones_like(stage),
    )

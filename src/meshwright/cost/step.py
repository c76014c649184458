"""Step: puts the formulas together for one optimizer step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from operator import methodcaller

import numpy as np

from meshwright.arrays import FloatColumn, Floats, IntColumn, blocks, column, filled, some, total, where
from meshwright.cost.comms.data import shares_embedding, tied_embedding_exchange
from meshwright.cost.comms.exchange import exposed_seconds
from meshwright.cost.comms.pipeline import pipeline_exchanges
from meshwright.cost.comms.sharded import gathers_weights
from meshwright.cost.compute.optimizer import optimizer_time
from meshwright.cost.estimate import Estimate, Estimates, Waterfall
from meshwright.cost.footprint import Footprints, PlanTable, footprints_of
from meshwright.cost.memory.in_flight import waiting_share
from meshwright.cost.runs import Runs
from meshwright.cost.shape_times import ShapeTimes
from meshwright.cost.shapes import Pipelines, Weights, alone
from meshwright.cost.stage_works import BothPasses, StageWorks
from meshwright.cost.unit import UnitTime, UnitTimes, unit_times
from meshwright.cost.weights import StageWeights, layer_by_layer, once_a_step
from meshwright.distinct import combined, gathered, rows_of, spread
from meshwright.layout.microbatches import filling
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout, Plans
from meshwright.layout.stages import Stages
from meshwright.schedules.pipeline import PassTimes, PipelineTimes
from meshwright.schedules.records import bubble_time
from meshwright.specs.inputs import Inputs


def estimate_plans(
    plans: Plans, inputs: Inputs, *, keep_all_stages: bool = False, times: ShapeTimes | None = None
) -> Estimates:
    """Price legal plans: time waterfall and memory of every stage.

    keep_all_stages: False leaves out stages that another one exceeds in everything; the answers are the same. times:
    of the shapes of one micro-batch that other tables of the question have had; None: of none. plans: shape (n,).
    Returns seconds and bytes. Source: the formulas of `cost.unit`, `cost.comms`, `cost.memory` and
    `schedules`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.layout.plans import Plans
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> estimates = estimate_plans(Plans.of([Plan(tp=8), Plan(dp=8, zero=1, num_microbatches=8)]), LLAMA)
    >>> bool((estimates.step_time_s > 0).all())
    True
    """
    return estimates_of(footprints_of(plans, inputs, keep_all_stages=keep_all_stages), times)


def estimates_of(footprints: Footprints, times: ShapeTimes | None = None) -> Estimates:
    """The same of plans whose memory is known.

    footprints: of legal plans; times: as in `estimate_plans`. Returns seconds and bytes. Source: `estimate_plans`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.layout.plans import Plans
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> bool(estimates_of(footprints_of(Plans.of([Plan(tp=8)]), LLAMA)).step_time_s[0] > 0)
    True
    """
    units, runs = _units(footprints, times), footprints.runs
    works = StageWorks.of(footprints, units)
    slowest, work = works.slowest(runs), works.row.take(runs.of_stage)
    return Estimates(
        **{field.name: getattr(footprints, field.name) for field in fields(Footprints)},
        time=_waterfall(footprints, units, works, slowest, work),
        slowest=footprints.stages.start + (slowest - runs.stages.start).take(runs.of_plan),
        works=works.each,
        work=work,
    )


def least_step_time(table: PlanTable, times: ShapeTimes | None = None) -> FloatColumn:
    """Seconds of a step without what comes once in it, the exchanges of data parallelism and the optimizer: no plan
    takes less, and this needs none of its memory.

    table: of legal plans; times: as in `estimate_plans`. Returns seconds, shape (n,). Source: `estimate_plans`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> estimates = estimate_plans(Plans.of([Plan(tp=2, dp=4, zero=1), Plan(tp=8)]), LLAMA)
    >>> bool((least_step_time(estimates) < estimates.step_time_s).all())
    True
    """
    units, runs = _units(table, times), table.runs
    works = StageWorks.of(table, units)
    least = _micro_batches(table, units, works.at(works.slowest(runs))).total
    return filled(spread(least, runs.of_plan), len(runs.of_plan))


def estimate_each(plans: Iterable[Plan], inputs: Inputs) -> tuple[Estimate, ...]:
    """The estimate of every given plan, with all its stages.

    plans: legal ones. Returns seconds and bytes. Source: `estimate_plans`.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> (estimate,) = estimate_each([Plan(tp=8, num_microbatches=64)], LLAMA)
    >>> len(estimate.stages), estimate.step_time_s > 0
    (1, True)
    """
    estimates = estimate_plans(Plans.of(plans), inputs, keep_all_stages=True)
    return tuple(estimates[row] for row in range(len(estimates)))


def stage_costs(
    plans: Plans, stages: Stages, inputs: Inputs, times: ShapeTimes | None = None
) -> tuple[FloatColumn, Footprints]:
    """Seconds of one micro-batch and the memory of stages that plans could have, shape (r,).

    plans: shape (n,), one or more; stages: theirs, as many for each pipeline rank as there are splits to compare;
    times: as in `estimate_plans`. Returns seconds and bytes. Source: `estimate_plans`.
    """
    filled = filling(plans)
    each = alone(filled)
    pipelines = Pipelines(
        plans=filled,
        stages=stages,
        of_plan=np.arange(len(plans)),
        of_stage=np.arange(len(stages.plan)),
        alike=np.arange(len(stages.plan)),
        weights=Weights.of(filled, each, stages),
        each=each,
    )
    footprints = Footprints.of(plans, pipelines, stages, inputs)
    works = StageWorks.of(footprints, _units(footprints, times))
    return column(works.both.total)[works.row[footprints.runs.of_stage]], footprints


def _units(table: PlanTable, times: ShapeTimes | None) -> UnitTimes:
    partly = some(table.pipelines.stages.layers_not_recomputed)
    if times is None:
        return unit_times(table.shapes.plans, table.inputs, some_not_recomputed=partly)
    return times.of(table.shapes.plans, some_not_recomputed=partly)


def _pipeline(table: PlanTable, units: UnitTimes, plans: Layout, slowest: PassTimes) -> PipelineTimes:
    """What the idle time of every run's schedule depends on."""
    inputs, shape = table.inputs, table.runs.shapes.of_plan
    whole = units.embedding.plus(units.head).passes
    for layers, layer in zip(inputs.layers_per_kind, units.layers, strict=True):
        whole = combined(lambda part, more, count=layers: part + count * more, whole, layer.passes)
    limited = inputs.runtime.pipeline.limits_waiting_bytes
    waiting = spread(waiting_share(table.shapes.plans, inputs), shape) if limited else 1.0
    return PipelineTimes(
        slowest=slowest,
        whole=_less_not_recomputed(gathered(whole, shape), table.runs, units),
        stages=plans.pp,
        chunks=plans.vpp,
        micro_batches=plans.num_microbatches,
        waiting=waiting,
        overlaps_steps=inputs.runtime.pipeline.overlaps_steps,
    )


def _less_not_recomputed(whole: PassTimes, runs: Runs, units: UnitTimes) -> PassTimes:
    """The passes of the whole model, less what the layers that full recomputation leaves out save."""
    if not units.layers_not_recomputed:
        return whole
    shape, counts = runs.shapes.of_plan, runs.stages.model_layers_not_recomputed[runs.stages.start]
    for kind, (layer, plain) in enumerate(zip(units.layers, units.layers_not_recomputed, strict=False)):
        whole = combined(
            lambda part, more, less, count=counts[:, kind]: part - count * spread(more - less, shape),
            whole,
            layer.passes,
            plain.passes,
        )
    return whole


def _waterfall(
    footprints: Footprints, units: UnitTimes, works: StageWorks, slowest: IntColumn, work: IntColumn
) -> Waterfall[FloatColumn]:
    """Step time seen from the slowest stage: m micro-batches of its work, what the others add, and what comes once.

    slowest: rows of the runs' stages, shape (k,); work: the row of every stage of the plans among `works`, shape (r,).
    """
    inputs, pipelines, pipeline = footprints.inputs, footprints.pipelines.plans, footprints.pipelines.of_plan
    of_runs = _micro_batches(footprints, units, works.at(slowest))
    exposed = footprints.stages.largest(_exposed_weights(footprints, units, works.each, work))
    if shares_embedding(inputs) and some(pipelines.pp > 1):
        exposed = exposed + rows_of(tied_embedding_exchange(pipelines, inputs).exposed(inputs), pipeline)
    whole = gathered(of_runs, footprints.runs.of_plan)._replace(
        exposed_dp_s=exposed,
        optimizer_s=_optimizer_time(footprints).take(pipeline),
    )
    return Waterfall(*(filled(part, len(pipeline)) for part in whole))


def _micro_batches(table: PlanTable, units: UnitTimes, work: BothPasses) -> Waterfall[Floats]:
    """What of a step every run has, shape (k,): all but what data parallelism exchanges and the optimizer."""
    inputs, plans = table.inputs, alone(table.runs.plans)
    count, pipelined = plans.num_microbatches, plans.pp > 1
    between: Floats = 0.0
    idle: Floats = 0.0
    if some(pipelined):
        between = exposed_seconds(pipeline_exchanges(plans, inputs, work.total), inputs)
        idle = bubble_time(plans.schedule, _pipeline(table, units, plans, work.passes))
    return Waterfall(
        compute_s=count * work.compute,
        exposed_tp_s=count * work.tensor,
        exposed_cp_s=count * work.context,
        exposed_ep_s=count * work.expert,
        exposed_pp_s=where(pipelined, between, 0.0),
        exposed_dp_s=0.0,
        bubble_s=where(pipelined, idle, 0.0),
        optimizer_s=0.0,
        host_s=count * work.host + inputs.host_s_per_step,
    )


def _optimizer_time(footprints: Footprints) -> FloatColumn:
    """Seconds of the optimizer on the slowest stage of every pipeline, shape (p,)."""
    weights, held = footprints.pipelines.weights, footprints.held_parameters
    each = column(optimizer_time(weights.each, footprints.inputs, held.trained, held.trained_experts))
    return footprints.pipelines.stages.largest(each.take(weights.of_stage))


def _exposed_weights(footprints: Footprints, units: UnitTimes, works: UnitTime, work: IntColumn) -> FloatColumn:
    """Exposed seconds per step of what data parallelism exchanges, of every stage, shape (r,)."""
    inputs, joins, plan = footprints.inputs, methodcaller("joined"), footprints.stages.plan
    sharded = column(gathers_weights(footprints.plans, inputs)).take(plan)
    exposed: FloatColumn = np.zeros(len(plan))
    divided = np.flatnonzero(sharded)
    if len(divided) < len(plan):
        # Where few are divided, all stages cost less than to choose the others.
        others = None if 2 * len(divided) < len(plan) else np.flatnonzero(~sharded)
        once = once_a_step(footprints, works, work, joins)
        for block in blocks(len(plan) if others is None else len(others)):
            rows = block if others is None else others[block]
            exposed[rows] = _weights_exposed([once(rows)], inputs)
    if len(divided):
        exposed[divided] = _weights_exposed(layer_by_layer(footprints, units, divided, joins), inputs)
    return exposed


def _weights_exposed(weights: Iterable[StageWeights], inputs: Inputs) -> FloatColumn:
    return column(total(each.pieces * exposed_seconds(each.exchanges, inputs) for each in weights))

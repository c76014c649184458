"""Step: puts the formulas together for one optimizer step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn
from meshwright.cost.comms.data import (
    DataExchange,
    data_exchange,
    data_exchanges,
    earlier_reductions,
    shard_messages,
    tied_embedding_exchange,
)
from meshwright.cost.comms.exchange import exposed_seconds
from meshwright.cost.comms.pipeline import pipeline_exchanges
from meshwright.cost.comms.sharded import (
    Gathers,
    end_exchanges,
    end_gathers,
    gathers_per_step,
    gathers_weights,
    kept_share,
    sharded_exchanges,
)
from meshwright.cost.compute.optimizer import optimizer_time
from meshwright.cost.estimate import Estimate, Estimates, Waterfall
from meshwright.cost.footprint import Footprints, first_largest, footprints_of
from meshwright.cost.memory.components import Components
from meshwright.cost.memory.parameters import expert_parameters, layer_parameters
from meshwright.cost.memory.stage import stage_parameters
from meshwright.cost.memory.waiting import waiting_share
from meshwright.cost.pipelines import Pipelines
from meshwright.cost.tree import combined
from meshwright.cost.unit import UnitTime, UnitTimes, unit_times
from meshwright.distinct import distinct_rows, gathered, on_distinct
from meshwright.layout.microbatches import filling
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages
from meshwright.schedules.pipeline import PassTimes, PipelineTimes
from meshwright.schedules.records import bubble_time
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


class _Updates(NamedTuple):
    """What a pipeline does once a step."""

    exchange: DataExchange
    """Of each of its stages, shape (q,)."""
    optimizer: FloatColumn
    """Seconds on its slowest stage, shape (p,)."""
    tied: FloatColumn
    """Seconds of summing tied embeddings, shape (p,)."""


class _Works(NamedTuple):
    """Seconds of one micro-batch on the stages of plans."""

    each: UnitTime
    """Of every pair of a micro-batch's shape and a stage's layers and ends that there is, shape (w,)."""
    row: IntColumn
    """The pair of every stage, shape (r,)."""


def estimate_plans(plans: Plans, inputs: Inputs, *, keep_all_stages: bool = False) -> Estimates:
    """Price legal plans: time waterfall and memory of every stage.

    keep_all_stages: False leaves out stages that another one exceeds in everything; the answers are the same.
    """
    held = footprints_of(plans, inputs, keep_all_stages=keep_all_stages)
    units = unit_times(held.shapes.plans, inputs, some_kept=bool(held.pipelines.stages.kept_layers.any()))
    works = _works(held, units)
    slowest = first_largest(works.each.total[works.row], held.stages)
    work = works.each.rows(works.row[slowest])
    return Estimates(
        **vars(held),
        time=_waterfall(held, units, works, work),
        compute=work.forward.plus(work.backward).scaled(plans.num_microbatches),
        slowest=slowest,
        works=works.each,
        work=works.row,
    )


def estimate_each(plans: Iterable[Plan], inputs: Inputs) -> tuple[Estimate, ...]:
    """The estimate of every given plan, with all its stages."""
    estimates = estimate_plans(Plans.of(plans), inputs, keep_all_stages=True)
    return tuple(estimates[row] for row in range(len(estimates)))


def stage_costs(plan: Plan, stages: Stages, inputs: Inputs) -> tuple[FloatColumn, Components]:
    """Seconds of one micro-batch and bytes by component of stages that one plan could have, shape (r,).

    stages: of that plan alone, as many for each pipeline rank as there are splits to compare.
    """
    plans = Plans.of([plan])
    pipelines = Pipelines(
        plans=filling(plans), stages=stages, of_plan=np.zeros(1, dtype=np.int64), of_stage=np.arange(len(stages.plan))
    )
    held = Footprints.of(plans, pipelines, stages, inputs)
    works = _works(held, unit_times(held.shapes.plans, inputs, some_kept=bool(stages.kept_layers.any())))
    return works.each.total[works.row], held.memory


def _works(held: Footprints, units: UnitTimes) -> _Works:
    stages = held.pipelines.stages
    again = stages.layers - stages.kept_layers
    ends = stages.embedding * 1, stages.head * 1, stages.copies
    (*counts, embedding, head, copies), kind = distinct_rows(*again.T, *stages.kept_layers.T, *ends)
    (shape, kind), row = distinct_rows(held.shapes.of_plan[held.stages.plan], kind[held.pipelines.of_stage])
    time = units.embedding.rows(shape).scaled(embedding[kind])
    time = time.plus(units.head.rows(shape).scaled(head[kind]))
    for count, layer in zip(counts, (*units.layers, *units.kept_layers), strict=False):
        time = time.plus(layer.rows(shape).scaled(count[kind]))
    return _Works(time.scaled(1 / copies[kind]), row)


def _pipeline(held: Footprints, units: UnitTimes, slowest: UnitTime) -> PipelineTimes:
    """What the idle time of every plan's schedule depends on."""
    inputs, plans, shape = held.inputs, held.plans, held.shapes.of_plan
    whole = units.embedding.plus(units.head).passes
    for layers, layer in zip(inputs.layers_per_kind, units.layers, strict=True):
        whole = combined(lambda part, more, count=layers: part + count * more, whole, layer.passes)
    waiting = waiting_share(held.shapes.plans, inputs)[shape] if inputs.runtime.pipeline.limits_waiting_bytes else 1.0
    return PipelineTimes(
        slowest=slowest.passes,
        whole=_less_kept(combined(lambda part: part[shape], whole), held, units),
        stages=plans.pp,
        chunks=plans.vpp,
        micro_batches=plans.num_microbatches,
        waiting=waiting,
        overlaps_steps=inputs.runtime.pipeline.overlaps_steps,
    )


def _less_kept(whole: PassTimes, held: Footprints, units: UnitTimes) -> PassTimes:
    """The passes of the whole model, less what the layers that full recomputation leaves out save."""
    shape, counts = held.shapes.of_plan, held.stages.kept_in_model[held.stages.start]
    for kind, (layer, kept) in enumerate(zip(units.layers, units.kept_layers, strict=False)):
        whole = combined(
            lambda part, more, less, count=counts[:, kind]: part - count * (more - less)[shape],
            whole,
            layer.passes,
            kept.passes,
        )
    return whole


def _waterfall(held: Footprints, units: UnitTimes, works: _Works, work: UnitTime) -> Waterfall:
    """Step time seen from the slowest stage: m micro-batches of its work, what the others add, and what comes once."""
    inputs, plans, pipeline = held.inputs, held.plans, held.pipelines.of_plan
    count, updates = plans.num_microbatches, _updates(held.pipelines, inputs)
    idle = bubble_time(plans.schedule, _pipeline(held, units, work))
    exposed = np.maximum.reduceat(_exchanged(held, units, works, updates.exchange), held.stages.start)
    return Waterfall(
        compute_s=count * (work.forward.total + work.backward.total),
        exposed_tp_s=count * (work.exposed_forward.tensor + work.exposed_backward.tensor),
        exposed_cp_s=count * (work.exposed_forward.context + work.exposed_backward.context),
        exposed_ep_s=count * (work.exposed_forward.expert + work.exposed_backward.expert),
        exposed_pp_s=exposed_seconds(pipeline_exchanges(plans, inputs, work.total), inputs),
        exposed_dp_s=exposed + updates.tied[pipeline],
        bubble_s=np.where(plans.pp > 1, idle, 0.0),
        optimizer_s=updates.optimizer[pipeline],
        host_s=count * work.host + inputs.runtime.host.host_s_per_step,
    )


def _updates(pipelines: Pipelines, inputs: Inputs) -> _Updates:
    plans, stages = pipelines.plans, pipelines.stages
    rows, parameters = plans.take(stages.plan), stage_parameters(plans, stages, inputs)
    return _Updates(
        data_exchange(rows, inputs, parameters.dense, stages.stage, parameters.experts, parameters.ends).joined(),
        np.maximum.reduceat(optimizer_time(rows, inputs, parameters.dense, parameters.experts), stages.start),
        tied_embedding_exchange(plans, inputs).exposed(inputs),
    )


def _exchanged(held: Footprints, units: UnitTimes, works: _Works, exchange: DataExchange) -> FloatColumn:
    """Exposed seconds per step of what data parallelism exchanges, of every stage, shape (r,)."""
    plan, time = held.stages.plan, works.each
    sharded = gathers_weights(held.plans, held.inputs)[plan]
    exposed: FloatColumn = np.zeros(len(plan))
    whole = np.flatnonzero(~sharded)
    if len(whole):
        forward, backward = time.forward_total + time.host_forward, time.backward_total + time.host_backward
        row, reductions = works.row[whole], earlier_reductions(held.plans)[plan[whole]]
        each = gathered(exchange, held.pipelines.of_stage[whole])
        exchanges = data_exchanges(each, held.inputs, forward[row], backward[row], reductions)
        exposed[whole] = exposed_seconds(exchanges, held.inputs)
    if len(whole) < len(plan):
        exposed[sharded] = _sharded(held, units, np.flatnonzero(sharded))
    return exposed


def _sharded(held: Footprints, units: UnitTimes, chosen: IntColumn) -> FloatColumn:
    """Exposed seconds per step of the chosen stages: layers beside their passes, the ends before and after them."""
    inputs, stages, plan = held.inputs, held.stages, held.stages.plan[chosen]
    rows, live, stage = held.plans.take(plan), stages.live_micro_batches[chosen], stages.stage[chosen]
    times = gathers_per_step(rows, inputs, live, stage)
    ends = end_gathers(rows, inputs, live, stage)
    exposed = _exposed_ends(held, held.pipelines.of_stage[chosen], ends)
    for index, (kind, unit) in enumerate(zip(inputs.model.layer_kinds, units.layers, strict=True)):
        exposed = exposed + stages.layers[chosen, index] * _exposed_layer(held, plan, times, kind, unit)
    return exposed


def _exposed_ends(held: Footprints, stage: IntColumn, times: Gathers) -> FloatColumn:
    """Of embedding, final norm and head; stage: the row of every stage among those of the pipelines."""
    inputs, (pipelines, stages, *_) = held.inputs, held.pipelines
    ends = stage_parameters(pipelines, stages, inputs).ends
    messages = on_distinct(
        lambda some: shard_messages(pipelines.take(stages.plan[some]), inputs, ends[some], ends=ends[some]).joined(),
        stage,
    )
    exchanges = end_exchanges(inputs, messages, ends[stage], times)
    whole: FloatColumn = exposed_seconds(exchanges, inputs)
    return whole


def _exposed_layer(held: Footprints, plan: IntColumn, times: Gathers, kind: LayerKind, unit: UnitTime) -> FloatColumn:
    """Of one layer of a kind; plan: of every row; times: of its stage."""
    inputs, pipelines, shape = held.inputs, held.pipelines.plans, held.shapes.of_plan[plan]
    dense, experts = layer_parameters(pipelines, inputs, kind), expert_parameters(pipelines, inputs, kind)
    pipeline = held.pipelines.of_plan[plan]
    messages = on_distinct(
        lambda some: shard_messages(pipelines.take(some), inputs, dense[some], experts[some]).joined(), pipeline
    )
    forward, backward = unit.forward_total + unit.host_forward, unit.backward_total + unit.host_backward
    kept = kept_share(held.plans.take(plan), inputs)
    weights, passes = (dense + experts)[pipeline], (forward[shape], backward[shape])
    exposed: FloatColumn = exposed_seconds(sharded_exchanges(inputs, messages, weights, *passes, kept, times), inputs)
    return exposed

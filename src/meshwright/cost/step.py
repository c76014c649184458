"""Step: puts the formulas together for one optimizer step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn
from meshwright.cost import schedules
from meshwright.cost.comms.data import exposed_data_time, tied_embedding_time
from meshwright.cost.comms.pipeline import exposed_pipeline_time
from meshwright.cost.comms.sharded import (
    exposed_sharded_time,
    gather_copies_time,
    gathers_per_step,
    gathers_weights,
    sharded_exchange_time,
)
from meshwright.cost.compute.optimizer import optimizer_time
from meshwright.cost.estimate import Estimate, Estimates, Waterfall
from meshwright.cost.memory.stage import StageParameters, stage_memory, stage_parameters
from meshwright.cost.unit import Units, UnitTime, unit_costs
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages, split_stages
from meshwright.specs.inputs import Inputs


def estimate_plans(plans: Plans, inputs: Inputs, *, keep_all_stages: bool = False) -> Estimates:
    """Price legal plans: time waterfall and memory of every stage.

    keep_all_stages: False leaves out stages that another one exceeds in everything; the answers are the same.
    """
    stages = split_stages(inputs, plans, schedules.kept_chunks, keep_all=keep_all_stages)
    stages = _with_prediction(stages, inputs)
    units = unit_costs(plans, inputs)
    stage_time = _stage_time(stages, units)
    parameters = stage_parameters(plans, stages, units, inputs)
    memory = stage_memory(plans, stages, units, parameters, inputs)
    slowest = _first_largest(stage_time.total, stages)
    time = _waterfall(plans, stages, units, stage_time, slowest, parameters, inputs)
    work = stage_time.rows(slowest)
    return Estimates(
        inputs=inputs,
        plans=plans,
        stages=stages,
        time=time,
        compute=work.forward.plus(work.backward).scaled(plans.num_microbatches),
        slowest=slowest,
        stage_time=stage_time,
        memory=memory,
        worst=_first_largest(memory.device, stages),
    )


def estimate_each(plans: Iterable[Plan], inputs: Inputs) -> tuple[Estimate, ...]:
    """The estimate of every given plan, with all its stages."""
    estimates = estimate_plans(Plans.of(plans), inputs, keep_all_stages=True)
    return tuple(estimates[row] for row in range(len(estimates)))


def _with_prediction(stages: Stages, inputs: Inputs) -> Stages:
    """The stages with the layers of multi-token prediction on those of the head, in their last chunk.

    A last chunk works backward as soon as it has worked forward: it keeps one micro-batch.
    Source: Megatron-LM, multi_token_prediction.py, get_mtp_num_layers_to_build.
    """
    added = np.zeros_like(stages.layers)
    added[:, inputs.model.layer_pattern[-1]] = inputs.mtp_layers * stages.head
    return replace(stages, layers=stages.layers + added, live_layers=stages.live_layers + added)


def _stage_time(stages: Stages, units: Units) -> UnitTime:
    time = units.embedding.rows(stages.plan).scaled(stages.embedding)
    time = time.plus(units.head.rows(stages.plan).scaled(stages.head))
    for kind, layer in enumerate(units.layers):
        time = time.plus(layer.rows(stages.plan).scaled(stages.layers[:, kind]))
    return time.scaled(1 / stages.copies)


def _pipeline(plans: Plans, units: Units, slowest: UnitTime, inputs: Inputs) -> schedules.Pipeline:
    """What the idle time of every plan's schedule depends on."""
    whole = units.embedding.plus(units.head)
    saved = waiting = 0.0
    for layers, layer, memory, late in zip(
        inputs.layers_per_kind, units.layers, units.layer_memory, units.waiting, strict=True
    ):
        whole = whole.plus(layer.scaled(layers))
        saved, waiting = saved + layers * memory.saved, waiting + layers * late
    return schedules.Pipeline(
        slowest=slowest.passes,
        whole=whole.passes,
        stages=plans.pp,
        chunks=plans.vpp,
        micro_batches=plans.num_microbatches,
        waiting=np.minimum(waiting / saved, 1.0) if inputs.runtime.limits_waiting_bytes else 1.0,
        overlaps_steps=inputs.runtime.overlaps_steps,
    )


def _waterfall(
    plans: Plans,
    stages: Stages,
    units: Units,
    stage_time: UnitTime,
    slowest: IntColumn,
    parameters: StageParameters,
    inputs: Inputs,
) -> Waterfall:
    """Step time seen from the slowest stage: m micro-batches of it, what the others add, and what comes once a step."""
    work, count = stage_time.rows(slowest), plans.num_microbatches
    pipeline = _pipeline(plans, units, work, inputs)
    rows = plans.take(stages.plan)
    updates = np.maximum.reduceat(optimizer_time(rows, inputs, parameters.dense, parameters.experts), stages.start)
    exchanged = _exchanged(plans, stages, units, stage_time, parameters, inputs)
    return Waterfall(
        compute_s=count * (work.forward.total + work.backward.total),
        exposed_tp_s=count * (work.exposed_forward.tensor + work.exposed_backward.tensor),
        exposed_cp_s=count * (work.exposed_forward.context + work.exposed_backward.context),
        exposed_ep_s=count * (work.exposed_forward.expert + work.exposed_backward.expert),
        exposed_pp_s=exposed_pipeline_time(plans, inputs, work.total),
        exposed_dp_s=exchanged,
        bubble_s=np.where(plans.pp > 1, schedules.bubble_time(plans.schedule, pipeline), 0.0),
        optimizer_s=updates,
        host_s=count * work.host + inputs.runtime.host_s_per_step,
    )


def _exchanged(
    plans: Plans, stages: Stages, units: Units, stage_time: UnitTime, parameters: StageParameters, inputs: Inputs
) -> FloatColumn:
    """Exposed seconds per step of what data parallelism exchanges, on the stage where it is most."""
    forward = stage_time.forward_total + stage_time.host_forward
    backward = stage_time.backward_total + stage_time.host_backward
    gathered = gathers_weights(plans, inputs)[stages.plan]
    exchanged: FloatColumn = np.zeros(len(stages.plan))
    whole = np.flatnonzero(~gathered)
    if len(whole):
        rows, dense, experts = plans.take(stages.plan[whole]), parameters.dense[whole], parameters.experts[whole]
        passes, ends = (forward[whole], backward[whole]), parameters.ends[whole]
        exchanged[whole] = exposed_data_time(rows, inputs, dense, *passes, stages.stage[whole], experts, ends)
    if len(whole) < len(gathered):
        exchanged[gathered] = _sharded(plans, stages, units, parameters, inputs, np.flatnonzero(gathered))
    worst: FloatColumn = np.maximum.reduceat(exchanged, stages.start) + tied_embedding_time(plans, inputs)
    return worst


def _sharded(
    plans: Plans, stages: Stages, units: Units, parameters: StageParameters, inputs: Inputs, chosen: IntColumn
) -> FloatColumn:
    """Exposed seconds per step of the chosen stages: layers beside their passes, the ends before and after them."""
    runtime, plan = inputs.runtime, stages.plan[chosen]
    rows, ends = plans.take(plan), parameters.ends[chosen]
    gather, scatter = sharded_exchange_time(rows, inputs, ends, ends=ends)
    times = gathers_per_step(rows, inputs)
    again = 0.0 if runtime.keeps_ends_gathered else times.backward * gather
    exposed: FloatColumn = times.forward * gather + again + times.scatters * scatter
    exposed = exposed + gather_copies_time(rows, inputs, ends, 1.0 * runtime.keeps_ends_gathered)
    kept = runtime.keeps_last_layer_gathered * rows.pp / inputs.model.num_layers
    for kind, unit in enumerate(units.layers):
        time = unit.rows(plan)
        passes = time.forward_total + time.host_forward, time.backward_total + time.host_backward
        count, experts = units.layer_parameters[kind][plan], units.expert_parameters[kind][plan]
        layer = exposed_sharded_time(rows, inputs, count, *passes, kept, experts)
        exposed = exposed + stages.layers[chosen, kind] * layer
    return exposed


def _first_largest(values: FloatColumn, stages: Stages) -> IntColumn:
    """For every plan, the first of its rows that holds the largest value."""
    largest = np.maximum.reduceat(values, stages.start)
    candidates = np.where(values == largest[stages.plan], np.arange(len(values)), len(values))
    rows: IntColumn = np.minimum.reduceat(candidates, stages.start)
    return rows

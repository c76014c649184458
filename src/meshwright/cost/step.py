"""Step: puts the formulas together for one optimizer step."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn
from meshwright.cost import schedules
from meshwright.cost.comms.data import exposed_data_time, tied_embedding_time
from meshwright.cost.comms.pipeline import exposed_pipeline_time
from meshwright.cost.comms.sharded import exposed_sharded_time, sharded_exchange_time
from meshwright.cost.compute.optimizer import optimizer_time
from meshwright.cost.estimate import Estimate, Estimates, Waterfall
from meshwright.cost.memory.parameters import end_parameters
from meshwright.cost.memory.stage import stage_memory, stage_parameters
from meshwright.cost.unit import Units, UnitTime, unit_costs
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages, split_stages
from meshwright.specs.inputs import Inputs


def estimate_plans(plans: Plans, inputs: Inputs, *, keep_all_stages: bool = False) -> Estimates:
    """Price legal plans: time waterfall and memory of every stage.

    keep_all_stages: False leaves out stages that another one exceeds in everything; the answers are the same.
    """
    stages = split_stages(inputs.model, plans, schedules.live_chunks, keep_all=keep_all_stages)
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


def _stage_time(stages: Stages, units: Units) -> UnitTime:
    time = units.embedding.rows(stages.plan).scaled(stages.embedding)
    time = time.plus(units.head.rows(stages.plan).scaled(stages.head))
    for kind, layer in enumerate(units.layers):
        time = time.plus(layer.rows(stages.plan).scaled(stages.layers[:, kind]))
    return time


def _waterfall(
    plans: Plans,
    stages: Stages,
    units: Units,
    stage_time: UnitTime,
    slowest: IntColumn,
    parameters: FloatColumn,
    inputs: Inputs,
) -> Waterfall:
    """Step time seen from the slowest stage: m micro-batches of it, what the others add, and what comes once a step."""
    work, count = stage_time.rows(slowest), plans.num_microbatches
    whole_model = units.embedding.total + units.head.total
    for layers, layer in zip(inputs.model.layers_per_kind, units.layers, strict=True):
        whole_model = whole_model + layers * layer.total
    rows = plans.take(stages.plan)
    updates = np.maximum.reduceat(optimizer_time(rows, inputs, parameters), stages.start)
    exchanged = _exchanged(plans, stages, units, stage_time, parameters, inputs)
    nothing = np.zeros(len(plans))
    return Waterfall(
        compute_s=count * (work.forward.total + work.backward.total),
        exposed_tp_s=count * (work.tensor_forward + work.tensor_backward),
        exposed_cp_s=nothing,
        exposed_ep_s=nothing,
        exposed_pp_s=exposed_pipeline_time(plans, inputs, work.total),
        exposed_dp_s=exchanged,
        bubble_s=np.where(plans.pp > 1, schedules.bubble_time(plans.schedule, work.total, whole_model, plans.vpp), 0.0),
        optimizer_s=updates,
        host_s=count * work.host + inputs.runtime.host_s_per_step,
    )


def _exchanged(
    plans: Plans, stages: Stages, units: Units, stage_time: UnitTime, parameters: FloatColumn, inputs: Inputs
) -> FloatColumn:
    """Exposed seconds per step of what data parallelism exchanges, on the stage where it is most."""
    if inputs.runtime.data_parallel == "fully_sharded":
        return _sharded(plans, units, inputs) * plans.num_microbatches
    forward = stage_time.forward_total + stage_time.host_forward
    backward = stage_time.backward_total + stage_time.host_backward
    rows = plans.take(stages.plan)
    exchanged = exposed_data_time(rows, inputs, parameters, forward, backward, stages.stage)
    worst: FloatColumn = np.maximum.reduceat(exchanged, stages.start) + tied_embedding_time(plans, inputs)
    return worst


def _sharded(plans: Plans, units: Units, inputs: Inputs) -> FloatColumn:
    """Exposed seconds per micro-batch: layers and head beside their own passes, the embedding before and after all."""
    ends = end_parameters(plans, inputs)
    exposed: FloatColumn = np.sum(sharded_exchange_time(plans, inputs, ends.embedding), axis=0)
    pieces = [
        (ends.head, units.head, 1),
        *zip(units.layer_parameters, units.layers, inputs.model.layers_per_kind, strict=True),
    ]
    for count, time, times in pieces:
        passes = time.forward_total + time.host_forward, time.backward_total + time.host_backward
        exposed = exposed + times * exposed_sharded_time(plans, inputs, count, *passes)
    return exposed


def _first_largest(values: FloatColumn, stages: Stages) -> IntColumn:
    """For every plan, the first of its rows that holds the largest value."""
    largest = np.maximum.reduceat(values, stages.start)
    candidates = np.where(values == largest[stages.plan], np.arange(len(values)), len(values))
    rows: IntColumn = np.minimum.reduceat(candidates, stages.start)
    return rows

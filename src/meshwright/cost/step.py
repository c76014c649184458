"""Estimate: the time waterfall and the memory of one optimizer step, for one plan or many."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn
from meshwright.cost import schedules
from meshwright.cost.comms.data import exposed_data_time
from meshwright.cost.comms.pipeline import exposed_pipeline_time
from meshwright.cost.compute.optimizer import optimizer_time
from meshwright.cost.compute.work import Work
from meshwright.cost.flops import model_flops_per_step
from meshwright.cost.memory.device import seed_rule_verdict, verdict
from meshwright.cost.memory.stage import Components, stage_memory, stage_parameters
from meshwright.cost.unit import Units, UnitTime, unit_costs
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages, even_stages
from meshwright.specs.inputs import Inputs


class Waterfall(NamedTuple):
    """Seconds of one step, seen from its slowest stage; the parts add up to the step, each of shape (n,)."""

    compute_s: FloatColumn
    exposed_tp_s: FloatColumn
    exposed_cp_s: FloatColumn
    exposed_ep_s: FloatColumn
    exposed_pp_s: FloatColumn
    exposed_dp_s: FloatColumn
    bubble_s: FloatColumn
    optimizer_s: FloatColumn
    host_s: FloatColumn

    @property
    def total(self) -> FloatColumn:
        """Seconds of one step."""
        total: FloatColumn = np.sum(np.stack(self), axis=0)
        return total


@dataclass(frozen=True)
class Estimates:
    """What many plans cost; columns of shape (n,) per plan and (r,) per stage."""

    inputs: Inputs
    plans: Plans
    stages: Stages
    time: Waterfall
    compute: Work
    """Seconds of compute on the slowest stage by kind, shape (n,); they add up to `compute_s`."""
    slowest: IntColumn
    """Row of the stage with the most work, shape (n,)."""
    stage_time: UnitTime
    """Seconds of one micro-batch on each stage, shape (r,)."""
    memory: Components
    """Bytes of each stage, shape (r,)."""
    worst: IntColumn
    """Row of the stage with the most memory, shape (n,)."""

    @cached_property
    def step_time_s(self) -> FloatColumn:
        """Seconds of one optimizer step, shape (n,)."""
        return self.time.total

    @cached_property
    def tokens_per_s_per_gpu(self) -> FloatColumn:
        """Tokens per second and accelerator, shape (n,)."""
        return self.inputs.job.tokens_per_step / self.step_time_s / self.inputs.cluster.num_gpus

    @cached_property
    def mfu(self) -> FloatColumn:
        """Model FLOPs (causal attention counted half) over the dense peak of all accelerators, shape (n,)."""
        peak = self.inputs.peak_flops * self.inputs.cluster.num_gpus
        return model_flops_per_step(self.inputs) / self.step_time_s / peak

    @cached_property
    def verdict(self) -> IntColumn:
        """Codes of `Verdict` for the worst stage, shape (n,)."""
        worst = self.memory.rows(self.worst)
        return verdict(worst.allocated, worst.communicators, self.inputs)

    @cached_property
    def seed_rule_verdict(self) -> IntColumn:
        """Codes of `Verdict` by the 80 % rule, for the worst stage, shape (n,)."""
        worst = self.memory.rows(self.worst)
        return np.asarray(seed_rule_verdict(worst.states + worst.activations, self.inputs))


def estimate_plans(plans: Plans, inputs: Inputs, *, keep_all_stages: bool = False) -> Estimates:
    """Price legal plans: time waterfall and memory of every stage.

    keep_all_stages: False leaves out stages that another one exceeds in everything; the answers are the same.
    """
    stages = even_stages(inputs.model, plans, schedules.live_chunks, keep_all=keep_all_stages)
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
    nothing = np.zeros(len(plans))
    return Waterfall(
        compute_s=count * (work.forward.total + work.backward.total),
        exposed_tp_s=count * (work.tensor_forward + work.tensor_backward),
        exposed_cp_s=nothing,
        exposed_ep_s=nothing,
        exposed_pp_s=exposed_pipeline_time(plans, inputs, work.total),
        exposed_dp_s=np.maximum.reduceat(
            _exposed_data_time(rows, stages, stage_time, parameters, inputs), stages.start
        ),
        bubble_s=schedules.bubble_time(plans.schedule, work.total, whole_model, plans.vpp),
        optimizer_s=updates,
        host_s=count * work.host + inputs.runtime.host_s_per_step,
    )


def _exposed_data_time(
    rows: Plans, stages: Stages, stage_time: UnitTime, parameters: FloatColumn, inputs: Inputs
) -> FloatColumn:
    """What each stage's gradient and parameter exchange adds; a later stage starts later and ends earlier, by the
    passes of one chunk on each stage before it.
    """
    forward, backward = stage_time.forward_total, stage_time.backward_total
    gradients, weights = exposed_data_time(rows, inputs, parameters, forward, backward)
    earlier = stages.stage / rows.vpp
    exposed: FloatColumn = np.maximum(gradients - earlier * backward, 0.0)
    exposed += np.maximum(weights - earlier * forward, 0.0)
    return exposed


def _first_largest(values: FloatColumn, stages: Stages) -> IntColumn:
    """For every plan, the first of its rows that holds the largest value."""
    largest = np.maximum.reduceat(values, stages.start)
    candidates = np.where(values == largest[stages.plan], np.arange(len(values)), len(values))
    rows: IntColumn = np.minimum.reduceat(candidates, stages.start)
    return rows

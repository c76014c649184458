"""Step: puts the formulas together for one optimizer step."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import fields
from operator import methodcaller
from typing import NamedTuple, Self

import numpy as np

from meshwright.arrays import FloatColumn, Floats, IntColumn, blocks, column, filled, some, total, where
from meshwright.cost.comms.data import shares_embedding, tied_embedding_exchange
from meshwright.cost.comms.exchange import exposed_seconds
from meshwright.cost.comms.pipeline import pipeline_exchanges
from meshwright.cost.comms.sharded import gathers_weights
from meshwright.cost.compute.optimizer import optimizer_time
from meshwright.cost.estimate import Estimate, Estimates, Waterfall
from meshwright.cost.footprint import Footprints, first_largest, footprints_of
from meshwright.cost.memory.in_flight import waiting_share
from meshwright.cost.runs import Runs
from meshwright.cost.shape_times import ShapeTimes
from meshwright.cost.shapes import Pipelines, Weights, alone
from meshwright.cost.unit import UnitTime, UnitTimes, unit_times
from meshwright.cost.weights import StageWeights, layer_by_layer, once_a_step
from meshwright.distinct import combined, distinct_rows, gathered, rows_of, spread
from meshwright.layout.microbatches import filling
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout, Plans
from meshwright.layout.stages import Stages
from meshwright.schedules.pipeline import PassTimes, PipelineTimes
from meshwright.schedules.records import bubble_time
from meshwright.specs.inputs import Inputs


class _Both(NamedTuple):
    """Seconds of one micro-batch on stages, through both passes; shape (n,)."""

    compute: Floats
    tensor: Floats
    """Of communication that compute does not hide, by axis."""
    context: Floats
    expert: Floats
    host: Floats
    total: Floats
    passes: PassTimes

    @classmethod
    def of(cls, work: UnitTime) -> Self:
        """Those of stages."""
        exposed = combined(operator.add, work.exposed_forward, work.exposed_backward)
        compute = work.forward.total + work.backward.total
        return cls(compute, *exposed, host=work.host, total=work.total, passes=work.passes)


class _Works(NamedTuple):
    """Seconds of one micro-batch on the stages of plans."""

    each: UnitTime
    """Of every pair of a micro-batch's shape and a stage's layers and ends that there is, shape (w,)."""
    both: _Both
    """The same through both passes."""
    row: IntColumn
    """The pair of every stage of the runs, shape (s,)."""


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
    units = _units(footprints, times)
    works, runs = _works(footprints, units), footprints.runs
    slowest = first_largest(column(works.both.total).take(works.row), runs.stages)
    work = works.row.take(runs.of_stage)
    return Estimates(
        **{field.name: getattr(footprints, field.name) for field in fields(Footprints)},
        time=_waterfall(footprints, units, works, slowest, work),
        slowest=footprints.stages.start + (slowest - runs.stages.start).take(runs.of_plan),
        works=works.each,
        work=work,
    )


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
    works = _works(footprints, _units(footprints, times))
    return column(works.both.total)[works.row[footprints.runs.of_stage]], footprints


def _units(footprints: Footprints, times: ShapeTimes | None) -> UnitTimes:
    partly = some(footprints.pipelines.stages.layers_not_recomputed)
    if times is None:
        return unit_times(footprints.shapes.plans, footprints.inputs, some_not_recomputed=partly)
    return times.of(footprints.shapes.plans, some_not_recomputed=partly)


def _works(footprints: Footprints, units: UnitTimes) -> _Works:
    stages = footprints.pipelines.stages
    # Distinct contents of a stage: layers of each kind recomputed or not, ends, copies: kind (q,).
    again = stages.layers - stages.layers_not_recomputed
    ends = stages.embedding * 1, stages.head * 1, stages.copies
    (*counts, embedding, head, copies), kind = distinct_rows(*again.T, *stages.layers_not_recomputed.T, *ends)
    # Distinct pairs of them with the shape of a micro-batch, (w,), and the pair of every stage of the runs, (s,).
    runs = footprints.runs
    (shape, kind), row = distinct_rows(runs.shapes.of_plan.take(runs.stages.plan), kind.take(runs.pipelines.of_stage))
    # How often each pair has every piece of the model, (w,), and the seconds of each pair.
    pieces = units.embedding, units.head, *units.layers, *units.layers_not_recomputed
    times, share = [(1.0 * count).take(kind) for count in (embedding, head, *counts)], 1 / copies.take(kind)
    shared = some(copies > 1)

    def seconds(*parts: Floats) -> Floats:
        going = [spread(part, shape) * count for part, count in zip(parts, times, strict=False) if some(part)]
        if not going:
            return 0.0
        return total(going) * share if shared else total(going)

    each = combined(seconds, *pieces)
    return _Works(each, _Both.of(each), row)


def _pipeline(footprints: Footprints, units: UnitTimes, plans: Layout, slowest: PassTimes) -> PipelineTimes:
    """What the idle time of every run's schedule depends on."""
    inputs, shape = footprints.inputs, footprints.runs.shapes.of_plan
    whole = units.embedding.plus(units.head).passes
    for layers, layer in zip(inputs.layers_per_kind, units.layers, strict=True):
        whole = combined(lambda part, more, count=layers: part + count * more, whole, layer.passes)
    limited = inputs.runtime.pipeline.limits_waiting_bytes
    waiting = spread(waiting_share(footprints.shapes.plans, inputs), shape) if limited else 1.0
    return PipelineTimes(
        slowest=slowest,
        whole=_less_not_recomputed(gathered(whole, shape), footprints.runs, units),
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
    footprints: Footprints, units: UnitTimes, works: _Works, slowest: IntColumn, work: IntColumn
) -> Waterfall[FloatColumn]:
    """Step time seen from the slowest stage: m micro-batches of its work, what the others add, and what comes once.

    slowest: rows of the runs' stages, shape (k,); work: the row of every stage of the plans among `works`, shape (r,).
    """
    inputs, pipelines, pipeline = footprints.inputs, footprints.pipelines.plans, footprints.pipelines.of_plan
    own = works.row.take(slowest)
    own = own[0] if len(own) == 1 else own
    of_runs = _micro_batches(footprints, units, gathered(works.both, own))
    exposed = footprints.stages.largest(_exposed_weights(footprints, units, works.each, work))
    if shares_embedding(inputs) and some(pipelines.pp > 1):
        exposed = exposed + rows_of(tied_embedding_exchange(pipelines, inputs).exposed(inputs), pipeline)
    whole = gathered(of_runs, footprints.runs.of_plan)._replace(
        exposed_dp_s=exposed,
        optimizer_s=_optimizer_time(footprints).take(pipeline),
    )
    return Waterfall(*(filled(part, len(pipeline)) for part in whole))


def _micro_batches(footprints: Footprints, units: UnitTimes, work: _Both) -> Waterfall[Floats]:
    """What of a step every run has, shape (k,): all but what data parallelism exchanges and the optimizer."""
    inputs, plans = footprints.inputs, alone(footprints.runs.plans)
    count, pipelined = plans.num_microbatches, plans.pp > 1
    between: Floats = 0.0
    idle: Floats = 0.0
    if some(pipelined):
        between = exposed_seconds(pipeline_exchanges(plans, inputs, work.total), inputs)
        idle = bubble_time(plans.schedule, _pipeline(footprints, units, plans, work.passes))
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

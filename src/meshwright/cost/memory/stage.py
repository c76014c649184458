"""Memory of every stage of every plan, by component, and the moment of its step at which it is highest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from meshwright.arrays import FloatColumn, IntColumn, column
from meshwright.cost.memory.components import Components, communicator_bytes
from meshwright.cost.memory.in_flight import in_flight_bytes
from meshwright.cost.memory.pipelined_step import pipelined_step
from meshwright.cost.memory.sharded_step import replicated_step, sharded_step
from meshwright.cost.memory.split_step import split_step
from meshwright.cost.memory.states import States, dummy_gradient_bytes, half_weights_step, stage_states
from meshwright.cost.memory.timeline import MemoryEvent, StagesTimeline, highest
from meshwright.cost.memory.unit_in_flight import unit_in_flight_bytes
from meshwright.cost.memory.unit_step import UnitStep, pooled_bytes, stored_states
from meshwright.cost.shapes import Pipelines, Shapes
from meshwright.distinct import distinct_rows, gathered
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages
from meshwright.specs.inputs import Inputs

Sizes = TypeVar("Sizes", bound=tuple[Any, ...])


class StageSteps(NamedTuple):
    """What every stage holds; bytes, shape (r,)."""

    stored: States
    """From step to step."""
    timelines: list[StagesTimeline]
    """In the course of a step, beside that."""
    pools: FloatColumn
    """Free, yet kept for the streams of exchanges, or in pieces too small for what is alive then."""
    unjoined: FloatColumn
    """Free while the logits are alive, in pieces too small for them."""

    def events(self, row: int) -> list[MemoryEvent]:
        """The allocations and releases of one stage, in order, without what is of 0 bytes."""
        return next(step.events(int(np.searchsorted(rows, row))) for rows, step in self.timelines if row in rows)


def stage_steps(stages: Stages, pipelines: Pipelines, shapes: Shapes, plans: Plans, inputs: Inputs) -> StageSteps:
    """What every stage holds from step to step, and its step as allocations and releases.

    stages: of plans, shape (r,); pipelines, shapes: theirs; plans: themselves, shape (n,). Returns bytes, shape (r,).
    Source: `in_flight_bytes`, `stage_states`, `stored_states`.
    """
    if inputs.runtime.storage.weights == "half":
        in_flight, row = _once(in_flight_bytes, stages, pipelines, shapes, plans, inputs)
        weights, held = pipelines.weights, pipelines.of_weights
        states = gathered(stage_states(weights.plans, weights.stages, inputs), held)
        dummy_gradients = dummy_gradient_bytes(weights.plans, weights.stages, inputs)[held]
        step = half_weights_step(states, in_flight, row, dummy_gradients)
        return StageSteps(
            stored=states,
            timelines=[(np.arange(len(dummy_gradients)), step)],
            pools=np.minimum(states.joined, in_flight.activations[row]),
            unjoined=in_flight.unjoined[row],
        )
    units = UnitStep.of(
        stages,
        pipelines,
        plans,
        gathered(*_once(unit_in_flight_bytes, stages, pipelines, shapes, plans, inputs)),
        inputs,
    )
    return StageSteps(
        stored=stored_states(units),
        timelines=_timelines(units),
        pools=pooled_bytes(units),
        unjoined=units.in_flight.unjoined,
    )


def _once(
    in_flight: Callable[..., Sizes], stages: Stages, pipelines: Pipelines, shapes: Shapes, plans: Plans, inputs: Inputs
) -> tuple[Sizes, IntColumn]:
    """`in_flight` once for all plans with the same stages, shape of a micro-batch and, where buffers depend on it,
    number of micro-batches; and for every stage its row there, shape (r,).
    """
    runtime, count = inputs.runtime.pipeline, plans.num_microbatches
    counted = count * (runtime.receives_ahead or runtime.keeps_messages)
    distinct, index = distinct_rows(pipelines.signature[pipelines.of_plan], shapes.of_plan, counted)
    if len(distinct[0]) == len(index):
        return in_flight(stages, pipelines, shapes, count, inputs), np.arange(len(stages.plan))
    # One plan of each, (k,), with its stages.
    plan = np.empty(len(distinct[0]), dtype=np.int64)
    plan[index] = np.arange(len(index))
    each, rows = stages.spread(plan)
    with_each = pipelines._replace(of_plan=pipelines.of_plan[plan], of_stage=pipelines.of_stage[rows])
    sizes = in_flight(each, with_each, Shapes(shapes.plans, shapes.of_plan[plan]), count[plan], inputs)
    return sizes, each.rows_of(index)[2]


def _timelines(step: UnitStep) -> list[StagesTimeline]:
    """The steps of stages, each kind of step with the stages that have it."""
    sharded = step.plans.zero > 1
    kinds = {
        replicated_step: ~sharded,
        split_step: step.split,
        pipelined_step: step.deferred & ~step.split,
        sharded_step: sharded & ~step.deferred,
    }
    for play, rows in kinds.items():
        if rows.all():
            return [(np.arange(len(rows)), play(step))]
    return [(np.flatnonzero(rows), play(step.take(np.flatnonzero(rows)))) for play, rows in kinds.items() if rows.any()]


def stage_memory(
    stages: Stages, pipelines: Pipelines, shapes: Shapes, plans: Plans, inputs: Inputs
) -> tuple[Components[FloatColumn], IntColumn]:
    """Bytes of every stage by component at the highest moment of its step, and that moment as a code of `Moment`.

    States stay from step to step; what else is allocated is played: `half_weights_step` where weights are 2-byte ones,
    `sharded_step`, `pipelined_step`, `split_step` or `replicated_step` where they are fp32 ones that are cast for use.
    stages: of plans, shape (r,); pipelines, shapes: theirs; plans: themselves, shape (n,). Returns bytes, shape (r,).
    Source: Rajbhandari et al., arXiv:1910.02054; Korthikanti et al., arXiv:2205.05198.
    """
    steps, memory, rows = stage_steps(stages, pipelines, shapes, plans, inputs), inputs.runtime.memory, len(stages.plan)
    # What is allocated at the highest moment of each stage, and communicators once for each pipeline.
    peak = highest(steps.timelines, rows)
    communicators = column(communicator_bytes(pipelines.plans, inputs))[pipelines.stages.plan]
    components = Components(
        parameters=steps.stored.parameters + peak.parameters,
        gradients=steps.stored.gradients + peak.gradients,
        optimizer_states=column(steps.stored.optimizer_states),
        activations=peak.activations,
        logits=peak.logits,
        temporaries=peak.temporaries,
        workspaces=np.full(rows, memory.workspace_bytes),
        fragmentation=steps.pools + np.where(peak.logits > 0, steps.unjoined, 0.0),
        context=np.full(rows, memory.context_bytes),
        communicators=communicators[pipelines.of_stage],
    )
    share = memory.fragmentation * components.allocated
    return components._replace(fragmentation=share + components.fragmentation), peak.moment

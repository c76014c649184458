"""Memory of every stage of every plan, by component, and the moment of its step at which it is highest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn, Floats, IntColumn, column, smaller, some
from meshwright.cost.memory.components import Components, communicator_bytes
from meshwright.cost.memory.exchange_buffers import exchange_buffer_bytes
from meshwright.cost.memory.frozen_step import frozen_step
from meshwright.cost.memory.graph_pool import pool_bytes
from meshwright.cost.memory.in_flight import ShapeMemory, beside_logits, in_flight_bytes
from meshwright.cost.memory.pipelined_step import pipelined_step
from meshwright.cost.memory.sharded_step import replicated_step, sharded_step
from meshwright.cost.memory.split_step import split_step
from meshwright.cost.memory.states import States, WeightStates, half_weights_step
from meshwright.cost.memory.timeline import MemoryEvent, MemoryTimeline, Peak, StagesTimeline, most_held, peaks
from meshwright.cost.memory.unfused_update import unfused_update
from meshwright.cost.memory.unit_in_flight import unit_in_flight_bytes
from meshwright.cost.memory.unit_states import pooled_bytes, stored_states
from meshwright.cost.memory.unit_step import UnitStep
from meshwright.cost.runs import Runs
from meshwright.cost.shapes import Pipelines, alone
from meshwright.distinct import gathered_on_demand, rows_of
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages
from meshwright.specs.inputs import Inputs


class StageSteps(NamedTuple):
    """What every stage holds; bytes, shape (r,)."""

    stored: States
    """From step to step, of every distinct stage as far as weights go, shape (w,)."""
    held: IntColumn
    """The row of each stage among these."""
    timelines: list[StagesTimeline]
    """In the course of a step, beside that."""
    pools: Floats
    """Free, yet kept for the streams of exchanges, or in pieces too small for what is alive then."""
    needed: ShapeMemory
    """Of the shapes of a micro-batch."""
    cuda_graphs: Floats = 0.0
    """Held by the pool of CUDA graphs beyond what the same kernels need without them."""
    weights: WeightStates | None = None
    """Of the distinct stages as far as weights go, where weights are 2-byte ones."""

    def reserved(self, inputs: Inputs) -> FloatColumn:
        """What the allocator holds at the highest moment."""
        memory, (parameters, gradients, optimizer_states, *_) = inputs.runtime.memory, self.stored
        stored = column(parameters + gradients + optimizer_states).take(self.held)
        held = stored + most_held(self.timelines, len(self.held)) + memory.workspace_bytes
        fragmented = memory.fragmentation * held
        return held + (fragmented + self.pools if some(self.pools) else fragmented) + self.cuda_graphs

    def events(self, row: int) -> list[MemoryEvent]:
        """The allocations and releases of one stage, in order, without what is of 0 bytes."""
        return next(step.events(int(np.searchsorted(rows, row))) for rows, step in self.timelines if row in rows)


def stage_steps(
    stages: Stages,
    pipelines: Pipelines,
    runs: Runs,
    plans: Plans,
    inputs: Inputs,
    like: StageSteps | None = None,
) -> StageSteps:
    """What every stage holds from step to step, and its step as allocations and releases.

    stages: of plans, shape (r,); pipelines, runs: theirs; plans: themselves, shape (n,); like: of stages with
    the same weights and shapes, whose experts are as unequal as in another job; None: not known. Returns bytes, shape
    (r,). Source: `in_flight_bytes`, `stage_states`, `stored_states`.
    """
    needed = ShapeMemory.of(alone(runs.shapes.plans), inputs, like.needed if like else None)
    if inputs.runtime.storage.weights == "half":
        in_flight, row = in_flight_bytes(runs, needed, inputs), runs.of_stage
        held, distinct = pipelines.of_weights, pipelines.weights
        weights = (like and like.weights) or WeightStates.of(distinct.each, distinct.stages, inputs)
        states, unused = weights.states, beside_logits(rows_of(in_flight.unjoined, row), inputs)
        joined, updating = rows_of(states.joined, held), rows_of(states.updating, held)
        in_backward = in_flight.activations + np.maximum(in_flight.logits, in_flight.working)
        step = half_weights_step(states, weights.dummy_gradients, held, in_flight, row, unused)
        return StageSteps(
            stored=states,
            held=held,
            timelines=[(np.arange(len(held)), step)],
            pools=smaller(joined, rows_of(in_flight.activations, row)) if some(joined) else 0.0,
            needed=needed,
            cuda_graphs=pool_bytes(rows_of(in_flight.handed_out, row), updating, rows_of(in_backward, row), inputs),
            weights=weights,
        )
    in_step = gathered_on_demand(unit_in_flight_bytes(runs, needed, inputs), runs.of_stage)
    units = UnitStep.of(stages, pipelines, plans, in_step, inputs)
    return StageSteps(
        stored=stored_states(units),
        held=np.arange(len(stages.plan)),
        timelines=_timelines(units),
        pools=pooled_bytes(units),
        needed=needed,
        cuda_graphs=in_step.handed_out,
    )


def _timelines(step: UnitStep) -> list[StagesTimeline]:
    """The steps of stages, each kind of step with the stages that have it."""
    sharded = step.plans.zero > 1
    kinds: dict[Callable[[UnitStep], MemoryTimeline], BoolColumn] = {
        replicated_step: ~sharded,
        split_step: step.split,
        pipelined_step: step.deferred & ~step.split,
        sharded_step: sharded & ~step.deferred,
    }
    if step.inputs.freezes_weights:
        kinds = {replicated_step: ~sharded, frozen_step: sharded}
    for play, rows in kinds.items():
        if rows.all():
            return [(np.arange(len(rows)), _played(play, step))]
    chosen = ((play, np.flatnonzero(rows)) for play, rows in kinds.items() if rows.any())
    return [(rows, _played(play, step.take(rows))) for play, rows in chosen]


def _played(play: Callable[[UnitStep], MemoryTimeline], step: UnitStep) -> MemoryTimeline:
    """A step of that kind, and the update after it."""
    line = play(step)
    unfused_update(line, step)
    return line


@dataclass(frozen=True, eq=False, kw_only=True)
class StageMemory:
    """What stages hold at the highest moment of their step; shape (r,)."""

    inputs: Inputs
    steps: StageSteps
    reserved: FloatColumn
    """Bytes that the allocator holds."""
    communicators: FloatColumn
    exchange_buffers: FloatColumn
    chosen: IntColumn | None = None
    """The row of each stage in `steps`; None: all of them."""

    @property
    def device(self) -> FloatColumn:
        """Bytes, as the driver shows them."""
        return self.reserved + self.inputs.runtime.memory.context_bytes + self.communicators + self.exchange_buffers

    def take(self, rows: IntColumn) -> StageMemory:
        """That of the chosen stages, by index."""
        return replace(
            self,
            reserved=self.reserved.take(rows),
            communicators=self.communicators.take(rows),
            exchange_buffers=self.exchange_buffers.take(rows),
            chosen=rows if self.chosen is None else self.chosen.take(rows),
        )

    @property
    def rows(self) -> IntColumn:
        """Of each stage in `steps`."""
        return np.arange(len(self.reserved)) if self.chosen is None else self.chosen

    @cached_property
    def components(self) -> Components[FloatColumn]:
        """The same bytes by what they are for."""
        memory, stored, peak = self.inputs.runtime.memory, self.steps.stored, self._peak
        held = self.steps.held.take(self.rows)
        components = Components(
            parameters=column(stored.parameters).take(held) + peak.parameters,
            gradients=column(stored.gradients).take(held) + peak.gradients,
            optimizer_states=column(stored.optimizer_states).take(held),
            activations=peak.activations,
            logits=peak.logits,
            temporaries=peak.temporaries,
            workspaces=np.full(len(held), memory.workspace_bytes),
            fragmentation=np.zeros(len(held)),
            cuda_graphs=np.broadcast_to(self.steps.cuda_graphs, len(self.steps.held)).take(self.rows),
            context=np.full(len(held), memory.context_bytes),
            communicators=self.communicators,
            exchange_buffers=self.exchange_buffers,
        )
        # Sums of the same bytes in another order may differ by a rounding error, either way.
        return components._replace(fragmentation=np.maximum(self.reserved - components.reserved, 0.0))

    @property
    def moment(self) -> IntColumn:
        """The moment at which each stage holds that, as a code of `Moment`."""
        return self._peak.moment

    @cached_property
    def _peak(self) -> Peak:
        return peaks(self.steps.timelines, self.chosen)


def stage_memory(stages: Stages, pipelines: Pipelines, runs: Runs, plans: Plans, inputs: Inputs) -> StageMemory:
    """Bytes of every stage at the highest moment of its step; of those that are asked for also by component.

    States stay from step to step; what else is allocated is played: `half_weights_step` where weights are 2-byte ones,
    `sharded_step`, `pipelined_step`, `split_step` or `replicated_step` where they are fp32 ones that are cast for use,
    `frozen_step` or `replicated_step` where they are frozen beside adapters.
    stages: of plans, shape (r,); pipelines, runs: theirs; plans: themselves, shape (n,). Returns bytes, shape (r,).
    Source: Rajbhandari et al., arXiv:1910.02054; Korthikanti et al., arXiv:2205.05198.
    """
    steps = stage_steps(stages, pipelines, runs, plans, inputs)
    # Communicators once for each pipeline, exchange buffers for each shape; then of every stage, (r,).
    communicators = (
        column(communicator_bytes(pipelines.each, inputs)).take(pipelines.stages.plan).take(pipelines.of_stage)
    )
    of_shapes = np.broadcast_to(exchange_buffer_bytes(alone(runs.shapes.plans), inputs), len(runs.shapes.plans))
    buffers = of_shapes.take(runs.shapes.of_plan).take(runs.stages.plan).take(runs.of_stage)
    return StageMemory(
        inputs=inputs,
        steps=steps,
        reserved=steps.reserved(inputs),
        communicators=communicators,
        exchange_buffers=buffers,
    )

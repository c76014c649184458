"""Forward: what stages hold in the last forward pass of their step, which their whole step holds at least."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, column
from meshwright.cost.memory import pipelined_step, sharded_step
from meshwright.cost.memory.in_flight import ShapeMemory
from meshwright.cost.memory.timeline import MemoryTimeline
from meshwright.cost.memory.unit_in_flight import UnitInFlight, unit_in_flight_bytes
from meshwright.cost.memory.unit_states import WorkedChunks, pooled_bytes, stored_states
from meshwright.cost.memory.unit_step import UnitStep
from meshwright.cost.runs import Runs
from meshwright.cost.shapes import Pipelines, alone
from meshwright.distinct import gathered_on_demand
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages
from meshwright.schedules.gathered import UnshardedChunks
from meshwright.specs.inputs import Inputs


class ForwardMemory(NamedTuple):
    """Bytes of every stage, shape (r,)."""

    states: FloatColumn
    """From step to step, with workspaces."""
    allocated: FloatColumn
    """At the highest moment of the last forward, with these."""
    unused: FloatColumn
    """Free bytes of no use, at some moment of the step at most."""
    pools: FloatColumn
    """As of `StageSteps`."""

    def reserved(self, inputs: Inputs) -> FloatColumn:
        """Bytes that the allocator holds then, without what is of no use."""
        reserved: FloatColumn = self.allocated + (inputs.runtime.memory.fragmentation * self.allocated + self.pools)
        return reserved


def forward_memory(
    stages: Stages, pipelines: Pipelines, runs: Runs | None, plans: Plans, inputs: Inputs
) -> ForwardMemory:
    """What stages hold whose fp32 weights are cast for use, in the last forward of their step, without chunks that are
    gathered beside the one that works; of replicas, and where autograd splits the backward pass, their states alone.

    stages, pipelines, runs, plans: as of `stage_memory`; runs: None: of micro-batches that keep nothing. Returns bytes,
    shape (r,). Source: `stage_memory`, of whose moments these are the first.
    """
    nothing = np.zeros(len(stages.plan))
    in_flight = UnitInFlight(*[nothing] * len(UnitInFlight._fields))
    if runs is not None:
        each = unit_in_flight_bytes(runs, ShapeMemory.of(alone(runs.shapes.plans), inputs), inputs)
        in_flight = gathered_on_demand(each, runs.of_stage)
    no_others = UnshardedChunks(*np.zeros((len(UnshardedChunks._fields), len(pipelines.stages.plan)), dtype=np.int64))
    step = UnitStep.of(stages, pipelines, plans, in_flight, inputs, no_others)
    stored, most = stored_states(step), nothing.copy()
    for play, rows in {
        _pipelined: step.deferred & ~step.split,
        _sharded: (step.plans.zero > 1) & ~step.deferred,
    }.items():
        if rows.any():
            most[rows] = play(step if rows.all() else step.take(np.flatnonzero(rows))).most_allocated
    states = column(stored.parameters + stored.gradients + stored.optimizer_states)
    workspaces = inputs.runtime.memory.workspace_bytes
    return ForwardMemory(
        states=states + workspaces,
        allocated=states + most + workspaces,
        unused=np.broadcast_to(step.unused, len(most)),
        pools=pooled_bytes(step),
    )


def _pipelined(step: UnitStep) -> MemoryTimeline:
    return pipelined_step.last_forward(step, WorkedChunks(step, step.backwards).gradients)


def _sharded(step: UnitStep) -> MemoryTimeline:
    return sharded_step.last_forward(step)

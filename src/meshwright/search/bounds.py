"""Bounds: what plans hold at least, by which many are known not to fit before their micro-batches are priced."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn, column
from meshwright.cost.memory.components import communicator_bytes
from meshwright.cost.memory.fit import bounds
from meshwright.cost.memory.states import stage_states
from meshwright.cost.shapes import Pipelines
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs
from meshwright.specs.residuals import ALLOCATED, measured_memory


class LeastMemory(NamedTuple):
    """What many plans hold whatever their micro-batches keep; shape (n,)."""

    device: FloatColumn
    """Bytes that the fullest stage holds at least, as the driver shows them."""
    unfit: BoolColumn
    """Whether that alone makes a plan run out of memory."""


def least_memory(plans: Plans, pipelines: Pipelines, inputs: Inputs) -> LeastMemory:
    """Weights, gradients and optimizer states of the fullest stage, with workspaces, the share of fragmentation,
    context and communicators: what else is allocated in a step is never less than nothing.

    A plan is surely out of memory where that much is. With a allocated and r = (1 + f) a + pieces reserved bytes,
    `Bounds.least` is m a + r - a + context - sqrt(((m - l) a)^2 + (r - (1 + f') a)^2): it never falls as r grows, and
    grows in proportion to a. That holds where the error of allocated memory is known and experts are not routed
    unequally between ranks; elsewhere no plan is called unfit. Of fp32 weights, which are gathered, nothing is said.
    pipelines: of the plans, legal ones.
    """
    memory, accelerator = inputs.runtime.memory, inputs.cluster.accelerator
    if inputs.runtime.storage.weights != "half" or measured_memory(inputs) != ALLOCATED:
        return LeastMemory(np.zeros(len(plans)), np.zeros(len(plans), dtype=bool))
    # States of every distinct stage, (w,), and of the fullest stage of every pipeline, (p,).
    states, stages = stage_states(pipelines.weights.plans, pipelines.weights.stages, inputs), pipelines.stages
    stored = column(states.parameters + states.gradients + states.optimizer_states)[pipelines.weights.of_stage]
    allocated = stages.largest(stored) + memory.workspace_bytes
    reserved = (1 + memory.fragmentation) * allocated
    communicators = column(communicator_bytes(pipelines.plans, inputs))
    least = column(bounds(allocated, reserved, communicators, inputs).least)
    routed = inputs.routes_as_usual & (pipelines.plans.ep > 1)
    unfit = (least > accelerator.visible_memory_bytes) & ~routed
    device = reserved + memory.context_bytes + communicators
    return LeastMemory(device[pipelines.of_plan], unfit[pipelines.of_plan])

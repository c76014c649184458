"""Memory of every stage of every plan, by component."""

from __future__ import annotations

import operator
from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, Floats, IntColumn, Ints
from meshwright.cost.comms.pipeline import message_bytes
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.memory.device import communicator_bytes
from meshwright.cost.memory.ends import head_memory, token_bytes
from meshwright.cost.memory.parameters import end_parameters, expert_parameters, layer_parameters, prediction_parameters
from meshwright.cost.memory.states import States, state_bytes
from meshwright.cost.memory.waiting import waiting_bytes
from meshwright.cost.pipelines import Pipelines
from meshwright.cost.shapes import Shapes
from meshwright.cost.tree import combined
from meshwright.distinct import gathered
from meshwright.layout.groups import expert_sharding_ranks, sharding_ranks
from meshwright.layout.plans import Plans, without_recompute
from meshwright.layout.stages import Stages
from meshwright.specs.inputs import Inputs


class Components(NamedTuple):
    """Bytes on one rank of each stage; every field scalar or of shape (r,)."""

    parameters: Floats
    gradients: Floats
    optimizer_states: Floats
    activations: Floats
    """Saved for backward, of all micro-batches in flight."""
    logits: Floats
    """Logits and cross-entropy working set, where they make the peak."""
    temporaries: Floats
    """Working set of one layer's backward, where it makes the peak, and message buffers; or what the optimizer needs
    beyond activations and logits, which are gone when it works."""
    workspaces: Floats
    fragmentation: Floats
    context: Floats
    communicators: Floats

    @property
    def allocated(self) -> Floats:
        """Live tensors at the peak, bytes."""
        return self.states + self.activations + self.logits + self.temporaries + self.workspaces

    @property
    def reserved(self) -> Floats:
        """What the allocator holds, bytes."""
        return self.allocated + self.fragmentation

    @property
    def device(self) -> Floats:
        """What the driver shows, bytes."""
        return self.reserved + self.context + self.communicators

    @property
    def states(self) -> Floats:
        """Parameters, gradients and optimizer states, bytes."""
        return self.parameters + self.gradients + self.optimizer_states

    def rows(self, index: Ints) -> Components:
        """The chosen rows of every component."""
        return Components(*(part[index] for part in self))


class StageParameters(NamedTuple):
    """Parameters on one rank of every stage, before data parallelism; counts, shape (r,)."""

    dense: FloatColumn
    """Everything that all ranks of the data-parallel group hold."""
    experts: FloatColumn
    """Routed experts, which fewer ranks hold alike."""
    ends: FloatColumn
    """Of the dense ones, those of embedding, final norm and head."""


def stage_parameters(plans: Plans, stages: Stages, inputs: Inputs) -> StageParameters:
    """Parameters on one rank of every stage, shape (r,)."""
    embedding, head = end_parameters(plans, inputs)
    head = head + prediction_parameters(plans, inputs)
    ends: FloatColumn = stages.embedding * embedding[stages.plan] + stages.head * head[stages.plan] * 1.0
    dense = ends
    experts: FloatColumn = np.zeros(len(stages.plan))
    for kind, layer in enumerate(inputs.model.layer_kinds):
        dense = dense + stages.layers[:, kind] * layer_parameters(plans, inputs, layer)[stages.plan]
        experts = experts + stages.layers[:, kind] * expert_parameters(plans, inputs, layer)[stages.plan]
    return StageParameters(dense, experts, ends)


def stage_states(plans: Plans, stages: Stages, inputs: Inputs) -> States:
    """States of every stage, shape (r,), bytes: of dense weights and of routed experts, which ZeRO divides over
    different groups.
    """
    plan, rows, kinds = stages.plan, plans.take(stages.plan), inputs.model.layer_kinds
    parameters = stage_parameters(plans, stages, inputs)
    largest = _largest(stages, [layer_parameters(plans, inputs, kind) for kind in kinds])
    embedding, head = (
        present * held[plan]
        for present, held in zip((stages.embedding, stages.head), end_parameters(plans, inputs), strict=True)
    )
    ends = np.maximum(embedding, head) if inputs.runtime.ends_apart else parameters.ends
    whole = state_bytes(rows, inputs, parameters.dense, largest, ends, sharding_ranks(rows))
    if not inputs.model.is_moe:
        return whole
    largest, nothing = _largest(stages, [expert_parameters(plans, inputs, kind) for kind in kinds]), np.zeros(len(plan))
    routed = state_bytes(rows, inputs, parameters.experts, largest, nothing, expert_sharding_ranks(rows))
    return combined(operator.add, whole, routed)


def _largest(stages: Stages, counts: list[Ints]) -> FloatColumn:
    """Of the layer kinds that a stage holds, the most parameters of one layer, shape (r,)."""
    largest: FloatColumn = np.zeros(len(stages.plan))
    for kind, count in enumerate(counts):
        largest = np.maximum(largest, (stages.layers[:, kind] > 0) * count[stages.plan])
    return largest


def _share_on_device(stages: Stages, inputs: Inputs) -> FloatColumn:
    """Of a stage's layers, the share whose saved activations stay on the device or are on their way, shape (r,)."""
    layers, away = stages.layers.sum(axis=1), max(inputs.runtime.offloaded_layers - 1, 0)
    share: FloatColumn = np.maximum(layers - away, 1) / np.maximum(layers, 1)
    return share


class _Peak(NamedTuple):
    """Bytes that the micro-batches of every stage keep, and of a moment in the backward of one; shape (r,)."""

    activations: FloatColumn
    working: FloatColumn
    logits: FloatColumn
    unjoined: FloatColumn
    """Free while the logits are alive, in pieces too small for them."""


def stage_memory(stages: Stages, pipelines: Pipelines, shapes: Shapes, inputs: Inputs) -> Components:
    """Bytes of every stage by component.

    States as `state_bytes` has them; activations of all micro-batches in flight, of offloaded layers those of the one
    that is on its way to the host or back; at the peak either the working set of one layer's backward, with its whole
    gradients, or, on the last stage, the logits, whichever is larger; what the optimizer needs for itself only where it
    exceeds all of these.
    stages: of plans, shape (r,); pipelines, shapes: theirs. Returns bytes, shape (r,).
    Source: Rajbhandari et al., arXiv:1910.02054; Korthikanti et al., arXiv:2205.05198.
    """
    memory, rows, shape = inputs.runtime.memory, len(stages.plan), shapes.of_plan[stages.plan]
    states = gathered(stage_states(pipelines.plans, pipelines.stages, inputs), pipelines.of_stage)
    share = _share_on_device(pipelines.stages, inputs)[:, None]
    live, kept = (
        (share * layers).take(pipelines.of_stage, axis=0)
        for layers in (pipelines.stages.live_layers, pipelines.stages.kept_live_layers)
    )
    peak = _peak(stages, live, kept, shapes.plans, shape, inputs)
    activations = peak.activations + _waiting(stages, shapes.plans, shape, inputs)
    working, pipelined = peak.working + states.whole_gradients, pipelines.plans.pp[pipelines.stages.plan] > 1
    at_logits = peak.logits > working
    logits, temporaries = peak.logits * at_logits, working * ~at_logits
    temporaries = temporaries + pipelined[pipelines.of_stage] * (2 * message_bytes(shapes.plans, inputs))[shape]
    communicators = communicator_bytes(pipelines.plans, inputs)[pipelines.stages.plan]
    components = Components(
        parameters=states.parameters,
        gradients=states.gradients,
        optimizer_states=states.optimizer_states,
        activations=activations,
        logits=logits,
        temporaries=np.maximum(temporaries, states.updating - activations - logits),
        workspaces=np.full(rows, memory.workspace_bytes),
        fragmentation=np.zeros(rows),
        context=np.full(rows, memory.context_bytes),
        communicators=communicators[pipelines.of_stage],
    )
    held = memory.fragmentation * components.allocated + states.pooled + np.where(at_logits, peak.unjoined, 0.0)
    return components._replace(fragmentation=held)


def _waiting(stages: Stages, shapes: Plans, shape: IntColumn, inputs: Inputs) -> FloatColumn:
    """What waits for weight gradients alone; shape: the row of `shapes` that every stage works on."""
    waiting: FloatColumn = np.zeros(len(shape))
    for kind, layer in enumerate(inputs.model.layer_kinds if stages.waiting_layers.any() else ()):
        waiting = waiting + stages.waiting_layers[:, kind] * waiting_bytes(shapes, inputs, layer)[shape]
    return waiting


def _peak(
    stages: Stages,
    live_layers: FloatColumn,
    kept_layers: FloatColumn,
    shapes: Plans,
    shape: IntColumn,
    inputs: Inputs,
) -> _Peak:
    """live_layers: of each kind those whose activations stay; kept_layers: of these, those that full recomputation
    leaves out; shape: the row of `shapes` that every stage works on.
    """
    end, whole = head_memory(shapes, inputs), without_recompute(shapes)
    activations = stages.live_micro_batches * token_bytes(shapes, inputs)[shape] + stages.head * end.saved[shape]
    working: FloatColumn = np.zeros(len(shape))
    for kind, layer_kind in enumerate(inputs.model.layer_kinds):
        layer = layer_memory(shapes, inputs, layer_kind)
        activations = activations + live_layers[:, kind] * layer.saved[shape]
        working = np.maximum(working, (stages.layers[:, kind] > 0) * layer.working[shape])
        if kept_layers.any():
            kept = layer_memory(whole, inputs, layer_kind).saved - layer.saved
            activations = activations + kept_layers[:, kind] * kept[shape]
    return _Peak(activations, working, *(stages.head * part[shape] for part in (end.working, end.unjoined)))

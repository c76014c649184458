"""Memory of every stage of every plan, by component."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, Floats, Ints
from meshwright.cost.comms.pipeline import message_bytes
from meshwright.cost.memory.device import communicator_bytes
from meshwright.cost.memory.parameters import end_parameters, prediction_parameters
from meshwright.cost.memory.states import States, state_bytes
from meshwright.cost.tree import combined
from meshwright.cost.unit import Units
from meshwright.layout.groups import expert_sharding_ranks, sharding_ranks
from meshwright.layout.plans import Plans
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


def stage_parameters(plans: Plans, stages: Stages, units: Units, inputs: Inputs) -> StageParameters:
    """Parameters on one rank of every stage, shape (r,)."""
    embedding, head = end_parameters(plans, inputs)
    head = head + prediction_parameters(plans, inputs)
    ends: FloatColumn = stages.embedding * embedding[stages.plan] + stages.head * head[stages.plan] * 1.0
    dense = ends
    experts: FloatColumn = np.zeros(len(stages.plan))
    for kind, (layer, routed) in enumerate(zip(units.layer_parameters, units.expert_parameters, strict=True)):
        dense = dense + stages.layers[:, kind] * layer[stages.plan]
        experts = experts + stages.layers[:, kind] * routed[stages.plan]
    return StageParameters(dense, experts, ends)


def _states(plans: Plans, stages: Stages, units: Units, parameters: StageParameters, inputs: Inputs) -> States:
    """Of dense weights and of routed experts together, which ZeRO divides over different groups."""
    plan, rows = stages.plan, plans.take(stages.plan)
    dense, experts = (_largest(stages, counts) for counts in (units.layer_parameters, units.expert_parameters))
    whole = state_bytes(rows, inputs, parameters.dense, dense, parameters.ends, sharding_ranks(rows))
    if not inputs.model.is_moe:
        return whole
    nothing = np.zeros(len(plan))
    routed = state_bytes(rows, inputs, parameters.experts, experts, nothing, expert_sharding_ranks(rows))
    return combined(operator.add, whole, routed)


def _largest(stages: Stages, counts: Sequence[Ints]) -> FloatColumn:
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


def stage_memory(plans: Plans, stages: Stages, units: Units, parameters: StageParameters, inputs: Inputs) -> Components:
    """Bytes of every stage by component.

    States as `state_bytes` has them; activations of all micro-batches in flight, of offloaded layers those of the one
    that is on its way to the host or back; at the peak either the working set of
    one layer's backward, with its whole gradients, or, on the last stage, the logits, whichever is larger; what the
    optimizer needs for itself only where it exceeds all of these.
    parameters: columns of shape (r,). Returns bytes, shape (r,).
    Source: Rajbhandari et al., arXiv:1910.02054; Korthikanti et al., arXiv:2205.05198.
    """
    plan, memory = stages.plan, inputs.runtime.memory
    states = _states(plans, stages, units, parameters, inputs)
    activations = stages.live_micro_batches * units.token_bytes[plan] + stages.head * units.head_memory.saved[plan]
    working = np.zeros(len(plan))
    here = _share_on_device(stages, inputs)
    for kind, layer in enumerate(units.layer_memory):
        activations = activations + here * stages.live_layers[:, kind] * layer.saved[plan]
        activations = activations + stages.waiting_layers[:, kind] * units.waiting[kind][plan]
        working = np.maximum(working, (stages.layers[:, kind] > 0) * layer.working[plan])
    working = working + states.whole_gradients
    logits = stages.head * units.head_memory.working[plan]
    at_logits = logits > working
    messages = np.where(plans.pp > 1, 2 * message_bytes(plans, inputs), 0.0)
    logits = np.where(at_logits, logits, 0.0)
    temporaries = np.where(at_logits, 0.0, working) + messages[plan]
    components = Components(
        parameters=states.parameters,
        gradients=states.gradients,
        optimizer_states=states.optimizer_states,
        activations=activations,
        logits=logits,
        temporaries=np.maximum(temporaries, states.updating - activations - logits),
        workspaces=np.full(len(plan), memory.workspace_bytes),
        fragmentation=np.zeros(len(plan)),
        context=np.full(len(plan), memory.context_bytes),
        communicators=communicator_bytes(plans, inputs)[plan],
    )
    return components._replace(fragmentation=memory.fragmentation * components.allocated)

"""Memory of every stage of every plan, by component."""

from __future__ import annotations

import operator
from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, Ints
from meshwright.cost.memory.components import Components
from meshwright.cost.memory.device import communicator_bytes
from meshwright.cost.memory.kept import Kept, kept_bytes
from meshwright.cost.memory.moments import highest_moment, pooled_bytes, stored_bytes
from meshwright.cost.memory.parameters import end_parameters, expert_parameters, layer_parameters, prediction_parameters
from meshwright.cost.memory.placeholders import placeholder_bytes
from meshwright.cost.memory.standing import standing_chunks
from meshwright.cost.memory.states import States, state_bytes
from meshwright.cost.memory.units import stage_units
from meshwright.cost.pipelines import Pipelines
from meshwright.cost.shapes import Shapes
from meshwright.cost.tree import combined
from meshwright.distinct import gathered
from meshwright.layout.groups import expert_sharding_ranks, sharding_ranks
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages
from meshwright.specs.inputs import Inputs


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
    ends = np.maximum(embedding, head) if inputs.runtime.sharding.ends_apart else parameters.ends
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


def stage_memory(stages: Stages, pipelines: Pipelines, shapes: Shapes, plans: Plans, inputs: Inputs) -> Components:
    """Bytes of every stage by component.

    States and what the micro-batches in flight keep, at the moment with the most of it. Of 2-byte weights: either the
    working set of one layer's backward, with its whole gradients, or, on the last stage, the logits, whichever is
    larger; what the optimizer needs for itself only where it exceeds all of these. Of fp32 weights that are cast for
    use: `highest_moment`.
    stages: of plans, shape (r,); pipelines, shapes: theirs; plans: themselves, shape (n,). Returns bytes, shape (r,).
    Source: Rajbhandari et al., arXiv:1910.02054; Korthikanti et al., arXiv:2205.05198.
    """
    kept = kept_bytes(stages, pipelines, shapes, plans.num_microbatches, inputs)
    build = _of_half_weights if inputs.runtime.storage.weights == "half" else _of_full_weights
    components, beside = build(stages, pipelines, plans, kept, inputs)
    held = inputs.runtime.memory.fragmentation * components.allocated + beside
    return components._replace(fragmentation=held)


def _of_half_weights(
    stages: Stages,
    pipelines: Pipelines,
    plans: Plans,  # noqa: ARG001
    kept: Kept,
    inputs: Inputs,
) -> tuple[Components, FloatColumn]:
    """Components, and what the allocator holds beside a share of them."""
    states = gathered(stage_states(pipelines.plans, pipelines.stages, inputs), pipelines.of_stage)
    working = kept.working + states.whole_gradients
    at_logits = kept.logits > working
    logits, temporaries = kept.logits * at_logits, working * ~at_logits + kept.messages
    placeholders = placeholder_bytes(pipelines.plans, pipelines.stages, inputs)[pipelines.of_stage]
    components = _components(stages, pipelines, inputs)._replace(
        parameters=states.parameters,
        gradients=states.gradients,
        optimizer_states=states.optimizer_states,
        activations=kept.activations,
        logits=logits,
        temporaries=np.maximum(temporaries, states.updating - kept.activations - logits) + placeholders,
    )
    return components, np.where(at_logits, kept.unjoined, 0.0)


def _of_full_weights(
    stages: Stages, pipelines: Pipelines, plans: Plans, kept: Kept, inputs: Inputs
) -> tuple[Components, FloatColumn]:
    """Components, and what the allocator holds beside a share of them."""
    units = stage_units(pipelines.plans, pipelines.stages, inputs)
    whole, stored = (gathered(unit, pipelines.of_stage) for unit in units)
    weights, moments = stored_bytes(stored, inputs)
    rows = plans.take(stages.plan)
    backwards = np.maximum(rows.num_microbatches * rows.vpp - stages.live_chunks, 0)
    left = gathered(standing_chunks(pipelines.plans, pipelines.stages), pipelines.of_stage)
    moment = highest_moment(rows, whole, stored, kept, backwards, left, inputs)
    components = _components(stages, pipelines, inputs)._replace(
        parameters=weights + moment.gathered,
        gradients=moment.gradients,
        optimizer_states=moments,
        activations=moment.activations,
        logits=moment.logits,
        temporaries=moment.temporaries + kept.messages,
    )
    unjoined = np.where(moment.logits > 0, kept.unjoined, 0.0)
    return components, unjoined + pooled_bytes(rows, whole, stored, inputs)


def _components(stages: Stages, pipelines: Pipelines, inputs: Inputs) -> Components:
    """What stands beside the training itself; all else 0."""
    memory, rows = inputs.runtime.memory, len(stages.plan)
    communicators = communicator_bytes(pipelines.plans, inputs)[pipelines.stages.plan]
    nothing = np.zeros(rows)
    return Components(
        *[nothing] * len(Components._fields),
    )._replace(
        workspaces=np.full(rows, memory.workspace_bytes),
        context=np.full(rows, memory.context_bytes),
        communicators=communicators[pipelines.of_stage],
    )

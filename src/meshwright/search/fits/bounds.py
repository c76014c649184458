"""Bounds: the least that plans hold, which rules many out before their micro-batches are priced."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn, Floats, column
from meshwright.cost.memory.components import communicator_bytes
from meshwright.cost.memory.fit import Verdict, bounds, safe_bytes
from meshwright.cost.memory.forward import forward_memory
from meshwright.cost.memory.stage_parameters import stage_units
from meshwright.cost.memory.states import stage_states
from meshwright.cost.routing import hottest_over_mean
from meshwright.cost.runs import Runs
from meshwright.cost.shapes import Pipelines, Weights, alone
from meshwright.cost.unit import micro_batch_shapes
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import HALF_BYTES
from meshwright.specs.predictive import predictive
from meshwright.specs.residuals import ALLOCATED, like_memory, measured_memory
from meshwright.specs.routing import expert_spread


class LeastMemory(NamedTuple):
    """What many plans hold whatever their micro-batches keep; shape (n,)."""

    device: FloatColumn
    """Bytes that the fullest stage holds at least, as the driver shows them."""
    unfit: BoolColumn
    """Whether that alone makes the verdict on a plan worse than is accepted."""


def least_memory(pipelines: Pipelines, inputs: Inputs, accepted: Verdict = Verdict.AT_RISK) -> LeastMemory:
    """Weights, gradients and optimizer states of the fullest stage, with workspaces, the share of fragmentation,
    context and communicators: what else is allocated in a step is never less than nothing.

    A plan is surely out of memory where that much is. With a allocated and r = (1 + f) a + pieces reserved bytes,
    `Bounds.least` is m a + r - a + context - sqrt(((m - l) a)^2 + (r - (1 + f') a)^2): it never falls as r grows, and
    grows in proportion to a. That holds where the error of allocated memory is known, 2-byte weights are stored, and
    experts are not routed unequally between ranks. Elsewhere it is asked of the stage with the fewest states, whichever
    is the fullest, and where `_least_grows`; of fp32 weights, which are gathered, those and two moments are counted.
    pipelines: of the plans, legal ones; accepted: the worst verdict that is not unfit, which fits.
    """
    memory, stages, stored = inputs.runtime.memory, pipelines.stages, _states(pipelines.weights, inputs)
    # States of the fullest and of the emptiest stage of every pipeline, (p,).
    fullest, emptiest = (each + memory.workspace_bytes for each in (stages.largest(stored), -stages.largest(-stored)))
    communicators = column(communicator_bytes(pipelines.plans, inputs))
    routed = inputs.routes_as_usual & (pipelines.plans.ep > 1)
    known = inputs.runtime.storage.weights == "half" and measured_memory(inputs) == ALLOCATED
    allocated = np.where(~routed & known, fullest, emptiest)
    grows = (~routed & known) | _grows(pipelines.plans, inputs, accepted)
    unfit = grows & _surely_unfit(allocated, communicators, inputs, accepted)
    device = (1 + memory.fragmentation) * fullest + memory.context_bytes + communicators
    return LeastMemory(device.take(pipelines.of_plan), unfit.take(pipelines.of_plan))


def least_in_forward(
    plans: Plans,
    pipelines: Pipelines,
    stages: Stages,
    inputs: Inputs,
    accepted: Verdict = Verdict.AT_RISK,
    *,
    keeps: bool = True,
) -> LeastMemory:
    """The same of what plans whose weights are cast for use hold in the last forward of their step.

    `_least_grows` says why the worst stage is out of memory if it holds too much then, also of what is no state. The
    worst stage reserves most over the whole step; it is not known here, so all are asked. It reserves at least what any
    stage reserves in its last forward, and what is left of that without its own pools and its bytes of no use is
    allocated.
    plans: shape (n,); pipelines, stages: theirs; accepted: as of `least_memory`; keeps: whether micro-batches keep
    anything; where not, no plan with these weights and as many micro-batches holds less, or fits where it says that
    they do not.
    """
    runs = Runs.of(plans, stages, pipelines, micro_batch_shapes(plans, inputs, pipelines)) if keeps else None
    held = forward_memory(stages, pipelines, runs, plans, inputs)
    memory, reserved = inputs.runtime.memory, stages.largest(held.reserved(inputs))
    communicators = column(communicator_bytes(pipelines.plans, inputs)).take(pipelines.of_plan)
    allocated = held.allocated
    if keeps or not inputs.runtime.entropy.unjoined_bytes:
        beside = (reserved.take(stages.plan) - held.pools) / (1 + memory.fragmentation) - held.unused
        allocated = np.maximum(allocated, beside)
    most = (most_unequal(pipelines.plans, inputs) - 1).take(pipelines.of_plan)
    routing = most.take(stages.plan) * (2 + memory.fragmentation) * (allocated - held.states)
    fits = ~_surely_unfit(allocated, communicators.take(stages.plan), inputs, accepted, routing)
    unfit = _grows(pipelines.plans, inputs, accepted).take(pipelines.of_plan) & (stages.largest(1.0 * fits) == 0)
    return LeastMemory(reserved + memory.context_bytes + communicators, unfit)


def unfit_stages(plans: Plans, stages: Stages, inputs: Inputs, accepted: Verdict) -> BoolColumn:
    """Whether stages are unfit by what they keep from step to step alone, as `least_memory` says; shape (r,).

    plans: shape (n,), micro-batches as `filling` leaves them; stages: that they could have, shape (r,); accepted: as of
    `least_memory`.
    """
    allocated = _states(Weights.of(plans, alone(plans), stages), inputs) + inputs.runtime.memory.workspace_bytes
    communicators = column(communicator_bytes(plans, inputs))
    grows = _grows(plans, inputs, accepted).take(stages.plan)
    return grows & _surely_unfit(allocated, communicators.take(stages.plan), inputs, accepted)


def _surely_unfit(
    allocated: FloatColumn, communicators: FloatColumn, inputs: Inputs, accepted: Verdict, routing: Floats = 0.0
) -> BoolColumn:
    """Whether the verdict on runs that hold so many bytes, and nothing else, is worse than is accepted: not one of ten
    fits, or more run out of memory than the job's `risk`. routing: as of `bounds`, at most; it makes no plan safer.
    """
    reserved = (1 + inputs.runtime.memory.fragmentation) * allocated
    if accepted == Verdict.SAFE:
        needed = safe_bytes(bounds(allocated, reserved, communicators, inputs), inputs.job.risk)
    else:
        needed = bounds(allocated, reserved, communicators, inputs, routing).least
    return column(needed) > inputs.cluster.accelerator.visible_memory_bytes


def _states(weights: Weights, inputs: Inputs) -> FloatColumn:
    """Bytes that every stage keeps from step to step, shape (q,)."""
    storage = inputs.runtime.storage
    if storage.weights == "half":
        states = stage_states(weights.each, weights.stages, inputs)
        return column(states.parameters + states.gradients + states.optimizer_states).take(weights.of_stage)
    if storage.offloads_weights:
        return np.zeros(len(weights.of_stage))
    _, stored = stage_units(weights.each, weights.stages, inputs)
    trained = stored.trained(inputs)
    kept = (storage.weight_bytes + storage.moments_bytes) * trained + HALF_BYTES * (stored.all - trained)
    return column(kept).take(weights.of_stage)


def _grows(plans: Plans, inputs: Inputs, accepted: Verdict) -> BoolColumn:
    """Whether more bytes make no verdict on a stage better than is accepted; shape (n,). What must be visible for a
    safe plan is a sum of terms that all grow.
    """
    return np.ones(len(plans), dtype=bool) if accepted == Verdict.SAFE else _least_grows(plans, inputs)


def _least_grows(plans: Plans, inputs: Inputs) -> BoolColumn:
    """Whether one of ten runs of a stage holds no less than `bounds` says of its states alone; shape (n,).

    With S bytes of states, A of all else that is allocated and P of pieces, a = S + A and r = (1 + f) a + P. Where the
    busiest rank has up to k times as many rows, what unequal routing adds is at most (k - 1) (2 + f) A, as it adds no
    more to P than to A. `Bounds.least` takes from a sum of terms in S, A and P the root of a sum of squares of such
    terms, which by the triangle inequality is at most the sum of three roots, of S, A and P each. So it is no less than
    that of S where neither A nor P adds more to its root than to the sum: sqrt((m - l)^2 + (f - f')^2 + ((k - 1) (2 +
    f))^2) <= m + f and 1 <= 1 where x of `bounds` is allocated; where it is reserved memory, with (1 + f) (m - l) and
    (1 + f) m in place of m - l and m + f, and sqrt((m - l)^2 + 1) <= m.
    """
    memory, measured = inputs.runtime.memory, measured_memory(inputs)
    error = predictive("memory", like_memory(inputs, measured))
    share, middle = memory.fragmentation, float(np.exp(error.bias))
    below = middle - error.eight_of_ten[0]
    more, given_back = (most_unequal(plans, inputs) - 1) * (2 + share), share - memory.fragmentation_likely
    if measured == ALLOCATED:
        grows: BoolColumn = np.hypot(math.hypot(below, given_back), more) <= middle + share
        return grows
    grows = np.hypot(math.hypot((1 + share) * below, given_back), more) <= (1 + share) * middle
    return grows & (math.hypot(below, 1) <= middle)


def most_unequal(plans: Plans, inputs: Inputs) -> FloatColumn:
    """How many times as many rows the busiest rank has in one of ten training runs as is usual, at most: those of
    infinitely many tokens, whose chance makes both alike; shape (n,).
    """
    most = np.ones(len(plans))
    if inputs.routes_as_usual:
        unequal = inputs.with_expert_spread(expert_spread().most)
        for kind in inputs.model.layer_kinds:
            if kind.is_moe:
                usual, more = (hottest_over_mean(plans, each, kind, np.inf) for each in (inputs, unequal))
                most = np.maximum(most, column(more / usual))
    return most

"""States: 2-byte weights, gradients and optimizer states of one rank, by how data parallelism holds them."""

from __future__ import annotations

import operator
from typing import NamedTuple, Self

import numpy as np

from meshwright.arrays import FloatColumn, Floats, IntColumn, Ints, Numbers, larger, smaller, some, where
from meshwright.cost.memory.dummy_gradients import dummy_gradient_bytes
from meshwright.cost.memory.gradient_queue import waiting_gradients
from meshwright.cost.memory.in_flight import InFlight
from meshwright.cost.memory.parameters import expert_parameters, layer_parameters
from meshwright.cost.memory.stage_parameters import StageParameters, largest_layer, stage_parameters
from meshwright.cost.memory.timeline import MemoryTimeline, Moment
from meshwright.cost.optimizer_states import casts_gradients, device_optimizer_bytes
from meshwright.distinct import combined, rows_of
from meshwright.layout.groups import expert_sharding_ranks, sharding_ranks
from meshwright.layout.plans import Layout, of_rows
from meshwright.layout.stages import Stages
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES
from meshwright.specs.quantised_weights import quantised_bytes

GATHERED_LAYERS = 2
"""The layer that works and the one that is prefetched."""


class States(NamedTuple):
    """Bytes on one rank; each scalar or array (n,)."""

    parameters: Floats
    gradients: Floats
    optimizer_states: Floats
    whole_gradients: Floats
    """Of one layer or bucket before its reduce-scatter, alive during its backward."""
    updating: Floats
    """Copies of gradients and of moments and roots of moments, alive only while gradients are reduced or the optimizer
    works, when no activations are."""
    joined: Floats
    """Of these, what one tensor needs: memory that activations have left in pieces does not serve it."""
    queued: Floats = 0.0
    """Whole gradients where most layers' wait to be given back, in place of `whole_gradients`; 0: none wait."""
    passed: Floats = 0.0
    """By then the share of layers whose backward is done."""


def state_bytes(
    plan: Layout, inputs: Inputs, parameters: Numbers, layer: Numbers, ends: Numbers, ranks: Ints
) -> States:
    """Bytes of 2-byte weights, gradients and Adam states on one rank, for P parameters that ZeRO divides over n ranks.

    2 P bytes of weights beside the copies that the recipe's products take, or of the layers these copies alone (ZeRO 3:
    divided by n, and what is gathered: two layers, or the ends), gradients as the runtime keeps them (ZeRO 2: divided
    by n; 2-byte ones with an fp32 copy of what the rank updates, of which in ZeRO 3 only the copy counts, or with one
    that lives only while the optimizer works; fp32 ones with the 2-byte ones that stay beside them), and of fp32
    weights and moments 12 bytes or as many as the runtime keeps, divided by n from ZeRO 1 on, none where they are in
    the host's memory; where fp32 gradients are reduced in 2 bytes, 2 P more after the last backward, 6 P where one
    bucket holds them. Megatron's distributed optimizer: 6 + 12/n; DeepSpeed's ZeRO 2 and 3: 2 + 18/n and 18/n, on the
    host 2 and 2/n. One layer's whole gradients, or a full bucket of them, wait for their reduce-scatter, where buckets
    are not allocated whole (`bucket_bytes`).

    plan: scalar or array (n,); parameters: P, on the rank before data parallelism; layer: of its largest layer; ends:
    of embedding, final norm and head; ranks: n, counts. Returns bytes.
    Source: Rajbhandari et al., arXiv:1910.02054; Megatron-LM, dist_optimizer.md and distrib_optimizer.py
    (_copy_model_grads_to_main_grads casts the shard before the step, zero_grad drops the cast); DeepSpeed, estimators
    of stage_1_and_2.py and stage3.py.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> states = state_bytes(Plan(dp=8, zero=1), LLAMA, 1e9, layer=2e8, ends=0, ranks=8)
    >>> [float(size) / 1e9 for size in states[:3]]  # 2 + 4 + 12 / 8 bytes a parameter
    [2.0, 4.0, 1.5]
    """
    gradient, keeps_copy = inputs.gradient_bytes, inputs.runtime.storage.keeps_gradient_copy

    def shard(stage: int) -> Floats:
        return 1.0 * parameters / where(plan.zero >= stage, ranks, 1)

    copies = FP32_BYTES * casts_gradients(plan, inputs)
    copied = where(plan.zero == 3, FP32_BYTES - gradient, copies) if keeps_copy else 0.0
    on_host = (plan.zero > 1) & (inputs.runtime.storage.offloaded == "states_and_gradients")
    extra = inputs.runtime.storage.half_gradient_bytes if gradient == FP32_BYTES else 0
    size = inputs.runtime.sharding.gradient_bucket
    bucket: Floats = (
        1.0 * gradient * smaller(larger(size, layer), parameters) * (not inputs.runtime.sharding.whole_buckets)
    )
    cast = HALF_BYTES + where(parameters <= size, gradient, 0)
    joined = 1.0 * inputs.sums_half_copies * cast * parameters
    return States(
        parameters=_weights(plan, inputs, parameters, layer, ends, ranks),
        gradients=where(on_host, 0.0, gradient * shard(2) + copied * shard(1)) + extra * parameters,
        optimizer_states=device_optimizer_bytes(plan, inputs) * shard(1),
        whole_gradients=where(plan.zero > 1, bucket, 0.0),
        updating=(inputs.runtime.storage.cast_moment_bytes + (0 if keeps_copy else copies)) * shard(1)
        + joined
        + _root_bytes(plan, inputs, shard(1), shard(2)),
        joined=joined,
    )


def _root_bytes(plan: Layout, inputs: Inputs, owned: Floats, reduced: Floats) -> Floats:
    """Roots of second moments where Adam goes operator by operator, which are all taken before it divides by any.

    4 bytes of every parameter that the rank owns, for each of the runtime's lists, of one sub-group at most under
    ZeRO 3, less the 2-byte gradients that are dropped for their fp32 copies before the update; none where one kernel
    updates a weight, or the host does.
    owned: parameters of the rank; reduced: those of which it keeps gradients. Returns bytes. Source: torch 2.13
    optim/adam.py, _multi_tensor_adam (`exp_avg_sq_sqrt = torch._foreach_sqrt(...)`), which Megatron-LM takes where
    neither Transformer Engine nor Apex is installed (core_v0.14.0, core/optimizer/__init__.py); DeepSpeed v0.17.5,
    runtime/zero/stage_1_and_2.py, step (free_grad_in_param_list, averaged_gradients), and stage3.py (sub_group_size).
    Qwen2.5-7B in Megatron on four A100 had 22 bytes a parameter allocated, where states are 18
    (XianghaoKong/llm-serving-systems-lab, docs/s10_results.md).
    """
    storage = inputs.runtime.storage
    if storage.fused_update or storage.offloads_states:
        return 0.0 * owned
    at_once = smaller(owned, storage.sub_group_size or owned)
    roots = storage.update_lists * storage.moment_bytes * where(plan.zero == 3, at_once, owned)
    dropped = where(plan.zero == 3, 0.0, inputs.gradient_bytes * reduced) * casts_gradients(plan, inputs)
    return larger(roots - dropped, 0.0)


def bucket_bytes(plan: Layout, inputs: Inputs) -> tuple[Floats, Floats]:
    """Gradient buckets that are allocated at their full size: those of every backward, and the one that a pipeline
    takes after its last.

    plan: scalar or array (n,). Returns bytes. Source: DeepSpeed, runtime/zero/stage_1_and_2.py (setup_buckets: two
    where communication overlaps; reduce_gradients: one under a pipeline), stage3.py (one).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> [float(size) for size in bucket_bytes(Plan(dp=8, zero=1), LLAMA)]  # Megatron has none
    [0.0, 0.0]
    """
    count, size = inputs.runtime.sharding.whole_buckets, 1.0 * HALF_BYTES * inputs.runtime.sharding.gradient_bucket
    sharded, pipelined = (plan.zero > 0) & (inputs.gradient_bytes < FP32_BYTES), plan.pp > 1
    during = where(plan.zero == 3, min(count, 1), count) * size
    return where(sharded & ~pipelined, during, 0.0), where(sharded & pipelined, min(count, 1) * size, 0.0)


def _weights(plan: Layout, inputs: Inputs, parameters: Numbers, layer: Numbers, ends: Numbers, ranks: Ints) -> Floats:
    """Bytes of 2-byte weights with their quantised copies, or of these alone for the layers and 2 for the ends."""
    stored, extra = _layer_bytes(inputs)
    layers, sharded = larger(parameters - ends, 0.0), plan.zero == 3
    weights = stored * layers + HALF_BYTES * ends
    gathered = _gathered(inputs, weights, stored * layer, HALF_BYTES * ends)
    return where(sharded, weights / ranks + gathered, weights) + extra * layers


def _layer_bytes(inputs: Inputs) -> tuple[float, float]:
    """Bytes of one weight of a layer, and of its quantised copies beside it."""
    quantised = quantised_bytes(inputs)
    return (quantised, 0.0) if inputs.stores_quantised else (HALF_BYTES, quantised)


def _gathered(inputs: Inputs, whole: Numbers, layer: Numbers, ends: Numbers) -> Numbers:
    """What is gathered at once of all weights, in the unit that they are given in."""
    layers = GATHERED_LAYERS * layer
    together = layers + ends if inputs.runtime.sharding.keeps_ends_gathered else larger(layers, ends)
    return smaller(together, whole)


class WeightStates(NamedTuple):
    """What stages hold of their weights from step to step, whatever their micro-batches are; shape (r,)."""

    parameters: StageParameters
    """Counts."""
    states: States
    """Bytes."""
    dummy_gradients: FloatColumn
    """Bytes."""

    @classmethod
    def of(cls, plans: Layout, stages: Stages, inputs: Inputs) -> Self:
        """That of the stages of plans."""
        parameters = stage_parameters(plans, stages, inputs)
        states = stage_states(plans, stages, inputs, parameters)
        return cls(parameters, states, dummy_gradient_bytes(plans, stages, inputs))


def stage_states(plans: Layout, stages: Stages, inputs: Inputs, parameters: StageParameters | None = None) -> States:
    """States of every stage, shape (r,), bytes: of dense weights and of routed experts, which ZeRO divides over
    different groups; of frozen weights these alone, beside adapters in 2 bytes. stages: of the plans; parameters:
    theirs, counts; None: not known. Returns bytes. Source: `state_bytes`, `bucket_bytes`.
    """
    rows, kinds = of_rows(plans, stages.plan), inputs.model.layer_kinds
    parameters = parameters or stage_parameters(plans, stages, inputs)
    largest = largest_layer(stages, [layer_parameters(plans, inputs, kind) for kind in kinds])
    largest_end = larger(parameters.embedding, parameters.head)
    ends = largest_end if inputs.gathers_ends_apart else parameters.ends
    whole = state_bytes(rows, inputs, parameters.dense, largest, ends, sharding_ranks(rows))
    if inputs.freezes_weights:
        trained = state_bytes(rows, inputs, parameters.trained, 0.0 * largest, 0.0 * ends, sharding_ranks(rows))
        in_half = (HALF_BYTES - sum(_layer_bytes(inputs))) * parameters.trained
        whole = trained._replace(parameters=whole.parameters + in_half)
    during, after = bucket_bytes(rows, inputs)
    buffered = inputs.runtime.storage.offloaded == "states_and_gradients"
    whole = whole._replace(
        gradients=whole.gradients + HALF_BYTES * buffered * largest_end,
        whole_gradients=whole.whole_gradients + during,
        updating=whole.updating + after,
        joined=whole.joined + after,
        queued=0.0 * largest,
        passed=0.0 * largest,
    )
    unit = largest
    if inputs.model.is_moe:
        largest = largest_layer(stages, [expert_parameters(plans, inputs, kind) for kind in kinds])
        routed = state_bytes(rows, inputs, parameters.experts, largest, 0.0 * largest, expert_sharding_ranks(rows))
        if inputs.freezes_weights:
            return whole._replace(parameters=whole.parameters + routed.parameters)
        whole, unit = combined(operator.add, whole, routed), unit + largest
    if not inputs.runtime.sharding.gradient_queue or inputs.freezes_weights:
        return whole
    head = largest_end if inputs.model.tied_embeddings else parameters.head
    waiting, sharded = waiting_gradients(inputs, unit, head, stages.layers.sum(axis=1)), rows.zero == 3
    return whole._replace(
        gradients=whole.gradients + where(sharded, waiting.standing, 0.0),
        whole_gradients=where(sharded, waiting.first, whole.whole_gradients),
        queued=where(sharded, waiting.queued, 0.0),
        passed=where(sharded, waiting.passed, 0.0),
    )


def half_weights_step(
    states: States,
    dummy_gradients: FloatColumn,
    held: IntColumn,
    in_flight: InFlight,
    row: IntColumn,
    unused: Floats,
) -> MemoryTimeline:
    """A step beside the states: the loss, with its logits; one layer's backward, with its whole gradients; that of a
    later one, where those of layers before it wait; the optimizer's update, when no activations are left.

    What the update needs is counted beyond the activations, which stay on the account.
    states: of the distinct stages as far as weights go; dummy_gradients: theirs, what autograd is handed for weight
    gradients, alive all along; bytes, shape (w,); in_flight: of the stages that differ in that, bytes, shape (k,);
    held, row: of every stage its like among either, shape (r,); unused: `beside_logits`, bytes, shape (r,). Returns
    allocations in bytes. Source: Megatron-LM, distributed_data_parallel.py; counted on fake tensors.
    """
    step = MemoryTimeline(len(row), unused)
    activations, messages, logits, working = (
        rows_of(size, row) for size in (in_flight.activations, in_flight.messages, in_flight.logits, in_flight.working)
    )
    step.allocate("activations", "saved for backward", activations)
    step.allocate("temporaries", "dummy weight gradients", rows_of(dummy_gradients, held))
    step.allocate("temporaries", "message buffers", messages)
    step.allocate("logits", "logits", logits)
    step.at(Moment.LOSS_BACKWARD)
    step.free("logits")
    step.allocate("temporaries", "working set", working + rows_of(states.whole_gradients, held))
    step.at(Moment.LAST_LAYER_BACKWARD)
    if some(states.queued):
        left = 1.0 - rows_of(states.passed, held)
        step.allocate("activations", "saved for backward", activations * left)
        step.allocate("temporaries", "working set", working + rows_of(states.queued, held))
        step.at(Moment.MIDDLE_LAYER_BACKWARD)
        step.allocate("activations", "saved for backward", activations)
    step.free("working set", "message buffers")
    if some(states.updating):
        beyond = np.maximum(rows_of(states.updating, held) - activations, 0.0)
        step.allocate("temporaries", "copies of gradients", beyond)
    step.at(Moment.OPTIMIZER_STEP)
    return step

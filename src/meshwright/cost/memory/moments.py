"""Moments: what is allocated at each stage of a step where weights are gathered and gradients reduced unit by unit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn
from meshwright.cost.element import FP32_BYTES, HALF_BYTES
from meshwright.cost.memory.kept import Kept
from meshwright.cost.memory.units import Units
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs

MOMENTS = (
    "forward",
    "forward begins",
    "head",
    "head reduced",
    "last layer",
    "next layer",
    "gathering",
    "first layer",
    "embedding",
)


class Moment(NamedTuple):
    """Bytes beside what is stored all along; each of shape (r,)."""

    gathered: FloatColumn
    gradients: FloatColumn
    activations: FloatColumn
    logits: FloatColumn
    temporaries: FloatColumn


def stored_bytes(stored: Units, inputs: Inputs) -> tuple[FloatColumn, FloatColumn]:
    """fp32 weights, and the two moments of Adam, of the parameters that a rank stores; bytes, shape (r,)."""
    return FP32_BYTES * stored.all, 2 * inputs.runtime.moment_bytes * stored.all


def highest_moment(plans: Plans, whole: Units, stored: Units, kept: Kept, inputs: Inputs) -> Moment:
    """What is allocated at the moment of a step with the most.

    Forward gathers a layer after the other in 2 bytes, the next one ahead; the ends stay gathered where the runtime
    says so, with ZeRO 2 everything does. The cross-entropy works backward before any layer is gathered again. In
    backward a unit's 2-byte gradients are joined in the format of the sum, sent, and kept on the rank in fp32; what is
    sent stays until the next unit's is. Under a pipeline that defers it gradients stay whole, and weights gathered
    after a backward. plans: of every stage, shape (r,); whole, stored: their units. Returns bytes, shape (r,).
    Source: torch.distributed.fsdp 2.13, _fully_shard/_fsdp_param_group.py (unshard, wait_for_unshard, post_backward),
    _fsdp_collectives.py (foreach_reduce), _fsdp_param.py (to_accumulated_grad_if_needed); peaks counted on fake
    tensors, moment by moment.
    """
    moments = _moments(plans, whole, stored, kept, inputs)
    totals = np.array([sum(moment) for moment in moments])
    chosen = totals.argmax(axis=0)[None]
    return Moment(*(np.take_along_axis(np.array(part), chosen, axis=0)[0] for part in zip(*moments, strict=True)))


def pooled_bytes(plans: Plans, whole: Units, stored: Units, inputs: Inputs) -> FloatColumn:
    """Not alive at the peak, yet kept for the streams of the exchanges alone: the ends and one layer as they were
    gathered, the shard of the ends that was sent, and 4 P / n of reduced gradients that do not last.

    plans: of every stage, shape (r,); whole, stored: their units. Returns bytes, shape (r,).
    Source: torch.distributed.fsdp 2.13, _fully_shard/_fsdp_collectives.py L336-365, L611-635 and _fsdp_param_group.py
    L475-489.
    """
    if not inputs.runtime.exchange_pools:
        return np.zeros(len(whole.all))
    ends, of_shard = whole.ends, stored.ends
    if inputs.runtime.ends_apart:
        ends, of_shard = np.maximum(whole.embedding, whole.head), np.maximum(stored.embedding, stored.head)
    exchanged = np.where(stored.all < whole.all, HALF_BYTES * (ends + whole.layer + of_shard), 0.0)
    deferred = inputs.runtime.defers_reduction & (plans.pp > 1)
    lasting = (plans.num_microbatches > 1) & ~deferred
    pools: FloatColumn = np.where(plans.zero > 1, exchanged + FP32_BYTES * stored.all * ~lasting, 0.0)
    return pools


def _moments(plans: Plans, whole: Units, stored: Units, kept: Kept, inputs: Inputs) -> list[Moment]:
    """In the order of `MOMENTS`."""
    runtime, nothing = inputs.runtime, np.zeros(len(whole.all))
    sharded, resharded, apart = plans.zero > 1, plans.zero == 3, runtime.ends_apart
    deferred = runtime.defers_reduction & (plans.pp > 1) & sharded
    reduced = sharded & ~deferred
    first, again = reduced & (plans.num_microbatches == 1), reduced & (plans.num_microbatches > 1)
    sent = inputs.gradient_bytes
    kept_gathered = (whole.head if apart else whole.ends) * runtime.keeps_ends_gathered
    kept_gathered = kept_gathered + whole.layer * runtime.keeps_last_layer_gathered
    through = np.where(resharded, kept_gathered, whole.all) * HALF_BYTES
    in_layers = through - HALF_BYTES * whole.head * (apart & resharded & reduced)
    two, one = _prefetched(resharded, whole, 2, inputs), _prefetched(resharded, whole, 1, inputs)
    lasting = _lasting_gradients(plans, whole, stored, inputs, sharded, deferred, again)
    shard = FP32_BYTES * first
    of_head = np.where(apart, sent * whole.head * reduced + shard * stored.head, HALF_BYTES * whole.head * sharded)
    passed = kept.activations - kept.head
    later = sent * whole.layer * reduced + HALF_BYTES * whole.head * (sharded & (not apart))
    later_shards = lasting + shard * (stored.layer + stored.head * apart)
    joined = (HALF_BYTES + sent) * reduced
    last = whole.embedding if apart else whole.ends
    unit = np.maximum(last, whole.layer)
    behind = kept.activations - kept.chunk - kept.head
    all_gathered = HALF_BYTES * whole.all * (deferred & resharded)
    return [
        Moment(through + two, lasting, kept.activations, nothing, kept.ending),
        Moment(all_gathered, lasting, behind * (all_gathered > 0), nothing, nothing),
        Moment(through, lasting, kept.activations, kept.logits, nothing),
        Moment(
            in_layers + one,
            lasting + shard * stored.head,
            passed,
            nothing,
            (joined * whole.head + kept.residual) * (apart & (whole.head > 0)),
        ),
        Moment(in_layers + two, lasting, passed, nothing, of_head + kept.working),
        Moment(in_layers + two, later_shards, passed - kept.layer, nothing, later + kept.working),
        Moment(
            in_layers + two + HALF_BYTES * whole.split_experts * resharded,
            later_shards,
            passed - kept.layer,
            nothing,
            later + kept.residual,
        ),
        Moment(
            np.where(reduced, in_layers + one, all_gathered),
            lasting + shard * np.maximum(stored.all - stored.layer - stored.embedding, 0.0),
            np.where(reduced, kept.layer, (behind + kept.layer) * (all_gathered > 0)),
            nothing,
            later + kept.working,
        ),
        Moment(
            all_gathered,
            lasting + shard * stored.all,
            nothing,
            nothing,
            np.where(reduced, (HALF_BYTES + sent) * last, sent * unit * sharded),
        ),
    ]


def _prefetched(resharded: BoolColumn, whole: Units, layers: int, inputs: Inputs) -> FloatColumn:
    """Layers gathered at once where they are resharded, beside one that stays gathered, bytes."""
    beside = layers - inputs.runtime.keeps_last_layer_gathered
    held = np.minimum(beside * whole.layer, np.maximum(whole.all - whole.ends, 0.0))
    gathered: FloatColumn = HALF_BYTES * held * resharded
    return gathered


def _lasting_gradients(
    plans: Plans,
    whole: Units,
    stored: Units,
    inputs: Inputs,
    sharded: BoolColumn,
    deferred: BoolColumn,
    again: BoolColumn,
) -> FloatColumn:
    """Gradients that stand from micro-batch to micro-batch: of replicas all, with the buckets' copies; deferred ones
    whole; else the fp32 shards, once there is more than one micro-batch. Bytes, shape (r,).
    """
    buckets = 1 + inputs.runtime.gradient_copies
    lasting = np.where(sharded, 0.0, FP32_BYTES * buckets * whole.all)
    waits = deferred & (plans.num_microbatches > 1)
    gradients: FloatColumn = (
        lasting + inputs.gradient_bytes * whole.all * waits + FP32_BYTES * stored.all * again
    )
    return gradients

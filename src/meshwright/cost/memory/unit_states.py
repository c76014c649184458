"""Unit states: what steps with fp32 weights keep from step to step, in pools, and while a unit is reduced."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meshwright.arrays import FloatColumn, Floats, IntColumn, some
from meshwright.cost.memory.states import States
from meshwright.cost.memory.unit_step import UnitStep
from meshwright.layout.groups import sharding_ranks
from meshwright.specs.packed import BYTES_OF_SCALES
from meshwright.specs.precision import HALF_BYTES


def stored_states(step: UnitStep) -> States:
    """Weights, 2-byte ones where they are frozen, and the two moments of Adam of those that are trained, of the
    parameters that a rank stores; nothing where the host has them. Scales of packed weights stand on every rank, which
    keeps them beside the tensor that FSDP divides.

    step: of every stage, shape (r,). Returns bytes, shape (r,). Source: the runtime's formats; bitsandbytes 0.50.2
    functional.py, QuantState.
    """
    stored, storage = step.stored.all - step.stored_once, step.inputs.runtime.storage
    stored = stored * (not storage.offloads_weights)
    scales = BYTES_OF_SCALES * step.stored.packed
    nothing, trained = 0.0 * stored, step.stored.adapters if step.inputs.freezes_weights else stored
    return States(
        parameters=storage.weight_bytes * trained + HALF_BYTES * (stored - trained) + scales,
        gradients=nothing,
        optimizer_states=storage.moments_bytes * trained,
        whole_gradients=nothing,
        updating=nothing,
        joined=nothing,
    )


def pooled_bytes(step: UnitStep) -> FloatColumn:
    """Not alive at the peak, yet kept for the streams of the exchanges alone: the ends and one layer as they were
    gathered, the shard of the ends that was sent, and reduced gradients that do not last; where these go to the host,
    those of one unit. Or the layers that the host has gathered ahead.

    step: of every stage, shape (r,). Returns bytes, shape (r,). Source: torch.distributed.fsdp 2.13,
    _fully_shard/_fsdp_collectives.py L336-365, L611-635 and _fsdp_param_group.py L475-489.
    """
    whole, stored, sharding = step.whole, step.stored, step.inputs.runtime.sharding
    if not sharding.exchange_pools:
        return np.zeros(len(whole.all)) if sharding.limits_gathers else _gathered_ahead(step)
    ends, of_shard = whole.ends, stored.ends
    if step.ends_apart:
        ends, of_shard = np.maximum(whole.embedding, whole.head), np.maximum(stored.embedding, stored.head)
    exchanged = np.where(stored.all < whole.all, HALF_BYTES * (ends + whole.layer + of_shard), 0.0)
    lasting = step.keeps_shards & ~step.deferred
    reduced = step.weight_bytes * stored.trained(step.inputs) * ~lasting
    if step.inputs.runtime.storage.offloads_weights:
        reduced = _copied_unit(step, np.maximum(of_shard, stored.layer))
    return np.where(step.plans.zero > 1, exchanged + reduced, 0.0)


def _gathered_ahead(step: UnitStep) -> FloatColumn:
    """Bytes of all layers in 2 bytes, but for the two that are counted as gathered.

    Nothing makes the host wait within a pass. A layer's weights are released when it has issued that layer, and their
    memory serves another one when the device has computed it (`record_stream`), so that a host that is ahead by a whole
    pass has new memory for every layer. The allocator waits for the device and gives all of it back before it runs out
    (release_cached_blocks of CUDACachingAllocator), so that it is held, not needed.
    Source: torch 2.0.1 distributed/fsdp/_runtime_utils.py L323-331 and L357-360, flat_param.py L1309
    (`_no_dispatch_record_stream`); c10/cuda/CUDACachingAllocator.cpp (synchronize_and_free_events).
    """
    sharded = step.resharded & (sharding_ranks(step.plans) > 1)
    ahead: FloatColumn = np.maximum(HALF_BYTES * step.layers - step.prefetched(2), 0.0) * sharded
    return ahead


def _copied_unit(step: UnitStep, shard: FloatColumn) -> FloatColumn:
    """Bytes of what is reduced of the largest unit and cast for the host; of several ranks, which count the first among
    what is exchanged, also the largest weight as it comes from the host. shard: parameters of that unit, counts, shape
    (r,).
    """
    weight = np.maximum(step.stored.embedding, step.stored.head)
    several = step.cast_bytes * shard + step.weight_bytes * weight
    alone = (step.inputs.gradient_bytes + step.cast_bytes) * shard
    copied: FloatColumn = np.where(step.stored.all < step.whole.all, several, alone)
    return copied


def reduced_unit(
    step: UnitStep,
    whole: FloatColumn,
    stored: FloatColumn,
    gradient_bytes: int = HALF_BYTES,
    last: FloatColumn | None = None,
) -> FloatColumn:
    """While the gradients of a unit are reduced: joined in the format of the sum, and beside it what is put out.

    The gradients stand beside what is joined. They go before the output comes, but for the unit's last one, which a
    loop of foreach_reduce still names: the head's, or that of an embedding alone. On one rank all go, and the output is
    copied from a quotient where the runtime sets a divisor.
    step: of every stage; whole, stored: parameters of the unit, counts, shape (r,); gradient_bytes: of each gradient
    before; last: parameters of the one that is named, if not that. Returns bytes, shape (r,). Source: torch 2.13,
    distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_reduce (L580, L597-631, L696).
    """
    sent = step.inputs.gradient_bytes
    if last is None:
        last = np.where(step.whole.head > 0, np.minimum(step.whole.head, whole), whole)
    cast = step.cast_bytes
    quotient = sent * step.inputs.runtime.sharding.divides_gradients
    one, several = (sent + max(quotient, cast)) * whole, gradient_bytes * last + (sent + cast) * stored
    put_out = np.where(step.stored.all < step.whole.all, several, one)
    return sent * whole + np.maximum(gradient_bytes * whole, put_out)


@dataclass(frozen=True, eq=False)
class WorkedChunks:
    """Gradients and weights after some backward passes of chunks, bytes, shape (r,).

    Whole gradients of the chunks that have worked backward. A chunk reduces its own after its last micro-batch: with
    one group of micro-batches, and so one chunk after the other, shards are left of those that are done.
    Source: torch 2.13, distributed/pipelining/stage.py, backward_maybe_with_nosync.
    """

    step: UnitStep
    """Of every stage."""
    backwards: IntColumn
    """A count, shape (r,)."""
    last_reduced: bool = True
    """Also the chunk that the last of these completes."""

    @cached_property
    def gradients(self) -> FloatColumn:
        """Whole ones and shards."""
        step, whole, chunks, reduced = self.step, self.step.whole, self.step.plans.vpp, self._reduced
        # Whole gradients of the chunks between, with the ends, and shards of those that are reduced.
        # Where the loss goes in pieces, what it sent of the head stands until anything else is reduced.
        head, has_head = reduced > 0, (self._worked > 0) | (step.several & step.loss_in_pieces)
        alive = whole.of_chunks(self._worked, chunks) - self._layers + whole.head * (has_head & ~head)
        alive = alive + whole.embedding * ((self._worked >= chunks) & (reduced < chunks))
        shards = step.stored.of_chunks(reduced, chunks) + step.stored.head * head if some(reduced) else 0.0
        if step.loss_in_pieces:
            shards = shards + (step.loss_unit[1] + step.reduced_twice + step.summed_last) * has_head
            shards = shards - step.stored.head * head
        return step.inputs.gradient_bytes * alive + step.weight_bytes * shards

    @property
    def resharded(self) -> FloatColumn:
        """Weights that have been resharded by then: ZeRO 2 less those that were gathered in their place, ZeRO 3 a head
        that was kept.
        """
        step, kept = self.step, self.step.whole.head * (self._reduced > 0)
        others = self._layers + kept - step.gathered_next(self._reduced)
        return HALF_BYTES * np.where(step.resharded, kept * step.keeps_ends_gathered, others)

    @cached_property
    def _worked(self) -> FloatColumn:
        """Chunks that have worked backward."""
        return np.minimum(np.ceil(self.backwards / self.step.group), self.step.plans.vpp)

    @cached_property
    def _reduced(self) -> FloatColumn:
        """Those of them that have reduced their gradients."""
        done = self.backwards // self.step.group if self.last_reduced else self._worked - 1
        return np.clip(done, 0, self.step.plans.vpp) * self.step.one_group

    @cached_property
    def _layers(self) -> Floats:
        """Parameters of the layers of these, a count."""
        return self.step.whole.of_chunks(self._reduced, self.step.plans.vpp) if some(self._reduced) else 0.0

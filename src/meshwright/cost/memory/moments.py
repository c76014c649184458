"""Moments: what is allocated at each moment of a step where weights are gathered and gradients reduced unit by unit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn, IntColumn
from meshwright.cost.element import FP32_BYTES, HALF_BYTES
from meshwright.cost.memory.kept import Kept
from meshwright.cost.memory.unit_step import UnitStep
from meshwright.cost.memory.units import Units
from meshwright.layout.microbatches import microbatch_group
from meshwright.layout.plans import Plans
from meshwright.schedules.gathered import ChunksLeft, Standing
from meshwright.specs.inputs import Inputs


class Moment(NamedTuple):
    """Bytes beside what is stored all along; each of shape (r,)."""

    gathered: FloatColumn
    gradients: FloatColumn
    activations: FloatColumn
    logits: FloatColumn
    temporaries: FloatColumn


def stored_bytes(stored: Units, inputs: Inputs) -> tuple[FloatColumn, FloatColumn]:
    """fp32 weights, and the two moments of Adam; stored: the parameters that a rank stores. Bytes, shape (r,)."""
    return FP32_BYTES * stored.all, 2 * inputs.runtime.storage.moment_bytes * stored.all


def pooled_bytes(plans: Plans, whole: Units, stored: Units, inputs: Inputs) -> FloatColumn:
    """Not alive at the peak, yet kept for the streams of the exchanges alone: the ends and one layer as they were
    gathered, the shard of the ends that was sent, and 4 P / n of reduced gradients that do not last.

    plans: of every stage, shape (r,); whole, stored: their units. Returns bytes, shape (r,).
    Source: torch.distributed.fsdp 2.13, _fully_shard/_fsdp_collectives.py L336-365, L611-635 and _fsdp_param_group.py
    L475-489.
    """
    if not inputs.runtime.sharding.exchange_pools:
        return np.zeros(len(whole.all))
    ends, of_shard = whole.ends, stored.ends
    if inputs.runtime.sharding.ends_apart:
        ends, of_shard = np.maximum(whole.embedding, whole.head), np.maximum(stored.embedding, stored.head)
    exchanged = np.where(stored.all < whole.all, HALF_BYTES * (ends + whole.layer + of_shard), 0.0)
    deferred = inputs.runtime.sharding.defers_reduction & (plans.pp > 1)
    lasting = (plans.num_microbatches > 1) & ~deferred
    pools: FloatColumn = np.where(plans.zero > 1, exchanged + FP32_BYTES * stored.all * ~lasting, 0.0)
    return pools


def highest_moment(
    plans: Plans, whole: Units, stored: Units, kept: Kept, backwards: IntColumn, standing: ChunksLeft, inputs: Inputs
) -> Moment:
    """What is allocated at the moment of a step with the most.

    Forward gathers a layer after the other in 2 bytes, the next one ahead; the ends stay gathered where the runtime
    says so, with ZeRO 2 everything does. The cross-entropy works backward before any layer is gathered again. In
    backward a unit's 2-byte gradients are joined in the format of the sum, sent, and kept on the rank in fp32; what is
    sent stays until the next unit's is. Under a pipeline that defers it gradients stay whole, and weights gathered
    after a backward. plans: of every stage, shape (r,); whole, stored: their units; backwards: of chunks, that
    come before the last forward, a count: they tell whose gradients stand beside all activations; standing: of several
    chunks those that stay gathered. Returns bytes, shape (r,).
    Source: torch.distributed.fsdp 2.13, _fully_shard/_fsdp_param_group.py (unshard, wait_for_unshard, post_backward),
    _fsdp_collectives.py (foreach_all_gather_copy_out, foreach_reduce), _fsdp_param.py (to_accumulated_grad_if_needed);
    peaks counted on fake tensors, moment by moment.
    """
    moments = _Step(plans, whole, stored, kept, backwards, standing, inputs).moments()
    chosen = np.array([sum(moment) for moment in moments]).argmax(axis=0)[None]
    return Moment(*(np.take_along_axis(np.array(part), chosen, axis=0)[0] for part in zip(*moments, strict=True)))


class _Step(UnitStep):
    """The moments of the step of every stage."""

    def moments(self) -> list[Moment]:
        """All that may be the highest."""
        every = np.maximum((self.plans.vpp - 1) * microbatch_group(self.plans) + 1 - self.backwards, 1)
        kept, standing = self.kept, self.standing
        every = np.where(self.resharded, standing.backwards, every)
        return [
            self._forward_ends(),
            self._forward_loss(),
            self._loss(self.beside_all, kept.activations, kept.logits, standing.at_loss),
            *self._passes(self.beside_all, kept.activations, standing.in_flight),
            *self._ending(1, standing.ending),
            *self._ending(every, standing.most),
            self._between_passes(),
            self._head_reduced(),
            self._next_layer(),
            self._next_gathered(),
            *self._second_layer(),
            self._first_layer(),
            self._first_gathered(),
            self._embedding_added(),
            self._embedding(),
        ]

    def _forward_ends(self) -> Moment:
        """The last layer's forward ends."""
        kept, others = self.kept, self.left_gathered(self.standing.forward)
        return Moment(
            self.through + others + self.ahead(2), self.beside_all, kept.activations, 0.0 * kept.logits, kept.ending
        )

    def _forward_loss(self) -> Moment:
        """The cross-entropy's forward, while all that autocast has copied is there."""
        kept, there = self.kept, self.cast > 0
        parts = self.cast, self.beside_all, kept.activations, kept.logits_forward, 0.0 * self.cast
        return Moment(*(part * there for part in parts))

    def _ending(self, backwards: int | IntColumn, standing: Standing) -> list[Moment]:
        """The cross-entropy and the last layer once so many backward passes have followed the last forward."""
        gradients, activations, back = self.after(backwards), self.left(backwards), self.given_back(backwards)
        return [
            self._loss(gradients, activations, self.kept.later_logits, standing.others + standing.own, back),
            *self._passes(gradients, activations, standing, back),
        ]

    def _loss(
        self,
        gradients: FloatColumn,
        activations: FloatColumn,
        logits: FloatColumn,
        standing: IntColumn,
        back: FloatColumn | float = 0.0,
    ) -> Moment:
        """The cross-entropy, beside these gradients, activations and chunks that stand gathered, less what was given
        back.
        """
        gathered = self.through + self.left_gathered(standing) - back
        return Moment(gathered, gradients, activations, logits * (activations > 0), 0.0 * gradients)

    def _passes(
        self, gradients: FloatColumn, activations: FloatColumn, standing: Standing, back: FloatColumn | float = 0.0
    ) -> list[Moment]:
        """The last layer's backward and its end, beside the same."""
        kept, nothing, there = self.kept, 0.0 * gradients, activations > 0
        passed, left = np.maximum(activations - kept.head, 0.0), self.left_gathered(standing.others + standing.own)
        in_layers = self.in_layers + left + self.ahead(2) * (standing.own == 0) - back
        added = (HALF_BYTES * self.whole.layer + self.of_head + kept.residual) * (there & self.deferred)
        return [
            Moment(in_layers, gradients, passed, nothing, (self.of_head + kept.working) * there),
            Moment(in_layers, gradients, np.maximum(passed - kept.layer, 0.0), nothing, added),
        ]

    def _between_passes(self) -> Moment:
        """Before a forward that follows a backward, where all weights are still gathered."""
        nothing = 0.0 * self.lasting
        return Moment(self.left_behind, self.beside_all, self.behind * self.leaves_gathered, nothing, nothing)

    def _head_reduced(self) -> Moment:
        """The head a unit of its own: its gradients joined and sent, the last layer on its way."""
        apart = self.inputs.runtime.sharding.ends_apart & (self.whole.head > 0)
        joined = self.reduced * (HALF_BYTES + self.inputs.gradient_bytes) * self.whole.head + self.kept.residual
        passed = np.maximum(self.kept.activations - self.kept.head, 0.0)
        gradients = self.beside_all + self.new_shards * self.stored.head
        return Moment(self.in_layers + self.ahead(1), gradients, passed, 0.0 * passed, joined * apart)

    def _next_layer(self) -> Moment:
        """The layer before the last one, unless it is the first one, works; the last one's gradients are being sent."""
        kept, several = self.kept, self._has_more_layers_than(2)
        passed = np.maximum(kept.activations - kept.head - kept.layer, 0.0)
        gathered, gradients = self.in_layers + self.ahead(2), self.one_layer_reduced
        return Moment(
            *(part * several for part in (gathered, gradients, passed, 0.0 * passed, self.later + kept.working))
        )

    def _next_gathered(self) -> Moment:
        """The same, of any layer, before it works: experts that are divided by rows are put together in a copy."""
        kept, several = self.kept, self._has_more_layers_than(1)
        passed = np.maximum(kept.activations - kept.head - kept.layer, 0.0)
        copied = HALF_BYTES * self.whole.split_experts * self.resharded
        gathered = self.in_layers + self.ahead(2) + copied
        parts = gathered, self.one_layer_reduced, passed, 0.0 * passed, self.later + kept.residual
        return Moment(*(part * several for part in parts))

    def _second_layer(self) -> list[Moment]:
        """The second layer, where it is not the last one, works backward, the gradients of those above it have been
        reduced; then the first one is put together.
        """
        kept, stored = self.kept, self.stored
        moments = []
        for layers, copied, working in (
            (2, 0.0, kept.working),
            (1, HALF_BYTES * self.whole.split_experts * self.resharded, kept.residual),
        ):
            there = self.reduced & self._has_more_layers_than(layers)
            above = np.maximum(stored.all - layers * stored.layer - stored.embedding, 0.0)
            gathered, gradients = self.two_layers + copied, self.lasting + self.new_shards * above
            parts = gathered, gradients, layers * kept.layer, 0.0 * gathered, self.later + working
            moments.append(Moment(*(part * there for part in parts)))
        return moments

    def _first_layer(self) -> Moment:
        """The first layer, unless it is the last one, works backward, the gradients of all others have been reduced."""
        kept, stored, there = self.kept, self.stored, self.deferred | self._has_more_layers_than(1)
        others = np.maximum(stored.all - stored.layer - stored.embedding, 0.0)
        activations = np.where(self.reduced, kept.layer, (self.behind + kept.layer) * self.leaves_gathered)
        gathered = np.where(self.reduced, self.two_layers - HALF_BYTES * self.whole.layer, self.left_behind)
        gradients = self.before_first_layer + self.new_shards * others
        parts = gathered, gradients, activations, 0.0 * activations, self.later + kept.working
        return Moment(*(part * there for part in parts))

    def _has_more_layers_than(self, layers: int) -> BoolColumn:
        more: BoolColumn = self.whole.all - self.whole.ends > layers * self.whole.layer
        return more

    def _first_gathered(self) -> Moment:
        """Before the first layer works: all others have stayed gathered, and it is put together in a copy."""
        flat = HALF_BYTES * (self.whole.layer + self.whole.split_experts) * self.leaves_gathered
        activations = (self.behind + self.kept.layer) * self.leaves_gathered
        return Moment(self.left_behind + flat, self.before_first_layer, activations, 0.0 * flat, self.kept.residual)

    def _embedding_added(self) -> Moment:
        """Deferred: the embedding's gradients are there, and are about to be added to the others'."""
        first_chunk = self.backwards >= (self.plans.vpp - 1) * microbatch_group(self.plans)
        gradients, own = self.accumulated(self.backwards + 1), HALF_BYTES * self.whole.embedding * first_chunk
        activations = self.behind * self.leaves_gathered
        return Moment(self.left_behind, gradients, activations, 0.0 * own, own * self.leaves_gathered)

    def _embedding(self) -> Moment:
        """The last unit's gradients joined; or, deferred, one unit's after the other."""
        whole, sent, nothing = self.whole, self.inputs.gradient_bytes, 0.0 * self.lasting
        apart = self.inputs.runtime.sharding.ends_apart
        last, done = (whole.embedding, self.stored.embedding) if apart else (whole.ends, self.stored.ends)
        largest = sent * np.maximum(last, whole.layer) * self.deferred
        joined = np.where(self.reduced, (HALF_BYTES + sent) * last, largest)
        gradients = self.accumulated(self.plans.num_microbatches * self.plans.vpp)
        gradients = gradients + self.new_shards * (self.stored.all - done) + self.new_gradients
        return Moment(self.left_behind, gradients, nothing, nothing, joined + self.embedding_sums)

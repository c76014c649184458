"""UnitStep: which weights are gathered, and which gradients stand, at any time of a step of units."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn, IntColumn
from meshwright.cost.element import FP32_BYTES, HALF_BYTES
from meshwright.cost.memory.kept import Kept
from meshwright.cost.memory.units import Units
from meshwright.layout.microbatches import microbatch_group
from meshwright.layout.plan import Recompute
from meshwright.layout.plans import Plans
from meshwright.schedules.gathered import AHEAD, ChunksLeft
from meshwright.specs.inputs import Inputs


@dataclass(frozen=True)
class UnitStep:
    """The step of every stage; bytes, shape (r,)."""

    plans: Plans
    """Of every stage."""
    whole: Units
    stored: Units
    kept: Kept
    backwards: IntColumn
    """Of chunks, that come before the last forward."""
    standing: ChunksLeft
    inputs: Inputs

    def after(self, backwards: int | IntColumn) -> FloatColumn:
        """Gradients once so many chunks more have been worked backward; nothing where no pipeline defers them."""
        return self.accumulated(self.backwards + backwards) * self.deferred

    def left(self, backwards: int | IntColumn) -> FloatColumn:
        """Activations then."""
        return np.maximum(self.kept.later - (backwards - 1) * self.kept.chunk, 0.0) * self.deferred

    def accumulated(self, backwards: IntColumn) -> FloatColumn:
        """Lasting gradients after some backward passes of chunks: under a pipeline that defers them, those of the
        chunks that have been worked on, the one with the head first, which take turns by groups of micro-batches. Each
        reduces its own after its last micro-batch, so that with one group they are whole one after the other.
        """
        group, chunks, whole = microbatch_group(self.plans), self.plans.vpp, self.whole
        worked = np.minimum(np.ceil(backwards / group), chunks)
        several = (self.plans.num_microbatches > group) | (chunks == 1)
        layers = whole.of_chunks(worked, chunks) - whole.of_chunks(worked - 1, chunks) * ~several
        head = whole.head * np.where(several, worked >= 1, worked == 1)
        parameters = layers + head + whole.embedding * (worked >= chunks)
        shards = FP32_BYTES * self._done(self.stored, backwards)
        lasts = self.deferred & (self.plans.num_microbatches > 1)
        return np.where(self.deferred, (self.inputs.gradient_bytes * parameters + shards) * lasts, self.lasting)

    def _done(self, units: Units, backwards: IntColumn) -> FloatColumn:
        """Parameters of the chunks that have had their last micro-batch, where there is but one group of these."""
        group, chunks = microbatch_group(self.plans), self.plans.vpp
        worked = np.minimum(np.ceil(backwards / group), chunks)
        alone = self.deferred & (self.plans.num_microbatches <= group) & (worked > 1)
        done: FloatColumn = (units.of_chunks(worked - 1, chunks) + units.head) * alone
        return done

    @cached_property
    def before_first_layer(self) -> FloatColumn:
        """Gradients before the first layer's: in a chunk's first backward without its own and the embedding's."""
        group, chunks = microbatch_group(self.plans), self.plans.vpp
        first = (self.backwards % group == 0) & (self.backwards < group * chunks)
        own = self.whole.layer + self.whole.embedding * (self.backwards >= group * (chunks - 1))
        lasting = self.deferred & (self.plans.num_microbatches > 1)
        missing: FloatColumn = self.inputs.gradient_bytes * own * (first & lasting)
        return self.accumulated(self.backwards + 1) - missing

    def given_back(self, backwards: int | IntColumn) -> FloatColumn:
        """Of weights gathered from forward to backward those of such chunks, once so many more have worked backward."""
        return HALF_BYTES * self._done(self.whole, self.backwards + backwards) * ~self.resharded

    @cached_property
    def beside_all(self) -> FloatColumn:
        """Gradients while the most micro-batches are in flight."""
        return self.accumulated(self.backwards)

    @cached_property
    def sharded(self) -> BoolColumn:
        """Whether weights are gathered at all."""
        sharded: BoolColumn = self.plans.zero > 1
        return sharded

    @cached_property
    def resharded(self) -> BoolColumn:
        """Whether weights are given back after forward."""
        resharded: BoolColumn = self.plans.zero == 3
        return resharded

    @cached_property
    def deferred(self) -> BoolColumn:
        """Whether gradients stay whole until the last micro-batch."""
        deferred: BoolColumn = self.inputs.runtime.sharding.defers_reduction & (self.plans.pp > 1) & self.sharded
        return deferred

    @cached_property
    def reduced(self) -> BoolColumn:
        """Whether gradients are reduced in every backward."""
        reduced: BoolColumn = self.sharded & ~self.deferred
        return reduced

    @cached_property
    def new_shards(self) -> FloatColumn:
        """Bytes per stored parameter of gradients that appear as they are reduced: those of the first micro-batch, and
        what is summed over replicas, which stays until the backward is done.
        """
        appear = (self.plans.num_microbatches == 1) | (self.plans.dp_replicate > 1)
        shards: FloatColumn = FP32_BYTES * (self.reduced & appear)
        return shards

    @cached_property
    def new_gradients(self) -> FloatColumn:
        """Of replicas, those that appear in the backward of the only micro-batch."""
        gradients: FloatColumn = FP32_BYTES * self.whole.all * (~self.sharded & (self.plans.num_microbatches == 1))
        return gradients

    @cached_property
    def embedding_sums(self) -> FloatColumn:
        """Of replicas, the embedding's gradients beside the one that is kept: of an only micro-batch none, and where it
        is the head too, both of theirs.
        """
        summands = (self.plans.num_microbatches > 1) + 2.0 * self.inputs.model.tied_embeddings
        gradients: FloatColumn = FP32_BYTES * self.whole.embedding * summands * ~self.sharded
        return gradients

    @cached_property
    def lasting(self) -> FloatColumn:
        """Gradients that stand from micro-batch to micro-batch: of replicas all, with the buckets' copies; deferred
        ones whole; else the fp32 shards.
        """
        several = self.plans.num_microbatches > 1
        copies = several + 1.0 * self.inputs.runtime.storage.gradient_copies * (self.plans.dp > 1)
        replicas = np.where(self.sharded, 0.0, FP32_BYTES * copies * self.whole.all)
        whole = self.inputs.gradient_bytes * self.whole.all * (self.deferred & several)
        gradients: FloatColumn = replicas + whole + FP32_BYTES * self.stored.all * (self.reduced & several)
        return gradients

    @cached_property
    def through(self) -> FloatColumn:
        """Gathered from forward to backward."""
        runtime, whole, ahead = self.inputs.runtime, self.whole, np.minimum(AHEAD / self.plans.vpp, 1.0)
        first_waits = (ahead < 1) & (self.plans.num_microbatches <= microbatch_group(self.plans))
        embedding, layers = whole.embedding * ~first_waits, whole.all - whole.ends
        ends = (whole.head + embedding * (not runtime.sharding.ends_apart)) * runtime.sharding.keeps_ends_gathered
        every = whole.head + embedding + layers * ahead
        kept: FloatColumn = np.where(
            self.resharded, ends + whole.layer * runtime.sharding.keeps_last_layer_gathered, every
        )
        again = (self.whole.all - self.whole.ends) * self.casts_again
        return np.where(self.sharded, HALF_BYTES * kept, self.cast - HALF_BYTES * again)

    @cached_property
    def casts_again(self) -> BoolColumn:
        """Whether autocast casts the weights of layers that are computed again a second time, and keeps none before."""
        casts: BoolColumn = self.inputs.runtime.storage.autocast & (self.plans.recompute == Recompute.FULL)
        return casts

    @cached_property
    def cast(self) -> FloatColumn:
        """Of replicas, the 2-byte copies when forward ends: under autocast those of what matrix products take."""
        embedding = self.whole.embedding * (
            self.inputs.runtime.storage.autocast and not self.inputs.model.tied_embeddings
        )
        cast: FloatColumn = HALF_BYTES * (self.whole.all - embedding) * ~self.sharded
        return cast

    @cached_property
    def in_layers(self) -> FloatColumn:
        """Gathered while layers work backward, beside them: not a head that is a unit of its own and done."""
        done = self.inputs.runtime.sharding.ends_apart & self.resharded & self.reduced
        gathered: FloatColumn = (
            self.through
            - HALF_BYTES * self.whole.head * self.inputs.runtime.sharding.keeps_ends_gathered * done
            + HALF_BYTES * self.whole.layer * self.casts_again
        )
        return gathered

    @cached_property
    def two_layers(self) -> FloatColumn:
        """Gathered while the second layer works backward: all others have been given back."""
        root = 0.0 if self.inputs.runtime.sharding.ends_apart else self.whole.ends
        held = np.minimum(2 * self.whole.layer, np.maximum(self.whole.all - self.whole.ends, 0.0))
        gathered: FloatColumn = HALF_BYTES * (root + held) * self.sharded
        return gathered

    def ahead(self, layers: int) -> FloatColumn:
        """Layers gathered at once where they are resharded, beside one that stays gathered."""
        beside = layers - self.inputs.runtime.sharding.keeps_last_layer_gathered
        held = np.minimum(beside * self.whole.layer, np.maximum(self.whole.all - self.whole.ends, 0.0))
        gathered: FloatColumn = HALF_BYTES * held * self.resharded
        return gathered

    @cached_property
    def of_head(self) -> FloatColumn:
        """Of the head's gradients while the last layer works: what is sent and kept, or the 2-byte ones of one root."""
        if not self.inputs.runtime.sharding.ends_apart:
            return HALF_BYTES * self.whole.head * self.sharded
        sent = self.inputs.gradient_bytes * self.whole.head * self.reduced
        return sent + self.new_shards * self.stored.head

    @cached_property
    def later(self) -> FloatColumn:
        """Of gradients while other layers work: one layer's that is sent, and the head's of one root."""
        root = HALF_BYTES * self.whole.head * (self.sharded & (not self.inputs.runtime.sharding.ends_apart))
        return self.inputs.gradient_bytes * self.whole.layer * self.reduced + root

    @cached_property
    def one_layer_reduced(self) -> FloatColumn:
        """Gradients once the last layer's, and those of a head apart, have been reduced."""
        head = self.stored.head * self.inputs.runtime.sharding.ends_apart
        return self.beside_all + self.new_shards * (self.stored.layer + head)

    @cached_property
    def leaves_gathered(self) -> BoolColumn:
        """Whether weights that forward gives back stay gathered after a backward."""
        stays: BoolColumn = self.deferred & self.resharded
        return stays

    def left_gathered(self, chunks: IntColumn) -> FloatColumn:
        """Weights of some chunks, where they stay gathered after a backward: of all of them all, or the layers, beside
        what is gathered anyway.
        """
        layers = (self.whole.all - self.whole.ends) * chunks / self.plans.vpp
        beside = np.where(chunks == self.plans.vpp, HALF_BYTES * self.whole.all - self.through, HALF_BYTES * layers)
        gathered: FloatColumn = beside * self.leaves_gathered
        return gathered

    @cached_property
    def left_behind(self) -> FloatColumn:
        """All that stays gathered after a backward while the most micro-batches are in flight."""
        gathered: FloatColumn = (self.through + self.left_gathered(self.standing.behind)) * self.leaves_gathered
        return gathered

    @cached_property
    def behind(self) -> FloatColumn:
        """Activations once one micro-batch has been worked backward through a chunk."""
        return np.maximum(self.kept.activations - self.kept.chunk - self.kept.head, 0.0)

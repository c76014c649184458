"""Unit step: what a step is played with where full weights are gathered and gradients reduced unit by unit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn, Floats, IntColumn, column, some
from meshwright.cost.memory.in_flight import beside_logits
from meshwright.cost.memory.stage_parameters import Units, parted_embedding, stage_units
from meshwright.cost.memory.unit_in_flight import UnitInFlight
from meshwright.cost.memory.unsharded import stage_chunks
from meshwright.cost.shapes import Pipelines
from meshwright.distinct import gathered, gathered_on_demand
from meshwright.layout.groups import sharding_ranks
from meshwright.layout.microbatches import microbatch_group
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages
from meshwright.schedules.gathered import AHEAD, UnshardedChunks
from meshwright.schedules.records import splits_backward
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import HALF_BYTES


@dataclass(frozen=True, eq=False, kw_only=True)
class UnitStep:
    """One step of every stage; columns of shape (r,), sizes in bytes."""

    plans: Plans
    """Of every stage."""
    whole: Units
    """Parameters before they are sharded, as they are gathered and reduced."""
    stored: Units
    """The same of the fullest rank."""
    stored_once: FloatColumn
    """Of these, those that share their storage with others, a count."""
    in_flight: UnitInFlight
    stage: IntColumn
    """Pipeline rank, 0 first."""
    backwards: IntColumn
    """Of chunks, that come before the last forward."""
    unsharded: UnshardedChunks[IntColumn]
    inputs: Inputs

    @classmethod
    def of(
        cls,
        stages: Stages,
        pipelines: Pipelines,
        plans: Plans,
        in_flight: UnitInFlight,
        inputs: Inputs,
        unsharded: UnshardedChunks[IntColumn] | None = None,
    ) -> Self:
        """The steps of stages: units and unsharded chunks once for every distinct pipeline, then of every stage.

        unsharded: of every distinct stage; None: as `stage_chunks` counts them.
        """
        unsharded = unsharded or stage_chunks(pipelines.plans, pipelines.stages)
        rows, held = plans.some(stages.plan), (pipelines.each, pipelines.stages, inputs)
        units, parted = stage_units(*held), parted_embedding(*held)
        whole, stored = (
            each._replace(all=each.all + copy, head=each.head + copy) for each, copy in zip(units, parted, strict=True)
        )
        return cls(
            plans=rows,
            whole=gathered(whole, pipelines.of_stage),
            stored=gathered(stored, pipelines.of_stage),
            stored_once=parted[1].take(pipelines.of_stage),
            in_flight=in_flight,
            stage=stages.stage,
            backwards=np.maximum(rows.num_microbatches * rows.vpp - stages.in_flight_chunks, 0),
            unsharded=gathered_on_demand(unsharded, pipelines.of_stage),
            inputs=inputs,
        )

    def take(self, index: IntColumn) -> UnitStep:
        """The chosen stages."""
        columns = {name: gathered(getattr(self, name), index) for name in ("whole", "stored")}
        columns |= {name: gathered_on_demand(getattr(self, name), index) for name in ("in_flight", "unsharded")}
        columns |= {name: getattr(self, name).take(index) for name in ("stored_once", "stage", "backwards")}
        return replace(self, plans=self.plans.some(index), **columns)

    @cached_property
    def group(self) -> IntColumn:
        """Micro-batches that a chunk works on before the next one does, a count."""
        return column(microbatch_group(self.plans))

    @cached_property
    def one_group(self) -> BoolColumn:
        """Whether there is one group of micro-batches, so that one of several chunks works after the other."""
        return (self.plans.num_microbatches <= self.group) & (self.plans.vpp > 1)

    @cached_property
    def several(self) -> BoolColumn:
        """Whether gradients last from one micro-batch to the next: a step has several, or they are never released."""
        last: BoolColumn = (self.plans.num_microbatches > 1) | self.inputs.runtime.storage.zeroes_gradients
        return last

    @cached_property
    def sums_whole(self) -> BoolColumn:
        """Whether gradients are added up whole from the first micro-batch to the last, without a pipeline."""
        sums: BoolColumn = self.inputs.runtime.sharding.accumulates_whole & (self.plans.pp == 1) & (self.plans.zero > 1)
        return sums & (self.plans.num_microbatches > 1)

    @cached_property
    def keeps_shards(self) -> BoolColumn:
        """Whether shards of gradients last from one micro-batch to the next."""
        return self.several & ~self.sums_whole

    @cached_property
    def resharded(self) -> BoolColumn:
        """Whether layers are resharded after forward (ZeRO 3), or stay gathered until their backward."""
        return np.equal(self.plans.zero, 3)

    @cached_property
    def deferred(self) -> BoolColumn:
        """Whether gradients stay whole until the last micro-batch."""
        deferred: BoolColumn = self.inputs.runtime.sharding.defers_reduction & (self.plans.pp > 1)
        return deferred & (self.plans.zero > 1)

    @cached_property
    def split(self) -> BoolColumn:
        """Whether the backward pass is split, as torch's autograd does."""
        split: BoolColumn = self.deferred & splits_backward(self.plans.schedule)
        return split

    @cached_property
    def sends(self) -> BoolColumn:
        """Whether a rank of one chunk sends its output on, and has buffers for all gradients that come back."""
        ahead = self.inputs.runtime.pipeline.receives_ahead
        sends: BoolColumn = (self.plans.vpp == 1) & (self.whole.head == 0) & ahead
        return sends

    @cached_property
    def layers(self) -> FloatColumn:
        """Parameters of all layers of the stage, a count."""
        return self.whole.all - self.whole.ends

    def has_more_layers_than(self, count: int) -> BoolColumn:
        """Counted in its largest layer."""
        return self.layers > count * self.whole.layer

    @property
    def unused(self) -> Floats:
        """Free bytes of no use beside the logits: none where the logits that were put out stay there."""
        unjoined = beside_logits(self.in_flight.unjoined, self.inputs)
        return unjoined * (self.named_logits == 0) if self.inputs.runtime.activations.keeps_logits else unjoined

    @cached_property
    def named_logits(self) -> FloatColumn:
        """2-byte logits that the training loop names until the next ones are there, without a pipeline, bytes."""
        keeps: BoolColumn = self.inputs.runtime.activations.keeps_logits & (self.plans.pp == 1)
        return self.in_flight.output * keeps

    @property
    def weight_bytes(self) -> int:
        """Of a stored weight, and of its reduced gradient."""
        return self.inputs.runtime.storage.weight_bytes

    @property
    def cast_bytes(self) -> int:
        """Of a reduced gradient that is cast to its weight's format; 0 where it was summed in that."""
        return self.weight_bytes * (self.inputs.gradient_bytes != self.weight_bytes)

    @property
    def ends_apart(self) -> bool:
        """Whether embedding and head are units of their own."""
        return self.inputs.gathers_ends_apart

    @property
    def loss_in_pieces(self) -> bool:
        """Whether head and loss work on pieces of the sequence, so that the loss ends with the head's gradients, which
        are summed in the format in which they are reduced.
        """
        return self.inputs.runtime.entropy.sequence_pieces > 1

    @cached_property
    def tied(self) -> BoolColumn:
        """Whether the head's weight is the embedding's, in one unit that is apart from the root."""
        tied = self.inputs.runtime.sharding.ends_apart and self.inputs.model.tied_embeddings
        return (self.whole.head < self.whole.embedding) & tied

    @cached_property
    def parted(self) -> BoolColumn:
        """Whether the head's weight is a copy of the embedding's, with gradients of its own."""
        parted: BoolColumn = (self.whole.head > self.whole.embedding) & self.inputs.model.tied_embeddings
        return parted

    @cached_property
    def loss_unit(self) -> tuple[FloatColumn, FloatColumn]:
        """Parameters whose gradients a loss in pieces reduces, counts, whole and stored: the head, or a tied one."""
        units = self.whole, self.stored
        reduces = self.loss_in_pieces and not self.inputs.freezes_weights
        whole, stored = (np.where(self.tied, each.ends, each.head) * reduces for each in units)
        return whole, stored

    @cached_property
    def reduced_twice(self) -> FloatColumn:
        """Parameters of which a rank keeps reduced gradients twice, a count: those of the final norm lie in what a
        later reduction put out with the head's, which are added to the first ones.
        """
        return self.loss_unit[1] * np.where(self.deferred, self.backwards > 0, self.tied)

    @cached_property
    def summed_last(self) -> FloatColumn:
        """Parameters of which the gradients that replicas summed last stand until they sum again, a count: from the
        first loss in pieces on whose sum neither makes the gradients nor what `reduced_twice` keeps.
        """
        losses = 3 + 1 * (self.backwards > 0)
        lingers = self.deferred & (self.plans.dp_replicate > 1) & (self.plans.num_microbatches >= losses)
        return self.loss_unit[1] * lingers

    @cached_property
    def keeps_ends_gathered(self) -> BoolColumn:
        """ZeRO 3: whether final norm and head are not resharded between forward and backward."""
        sharding = self.inputs.runtime.sharding
        keeps: BoolColumn = np.where(
            self.plans.pp > 1, sharding.keeps_pipelined_ends_gathered, sharding.keeps_ends_gathered
        )
        return keeps

    @cached_property
    def keeps_last_layer_gathered(self) -> BoolColumn:
        """ZeRO 3: whether the last layer is not resharded between forward and backward."""
        keeps: BoolColumn = (self.plans.pp == 1) & self.inputs.runtime.sharding.keeps_last_layer_gathered
        return keeps

    @cached_property
    def head_again(self) -> FloatColumn:
        """2-byte weights of final norm and head, where they are gathered again for the backward pass, bytes."""
        again: FloatColumn = HALF_BYTES * self.whole.head * (self.resharded & ~self.keeps_ends_gathered)
        return again

    @cached_property
    def until_backward(self) -> FloatColumn:
        """2-byte weights that stay gathered from forward to backward, bytes.

        ZeRO 3: the ends and the last layer where the runtime says so. ZeRO 2: everything, of more chunks than are
        gathered ahead those alone. With one group of micro-batches the first of these chunks waits for its turn. A rank
        alone has those of them that have worked.
        """
        whole, unsharded, chunks = self.whole, self.unsharded, self.plans.vpp
        some = (sharding_ranks(self.plans) == 1) & (self.plans.num_microbatches > self.group) & ~self.split
        worked = unsharded.first - unsharded.first_own + 1
        ahead = np.minimum(np.where(some, np.minimum(worked, AHEAD), AHEAD), chunks)
        embedding = whole.embedding * (self.waiting_chunks == 0)
        ends = (whole.head + embedding * (not self.ends_apart)) * self.keeps_ends_gathered
        resharded = ends + whole.layer * self.keeps_last_layer_gathered
        layers = np.where(self.one_group, whole.of_chunks(1.0 * ahead, chunks), self.layers * ahead / chunks)
        every: FloatColumn = HALF_BYTES * (whole.head + embedding + layers)
        return np.where(self.resharded, HALF_BYTES * resharded, every)

    @cached_property
    def waiting_chunks(self) -> IntColumn:
        """ZeRO 2: chunks, the first ones, that are gathered only once others have worked backward, a count: with one
        group of micro-batches those that are more than are gathered ahead.
        """
        waiting: IntColumn = np.maximum(self.plans.vpp - AHEAD, 0) * (self.plans.num_microbatches <= self.group)
        return waiting

    def gathered_next(self, done: FloatColumn) -> Floats:
        """ZeRO 2: parameters of the waiting chunks that have been gathered in the place of so many that are done, the
        embedding with the last of them, counts.
        """
        whole, chunks, come = self.whole, self.plans.vpp, np.minimum(done, self.waiting_chunks)
        if not some(come):
            return 0.0
        layers = whole.of_chunks(AHEAD + come, chunks) - whole.of_chunks(1.0 * AHEAD, chunks)
        come_next: FloatColumn = layers + whole.embedding * (come == self.waiting_chunks)
        return come_next * (come > 0)

    def prefetched(self, layers: int) -> FloatColumn:
        """ZeRO 3: bytes of the layer that works and of those of its chunk gathered ahead of it, beside one that stays
        gathered; one rank alone puts together what it uses, and nothing ahead.
        """
        at_once = np.where(sharding_ranks(self.plans) > 1, layers, 1)
        resharded_layers = at_once - self.keeps_last_layer_gathered
        chunk = self.whole.largest_chunk(self.plans.vpp)
        size: FloatColumn = HALF_BYTES * np.minimum(resharded_layers * self.whole.layer, np.maximum(chunk, 0.0))
        return size * self.resharded

    @cached_property
    def tied_head(self) -> FloatColumn:
        """Bytes of a tied head's 2-byte gradient that autograd keeps until the embedding's is there, to add them up in
        a third tensor; a loss in pieces has handed it over before. Two chunks have backward passes of their own.
        """
        whole, tied = self.whole, self.inputs.model.tied_embeddings and not self.loss_in_pieces
        one_weight = (whole.head > 0) & (whole.head < whole.embedding) & (self.plans.pp == 1)
        gradient: FloatColumn = HALF_BYTES * whole.embedding * (one_weight & tied)
        return gradient

    @property
    def root_head(self) -> Floats:
        """Bytes of the head's 2-byte gradients that wait for the embedding's, as both are of one unit."""
        return 0.0 if self.ends_apart else HALF_BYTES * self.whole.head + self.tied_head

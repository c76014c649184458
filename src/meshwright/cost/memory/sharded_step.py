"""The step of fully sharded data parallelism without a pipeline, and that of replicas, as allocations and releases."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import FloatColumn
from meshwright.cost.memory.timeline import NAMED_LOGITS, MemoryTimeline, Moment
from meshwright.cost.memory.unit_states import reduced_unit
from meshwright.cost.memory.unit_step import UnitStep
from meshwright.layout.groups import sharding_ranks
from meshwright.specs.choices import Recompute
from meshwright.specs.precision import HALF_BYTES


def sharded_step(step: UnitStep) -> MemoryTimeline:
    """The last micro-batch of a step, whose backward reduces its gradients, as every one does or that one alone.

    Forward gathers one layer after the other in 2 bytes, the next one ahead; the ends stay gathered where the runtime
    says so, with ZeRO 2 everything does; what the last unit was sent in stands until the model's forward is over. The
    cross-entropy works backward before any layer is gathered again. In backward a unit's 2-byte gradients are joined in
    the format of the sum, sent, and kept on the rank in that of its weights; what is sent stays until the next unit's
    is. Gradients that earlier micro-batches added up whole stand until their unit is reduced.
    Source: torch.distributed.fsdp 2.13, _fully_shard/_fsdp_param_group.py (unshard, wait_for_unshard, post_backward),
    _fsdp_collectives.py (foreach_all_gather_copy_out, foreach_reduce), _fsdp_param.py (to_accumulated_grad_if_needed);
    peaks counted on fake tensors, moment by moment. step: of every stage, shape (r,). Returns allocations in bytes.
    """
    line = last_forward(step)
    _last_layer(line, step)
    _middle_layers(line, step)
    _first_layers(line, step)
    _embedding(line, step)
    return line


def last_forward(step: UnitStep, before: MemoryTimeline | None = None) -> MemoryTimeline:
    """The forward pass of that micro-batch and its loss. step: as of `sharded_step`; before: what comes before them.
    Returns allocations in bytes.
    """
    line, saved = before or MemoryTimeline(len(step.plans), step.unused), step.in_flight
    line.allocate("logits", NAMED_LOGITS, step.named_logits)
    line.allocate("temporaries", "message buffers", saved.messages)
    kept = step.inputs.runtime.storage.kept_gradient_bytes
    line.allocate(
        "gradients",
        "shards of earlier micro-batches",
        kept * (step.stored.trained(step.inputs) + step.reduced_twice) * step.keeps_shards,
    )
    _sums_whole(line, step, step.whole.trained(step.inputs))
    _gather_last_layer(line, step)
    line.allocate("parameters", "gathered until backward", step.until_backward)
    line.allocate("parameters", "two layers", step.prefetched(2))
    line.allocate("activations", "saved for backward", saved.activations)
    line.allocate("temporaries", "output of the layer", saved.layer_output)
    line.at(Moment.LAST_LAYER_FORWARD)
    line.free("two layers", "output of the layer")
    if step.inputs.runtime.sharding.loss_within_forward and _loss_peaks_forward(step):
        line.allocate("parameters", "last unit as it was sent", HALF_BYTES * _last_unit(step))
        line.allocate("logits", "logits", saved.logits_forward)
        line.at(Moment.LOSS_FORWARD)
        line.free("last unit as it was sent")
    _compute_loss(line, step)
    sums, (head, stored) = step.inputs.gradient_bytes, step.loss_unit
    line.allocate("temporaries", "gradients of the head", sums * head)
    line.at(Moment.LOSS_BACKWARD)
    if step.loss_in_pieces:
        line.allocate("logits", "logits", saved.logits - saved.entropy_working - saved.piece_output)
        line.allocate("temporaries", "gradients of the head", reduced_unit(step, head, stored, sums, head))
        line.at(Moment.HEAD_REDUCE_SCATTER)
    line.free("logits", "gradients of the head")
    line.allocate("logits", NAMED_LOGITS, step.named_logits)
    return line


def _compute_loss(line: MemoryTimeline, step: UnitStep) -> None:
    """The loss works backward; logits that the loop names are its own by now, and the loss may save them itself."""
    line.allocate("logits", NAMED_LOGITS, step.named_logits * (not step.inputs.runtime.entropy.saves_logits))
    line.allocate("logits", "logits", step.in_flight.logits)


def _loss_peaks_forward(step: UnitStep) -> bool:
    """Whether the loss may have most allocated when its forward ends: one that is compiled makes no fp32 logits."""
    runtime = step.inputs.runtime
    return runtime.kernels.cross_entropy == "eager" or runtime.entropy.fuses_head


def _last_unit(step: UnitStep) -> FloatColumn:
    """Parameters of the unit that forward gathers last: the head, or a layer where the head is in the first one."""
    apart = step.inputs.runtime.sharding.ends_apart and not step.inputs.model.tied_embeddings
    return step.whole.head if apart else step.whole.layer


def _sums_whole(line: MemoryTimeline, step: UnitStep, left: FloatColumn) -> None:
    """Whole gradients of earlier micro-batches; left: parameters that have not been reduced, counts."""
    size = step.inputs.gradient_bytes * left * step.sums_whole
    line.allocate("gradients", "whole ones of earlier micro-batches", size)


def _gather_last_layer(line: MemoryTimeline, step: UnitStep) -> None:
    """The last layer, and its experts that are divided by rows, are put together beside what it and the one before
    were sent in; a head that is a unit of its own comes after it.
    """
    saved, own = step.in_flight, ~step.keeps_last_layer_gathered & step.resharded
    head = HALF_BYTES * step.whole.head * (step.ends_apart & (~step.resharded | step.keeps_ends_gathered))
    line.allocate("parameters", "gathered until backward", step.until_backward - head)
    line.allocate("parameters", "two layers", step.prefetched(1) * own)
    sent = HALF_BYTES * np.minimum(2 * step.whole.layer, np.maximum(step.layers, 0.0))
    line.allocate("parameters", "layers as they were sent", sent)
    line.allocate("parameters", "experts put together", HALF_BYTES * step.whole.split_experts)
    line.allocate("activations", "saved for backward", np.maximum(saved.activations - saved.head - saved.layer, 0.0))
    line.at(Moment.LAST_LAYER_FORWARD, ~step.resharded | (sharding_ranks(step.plans) > 1))
    line.free("layers as they were sent", "experts put together", "two layers")


def _last_layer(line: MemoryTimeline, step: UnitStep) -> None:
    """Backward of the final norm, the head and the last layer. A head that is a unit of its own is reduced as soon as
    it is done; after a loss in pieces the final norm is, and until then what the head was sent in stands.
    """
    whole, saved, sent = step.whole, step.in_flight, step.inputs.gradient_bytes
    line.allocate("activations", "saved for backward", np.maximum(saved.activations - saved.head, 0.0))
    head = step.root_head + sent * step.loss_unit[0]
    if step.ends_apart:
        done = _head_resharded(step)
        line.allocate("parameters", "two layers", step.prefetched(1))
        line.allocate("temporaries", "working set", saved.residual)
        if step.loss_in_pieces:
            line.allocate("parameters", "gathered until backward", step.until_backward + step.head_again)
            line.allocate("temporaries", "gradients of the head", head)
            line.allocate("gradients", "new shards", _new_shards(step, step.loss_unit[1]))
            line.at(Moment.HEAD_REDUCE_SCATTER, whole.head > 0)
            line.allocate("parameters", "gathered until backward", step.until_backward - done)
            head = head * step.tied
        else:
            line.allocate("parameters", "gathered until backward", step.until_backward - done)
            line.allocate("temporaries", "gradients of the head", reduced_unit(step, whole.head, step.stored.head))
            _sums_whole(line, step, whole.trained(step.inputs) - whole.head)
            line.at(Moment.HEAD_REDUCE_SCATTER, whole.head > 0)
            line.allocate("gradients", "new shards", _new_shards(step, step.stored.head))
            head = sent * whole.head
    line.allocate("parameters", "two layers", step.prefetched(2))
    line.allocate("temporaries", "gradients of the head", head)
    line.allocate("temporaries", "working set", saved.working)
    line.at(Moment.LAST_LAYER_BACKWARD)


def _head_resharded(step: UnitStep) -> FloatColumn:
    """Bytes of the 2-byte weights of a head that is a unit of its own, gathered until its backward, which is over."""
    done: FloatColumn = HALF_BYTES * step.whole.head * (~step.resharded | step.keeps_ends_gathered)
    return done * step.ends_apart


def _middle_layers(line: MemoryTimeline, step: UnitStep) -> None:
    """Any layer between, the next one of the last: that one is sharded again, and its gradients are being sent."""
    saved, stored = step.in_flight, step.stored
    passed = np.maximum(saved.activations - saved.head - saved.layer, 0.0)
    line.allocate("activations", "saved for backward", passed)
    head = step.loss_unit[1] if step.loss_in_pieces else stored.head * step.ends_apart
    line.allocate("gradients", "new shards", _new_shards(step, stored.layer + head))
    gathered = step.until_backward - _head_resharded(step) - HALF_BYTES * step.whole.layer * ~step.resharded
    left = step.whole.trained(step.inputs) - step.whole.head * step.ends_apart
    line.allocate("temporaries", "gradients of the head", step.root_head)
    line.allocate("temporaries", "gradients of a layer", step.inputs.gradient_bytes * step.whole.layer)
    line.allocate("parameters", "gathered until backward", gathered)
    line.allocate("temporaries", "working set", saved.residual)
    _sums_whole(line, step, left)
    line.at(Moment.LAST_LAYER_GRADIENTS, step.sums_whole)
    _sums_whole(line, step, left - step.whole.layer)
    line.allocate("parameters", "experts put together", HALF_BYTES * step.whole.split_experts * step.resharded)
    line.at(Moment.MIDDLE_LAYER_ALL_GATHER, step.has_more_layers_than(1))
    line.free("experts put together")
    line.allocate("temporaries", "working set", saved.working)
    line.at(Moment.MIDDLE_LAYER_BACKWARD, step.has_more_layers_than(2))


def _new_shards(step: UnitStep, reduced: FloatColumn) -> FloatColumn:
    """Bytes of gradients that appear as so many stored parameters are reduced: those of an only micro-batch, and what
    replicas sum, which stays until the backward pass is done if other gradients last, or the host has them. A loss in
    pieces leaves none of it, as each piece has a backward pass of its own.
    """
    kept = step.inputs.runtime.storage.kept_gradient_bytes
    lasts_apart = step.keeps_shards | (step.cast_bytes > 0) | (not kept)
    summed = step.inputs.gradient_bytes * ((step.plans.dp_replicate > 1) & lasts_apart)
    new: FloatColumn = (1.0 * kept * ~step.keeps_shards + summed) * reduced - summed * step.loss_unit[1]
    return new


def _first_layers(line: MemoryTimeline, step: UnitStep) -> None:
    """The second layer and the first one: all others have been resharded and their gradients reduced."""
    saved, whole, stored, several = step.in_flight, step.whole, step.stored, step.has_more_layers_than(1)
    # Of an embedding that is a unit of its own: ZeRO 3 gathers it ahead of its backward pass, which reads none of it.
    embedding = HALF_BYTES * whole.embedding * step.ends_apart
    ends = 0.0 if step.ends_apart else HALF_BYTES * whole.ends
    layers = np.minimum(2 * whole.layer, np.maximum(step.layers, 0.0))
    line.allocate("parameters", "gathered until backward", ends + embedding * ~step.resharded)
    line.allocate("parameters", "two layers", HALF_BYTES * layers)

    def above(layers: int) -> None:
        """So many layers are left."""
        reduced = np.maximum(stored.all - layers * stored.layer - stored.embedding, 0.0)
        line.allocate("activations", "saved for backward", layers * saved.layer + saved.standing)
        line.allocate("gradients", "new shards", _new_shards(step, reduced))
        _sums_whole(line, step, layers * whole.layer + np.where(step.ends_apart, whole.embedding, whole.ends))

    above(2)
    line.at(Moment.SECOND_LAYER_BACKWARD, step.has_more_layers_than(2))
    above(1)
    line.allocate("parameters", "experts put together", HALF_BYTES * step.whole.split_experts * step.resharded)
    line.allocate("temporaries", "working set", saved.residual)
    line.at(Moment.FIRST_LAYER_ALL_GATHER, several)
    line.free("experts put together")
    line.allocate("parameters", "gathered until backward", ends + embedding)
    line.allocate("parameters", "two layers", HALF_BYTES * (layers - whole.layer))
    line.allocate("temporaries", "working set", saved.working)
    line.at(Moment.FIRST_LAYER_BACKWARD, several)


def _embedding(line: MemoryTimeline, step: UnitStep) -> None:
    """The last unit: the embedding, with the head where both are of one unit. Of a tied one the gradients of the head
    and of the embedding are added up first, in a third tensor.
    """
    whole, stored = step.whole, step.stored
    apart = step.ends_apart | (step.parted & step.loss_in_pieces)
    last, done = (np.where(apart, each.embedding, each.ends) for each in (whole, stored))
    line.free("two layers", "working set")
    line.allocate("activations", "saved for backward", step.in_flight.standing)
    line.allocate("gradients", "new shards", _new_shards(step, stored.all - done + step.loss_unit[1] * step.tied))
    line.allocate("temporaries", "gradients of the ends", 2 * step.tied_head)
    _sums_whole(line, step, last)
    line.at(Moment.EMBEDDING_GRADIENTS, step.tied_head > 0)
    line.free("gathered until backward", "gradients of the head", "gradients of a layer")
    line.free("whole ones of earlier micro-batches")
    line.allocate("temporaries", "gradients of the ends", reduced_unit(step, last, done))
    line.at(Moment.GRADIENT_REDUCTION)


def replicated_step(step: UnitStep) -> MemoryTimeline:
    """The last micro-batch of a step of replicas, which gather nothing.

    The buckets of communication stand for the whole step, on one rank too; gradients last beside them from the first
    micro-batch on, and in the last become views of them where the runtime has it so. Autocast keeps a 2-byte copy of
    every weight of a matrix product, of layers that are computed again a new one. Of frozen weights it keeps none, and
    gradients and buckets are those of adapters.
    Source: torch 2.13, nn/parallel/distributed.py; csrc/distributed/c10d/reducer.cpp, initialize_buckets and
    mark_variable_ready_dense; amp/autocast_mode.py, cache_enabled. step: of every stage, shape (r,). Returns
    allocations in bytes.
    """
    runtime, whole, saved = step.inputs.runtime, step.whole, step.in_flight
    frozen, trained = step.inputs.freezes_weights, step.stored.adapters if step.inputs.freezes_weights else whole.all
    line, tied = MemoryTimeline(len(step.plans), step.unused), step.inputs.model.tied_embeddings
    buckets = runtime.storage.gradient_buckets
    copies, width = 1.0 * step.several + (buckets != "none"), step.weight_bytes
    embedding = whole.embedding * (runtime.storage.autocast and not tied)
    cast = HALF_BYTES * (whole.all - embedding) * (width > HALF_BYTES and not frozen)
    casts_again = runtime.storage.autocast & (step.plans.recompute == Recompute.FULL)
    again = HALF_BYTES * step.layers * casts_again
    line.allocate("logits", NAMED_LOGITS, step.named_logits)
    line.allocate("temporaries", "message buffers", saved.messages)
    line.allocate("gradients", "of earlier micro-batches, and buckets", width * copies * trained)
    line.allocate("parameters", "2-byte copies", cast - again)
    line.allocate("activations", "saved for backward", saved.activations)
    line.allocate("temporaries", "output of the layer", saved.layer_output)
    line.at(Moment.LAST_LAYER_FORWARD)
    line.free("output of the layer")
    line.allocate("parameters", "2-byte copies", cast)
    if _loss_peaks_forward(step):
        line.allocate("logits", "logits", saved.logits_forward)
        line.at(Moment.LOSS_FORWARD)
    line.allocate("parameters", "2-byte copies", cast - again)
    _compute_loss(line, step)
    line.at(Moment.LOSS_BACKWARD)
    line.free("logits")
    line.allocate("logits", NAMED_LOGITS, step.named_logits)
    line.allocate("parameters", "2-byte copies", cast - again + HALF_BYTES * whole.layer * casts_again)
    line.allocate("activations", "saved for backward", np.maximum(saved.activations - saved.head, 0.0))
    line.allocate("temporaries", "working set", saved.working)
    line.at(Moment.LAST_LAYER_BACKWARD)
    line.free("2-byte copies", "saved for backward", "working set")
    line.allocate("gradients", "of this micro-batch", width * trained * (~step.several & (buckets != "views")))
    summands = (step.several + 2.0 * tied) * (not frozen)
    line.allocate("temporaries", "summands of the embedding", width * whole.embedding * summands)
    line.at(Moment.GRADIENT_REDUCTION)
    return line

"""In flight by unit: what the steps with fp32 weights that are gathered unit by unit need beyond `in_flight`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import FloatColumn, Floats, column
from meshwright.cost.comms.pipeline import message_bytes
from meshwright.cost.compute.experts import expert_shard
from meshwright.cost.compute.linear import projections
from meshwright.cost.memory.ends import put_out_share
from meshwright.cost.memory.in_flight import ShapeMemory, in_flight_bytes, is_pipelined, loss_waiting
from meshwright.cost.memory.norms import norm_bytes
from meshwright.cost.memory.rotary import table_bytes
from meshwright.cost.memory.working import context_transit_bytes
from meshwright.cost.runs import Runs
from meshwright.cost.shard import dense_block, layer_shard
from meshwright.distinct import gathered, spread
from meshwright.layout.plans import Layout
from meshwright.schedules.records import splits_backward
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import HALF_BYTES


class UnitInFlight(NamedTuple):
    """Bytes on one rank of every stage; shape (r,)."""

    activations: FloatColumn
    """Of all micro-batches in flight, the one in progress whole."""
    further: FloatColumn
    """More than these at the forward with the most layers in flight, where chunks differ."""
    layer: FloatColumn
    """Of these, what the backward pass of the largest layer frees."""
    chunk: FloatColumn
    """Of these, what one backward pass of a chunk frees, all its layers together."""
    second_activations: FloatColumn
    """Of these, what is left for the second of several backward passes in a row; 0: none follow each other."""
    head: FloatColumn
    """Of these, what is saved behind the last layer for one micro-batch."""
    working: FloatColumn
    """Alive for a moment in one layer's backward, with what it computes again."""
    layer_output: FloatColumn
    """Alive for a moment when one layer's forward ends."""
    logits: FloatColumn
    """While the cross-entropy works backward on one micro-batch, with what others in flight keep of theirs."""
    logits_forward: FloatColumn
    """The same while it works forward on the last one."""
    output: FloatColumn
    """2-byte logits of one micro-batch, where the head puts them out whole."""
    second_logits: FloatColumn
    """As `logits`, in the second of several backward passes in a row."""
    unjoined: Floats
    """Free while the logits are alive, in pieces too small for them."""
    residual: FloatColumn
    """One tensor between layers."""
    messages: FloatColumn
    """Buffers for messages of other stages, and what was sent or put out and is kept until its backward is done."""
    handed_out: Floats
    """By CUDA graphs of layers, as of `InFlight`."""
    received: FloatColumn
    """Buffers for all that a stage receives in a step, where they stand from its start."""
    standing: FloatColumn
    """Rotary tables of all layers, which stand whatever is in flight."""
    logits_waiting: FloatColumn
    """Of the logits and the cross-entropy of a micro-batch that waits for its backward."""
    loss_working: FloatColumn
    """What is alive beyond that while the cross-entropy works backward."""
    output_gradients: FloatColumn
    """Gradients of the outputs of linear layers and norms of one chunk and micro-batch, where autograd splits its
    backward pass."""
    head_gradients: FloatColumn
    """The same behind the last layer."""
    piece_output: FloatColumn
    """2-byte logits of one piece of the sequence, where the loss goes piece by piece."""
    entropy_working: FloatColumn
    """Of the logits, what is free again when the head's products work on a piece."""
    weight_inputs: FloatColumn
    """Inputs of linear layers and norms that one chunk and micro-batch saves, where autograd splits its backward
    pass."""
    input_working: FloatColumn
    """As `working`, where the backward of one layer leaves out the gradients of weights."""
    put_out: FloatColumn
    """Of `head`, the input of a head that works within the loss: a pipeline keeps it until its stage has worked
    backward."""
    others_logits: FloatColumn
    """Of the losses of micro-batches that are in flight beside the one that works backward."""
    second_others_logits: FloatColumn
    """The same in the second of several backward passes in a row."""
    outputs: FloatColumn
    """Logits that the last stage has put out of all micro-batches, where a pipeline keeps them until its step ends."""
    outputs_beside: FloatColumn
    """Of these, those of micro-batches that are not in flight."""


def unit_in_flight_bytes(runs: Runs, needed: ShapeMemory, inputs: Inputs) -> UnitInFlight:
    """What micro-batches keep on every stage, and what of it each pass frees.

    runs: of plans; needed: of their shapes, bytes. Returns bytes of their stages, shape (r,). Source:
    `in_flight_bytes`, `layer_memory`, `head_memory`.
    """
    stages, pipelines, shapes = runs.stages, runs.pipelines, runs.shapes
    # Sizes are priced once per shape of a micro-batch, (k,), and taken per stage by `shape`, (r,).
    sizes, shape = needed.plans, shapes.of_plan.take(stages.plan)
    in_flight, ends = in_flight_bytes(runs, needed, inputs), needed.head
    end, activations = gathered(ends, shape), in_flight.activations
    head = stages.head * end.saved
    further, layer, chunk, layer_output, standing = np.zeros((5, len(shape)))
    output_gradients, weight_inputs, input_working = np.zeros((3, len(shape)))
    splits = bool(np.any(splits_backward(pipelines.plans.schedule)))
    for kind, layer_kind in enumerate(inputs.model.layer_kinds):
        memory, layers = gathered(needed.layers[kind], shape), stages.layers[:, kind]
        saved, table = memory.saved - memory.tables, spread(table_bytes(sizes, inputs, layer_kind), shape)
        standing = standing + layers * table
        layer, further = np.maximum(layer, (layers > 0) * saved), further + stages.further_layers[:, kind] * saved
        of_chunk = layers / pipelines.plans.vpp.take(pipelines.stages.plan).take(pipelines.of_stage)
        chunk = chunk + of_chunk * saved
        if splits:
            gradients = spread(output_gradient_bytes(sizes, inputs, layer_kind), shape)
            inputs_saved = spread(weight_input_bytes(sizes, inputs, layer_kind), shape)
            output_gradients = output_gradients + of_chunk * gradients
            weight_inputs = weight_inputs + of_chunk * inputs_saved
            alive = spread(input_backward_bytes(sizes, inputs, layer_kind), shape)
            input_working = np.maximum(input_working, (layers > 0) * alive)
        layer_output = np.maximum(layer_output, (layers > 0) * memory.ending)
    residual = column(message_bytes(shapes.plans, inputs))[shape]
    waiting, _ = loss_waiting(pipelines, ends, shape, inputs)
    several = stages.in_flight_at_head > 1
    put_out = is_pipelined(pipelines) * stages.head * end.output * spread(put_out_share(sizes, inputs), shape)
    micro_batches = runs.plans.num_microbatches.take(stages.plan)
    second_others_logits = np.maximum(stages.in_flight_at_head - 2, 0) * waiting
    return UnitInFlight(
        **in_flight._asdict(),
        further=further,
        layer=layer,
        chunk=chunk,
        second_activations=np.where(stages.in_flight_chunks > 1, activations - chunk - head * several, 0.0),
        head=head,
        layer_output=layer_output,
        logits_forward=stages.head * end.forward,
        output=stages.head * end.output,
        second_logits=several * (end.working + second_others_logits),
        residual=residual,
        received=1.0 * stages.receives * micro_batches * residual,
        standing=standing,
        logits_waiting=stages.head * waiting,
        loss_working=stages.head * (end.working - end.waiting),
        output_gradients=output_gradients,
        head_gradients=stages.head * (end.output + residual),
        piece_output=stages.head * end.piece_output,
        entropy_working=stages.head * (end.working - end.pieces - 2 * end.piece_output),
        weight_inputs=weight_inputs,
        input_working=input_working,
        put_out=stages.head * end.put_out,
        others_logits=np.maximum(stages.in_flight_at_head - 1, 0) * waiting,
        second_others_logits=second_others_logits,
        outputs=put_out * micro_batches,
        outputs_beside=put_out * np.maximum(micro_batches - np.maximum(stages.in_flight_at_head, 1), 0),
    )


def output_gradient_bytes(plan: Layout, inputs: Inputs, kind: LayerKind) -> Floats:
    """Bytes of the gradients of the outputs of a layer's linear layers and norms, for one micro-batch, 2 an element.

    plan: scalar or array (n,). Returns bytes. Source: torch 2.13, distributed/pipelining/_backward.py: the hooks of
    stage_backward_input keep them until stage_backward_weight; counted on a fake process group.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> float(output_gradient_bytes(Plan(), LLAMA, LLAMA.model.layer_kinds[0])) / (8192 * 4096)
    25.0
    """
    shard = layer_shard(plan, inputs, kind)
    linears = projections(inputs, kind, shard)
    every = (*linears.down, *linears.attention, linears.output, *linears.feed_forward)
    elements = sum(1.0 * each.rows * each.outputs for each in every)
    elements = elements + kind.norms * shard.residual_tokens * inputs.model.hidden_size
    if kind.attention.qk_norm != "none":
        elements = elements + shard.tokens * (shard.query + shard.key)
    if kind.is_moe:
        experts = expert_shard(plan, inputs, kind)
        elements = elements + experts.rows * (experts.width + inputs.model.hidden_size)
    return 1.0 * HALF_BYTES * elements


def input_backward_bytes(plan: Layout, inputs: Inputs, kind: LayerKind) -> Floats:
    """Bytes alive in a layer's backward that leaves out the gradients of weights, beyond what is saved, which stays:
    the gradients of its linear layers' and norms' outputs, of its own output, and of what tensor parallelism gathers
    or context parallelism exchanges.

    plan: scalar or array (n,). Returns bytes. Source: `output_gradient_bytes`; counted on a fake process group.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> float(input_backward_bytes(Plan(), LLAMA, kind)) / (8192 * 4096)  # those of outputs, and three residuals
    31.0
    """
    shard, hidden = layer_shard(plan, inputs, kind), inputs.model.hidden_size
    whole = 2.0 * HALF_BYTES * shard.tokens * hidden
    exchanged = np.maximum(whole, context_transit_bytes(plan, inputs, shard))
    return output_gradient_bytes(plan, inputs, kind) + HALF_BYTES * shard.residual_tokens * hidden + exchanged


def weight_input_bytes(plan: Layout, inputs: Inputs, kind: LayerKind) -> Floats:
    """Bytes of what one layer saves for the weight gradients of its linear layers and norms, for one micro-batch: the
    inputs and outputs of norms, those of queries and keys, the attention core's output where that of the core is a
    copy, the product of gate and up, and the rows of experts.

    plan: scalar or array (n,). Returns bytes. Source: torch 2.13, distributed/pipelining/_backward.py
    (stage_backward_weight runs the nodes of linear layers and norms alone); counted on a fake process group.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> float(weight_input_bytes(Plan(), LLAMA, LLAMA.model.layer_kinds[0])) / (8192 * 4096)
    15.0
    """
    shard, activations, block = layer_shard(plan, inputs, kind), inputs.runtime.activations, dense_block(kind)
    copied = activations.copies_context_output & (plan.cp > 1)
    copied = copied | (activations.copies_batched_output & (plan.micro_batch > 1))
    width = copied * shard.core + (0 if block is None else shard.ffn)
    if kind.attention.qk_norm != "none":
        width = width + shard.query + shard.key
    saved = norm_bytes(plan, inputs, kind, shard) + HALF_BYTES * shard.tokens * width
    if kind.is_moe:
        experts = expert_shard(plan, inputs, kind)
        saved = saved + HALF_BYTES * experts.rows * (inputs.model.hidden_size + experts.ffn)
    return 1.0 * saved

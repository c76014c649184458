"""In flight: what the micro-batches in flight keep on every stage, and what one layer's passes need beside it."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn, Floats, IntColumn, Ints, column, some
from meshwright.cost.batch_overlap import holds_two
from meshwright.cost.comms.pipeline import message_bytes, message_parts
from meshwright.cost.compute.experts import expert_shard
from meshwright.cost.compute.linear import Linear, projections
from meshwright.cost.memory.activations import LayerMemory, layer_memory
from meshwright.cost.memory.ends import HeadMemory, head_memory, token_bytes
from meshwright.cost.memory.rotary import table_bytes
from meshwright.cost.runs import Runs
from meshwright.cost.shapes import Pipelines
from meshwright.cost.shard import layer_shard
from meshwright.distinct import spread
from meshwright.layout.plans import Layout, without_recompute
from meshwright.layout.stages import Stages
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import HALF_BYTES


class InFlight(NamedTuple):
    """Bytes on one rank of every stage; shape (r,)."""

    activations: FloatColumn
    """Of all micro-batches in flight, the one in progress whole."""
    working: FloatColumn
    """Alive for a moment in one layer's backward, with what it computes again."""
    logits: FloatColumn
    """While the cross-entropy works backward on one micro-batch, with what others in flight keep of theirs."""
    unjoined: Floats
    """Free while the logits are alive, in pieces too small for them; 0 where no stage has such."""
    messages: FloatColumn
    """Buffers for messages of other stages, and what was sent or put out and is kept until its backward is done."""
    handed_out: Floats
    """By CUDA graphs of layers, of all micro-batches in flight, and the gradient of that of one layer; 0: none."""


class ShapeMemory(NamedTuple):
    """What one micro-batch of every shape needs, scalar or of shape (k,)."""

    plans: Layout
    """The shapes, or the one that there is."""
    layers: tuple[LayerMemory, ...]
    """In one layer of each kind."""
    head: HeadMemory

    @classmethod
    def of(cls, plan: Layout, inputs: Inputs, like: ShapeMemory | None = None) -> Self:
        """That of plans; like: of the same plans with experts as unequal as in another job, which changes layers of
        experts alone; None: not known.
        """
        kinds, known = inputs.model.layer_kinds, like.layers if like else ()
        layers = (
            known[index] if known and not kind.is_moe else layer_memory(plan, inputs, kind)
            for index, kind in enumerate(kinds)
        )
        return cls(plans=plan, layers=tuple(layers), head=like.head if like else head_memory(plan, inputs))


def in_flight_bytes(runs: Runs, needed: ShapeMemory, inputs: Inputs) -> InFlight:
    """What micro-batches keep on every stage.

    Of offloaded layers only the one is counted that is on its way to the host or back; of offloaded modules those of
    one layer, while it works or, as backward follows at once, the logits do. Rotary tables stand once for every layer,
    whatever is in flight. Where buffers stand for all that a stage receives, the inputs of the chunks in
    flight lie in them.
    runs: of plans; needed: of their shapes, bytes. Returns bytes of their stages, shape (r,). Source: `layer_memory`,
    `head_memory`, `chunks_at_peak`; `holds_two`.
    """
    # Counts of the distinct stages, (q,), and sizes of the distinct shapes of a micro-batch, (k,), with the row of
    # every stage among either, (r,).
    stages, pipelines, shapes = runs.stages, runs.pipelines, runs.shapes
    held, of_stage, shape = pipelines.stages, pipelines.of_stage, shapes.of_plan.take(stages.plan)

    def kept(counts: IntColumn | FloatColumn | BoolColumn, size: Floats) -> Floats:
        return (1.0 * counts).take(of_stage) * spread(size, shape) if some(size) else 0.0

    # Layers in flight of each kind, with recomputation and without, (q, kinds).
    share = _share_on_device(held, inputs)[:, None]
    in_flight, without = share * held.in_flight_layers, share * held.in_flight_not_recomputed
    # Tokens, labels and positions, and what the head keeps of each micro-batch, (r,).
    sizes, each, end = needed
    activations = kept(held.in_flight_micro_batches, token_bytes(sizes, inputs))
    activations = activations + kept(np.maximum(held.in_flight_at_head, held.head), end.saved)
    working: FloatColumn = np.zeros(len(shape))
    handed_out: Floats = 0.0
    staying: Floats = 0.0
    leaves_out, waits = some(without), some(held.waiting_layers)
    for kind, layer_kind in enumerate(inputs.model.layer_kinds):
        memory, layers = each[kind], held.layers[:, kind]
        saved, table = memory.saved - memory.tables, table_bytes(sizes, inputs, layer_kind)
        if inputs.runtime.pipeline.keeps_paired:
            saved = saved * (1 + holds_two(sizes, inputs, layer_kind))
        activations = activations + kept(in_flight[:, kind], saved) + kept(layers, table)
        working = np.maximum(working, kept(layers > 0, memory.again + memory.working))
        handed_out = handed_out + kept(in_flight[:, kind] + (layers > 0), memory.handed_out)
        staying = np.maximum(staying, kept(held.head & (layers > 0), memory.offloaded))
        if leaves_out:
            others = layer_memory(without_recompute(sizes), inputs, layer_kind)
            activations = activations + kept(without[:, kind], others.saved - others.tables - saved)
        if waits:
            activations = activations + kept(held.waiting_layers[:, kind], waiting_bytes(sizes, inputs, layer_kind))
    waiting, output = loss_waiting(pipelines, end, shape, inputs)
    return InFlight(
        activations=column(activations),
        working=working,
        logits=kept(held.head, end.working)
        + staying
        + np.maximum(held.in_flight_at_head - 1, 0).take(of_stage) * waiting,
        unjoined=kept(held.head, end.unjoined),
        messages=np.where(is_pipelined(pipelines), _message_bytes(runs, sizes, shape, end, output, inputs), 0.0),
        handed_out=handed_out,
    )


def beside_logits(unjoined: Floats, inputs: Inputs) -> Floats:
    """What pieces too small for the logits add to the bytes that a rank has allocated while those are alive.

    unjoined / (1 + f), f the fragmentation, which is a share of all that is held at the peak and does not apply to the
    pieces themselves. unjoined: bytes, scalar or array (r,). Returns bytes. Source: by definition of
    `StageMemory.reserved`.
    """
    return unjoined / (1 + inputs.runtime.memory.fragmentation)


def is_pipelined(pipelines: Pipelines) -> BoolColumn:
    """Whether a stage is one of several; shape (r,).

    pipelines: of plans. Returns a truth for each of their rows. Source: by definition.
    """
    several: BoolColumn = (pipelines.plans.pp > 1).take(pipelines.stages.plan).take(pipelines.of_stage)
    return several


def loss_waiting(pipelines: Pipelines, end: HeadMemory, shape: IntColumn, inputs: Inputs) -> tuple[Floats, Floats]:
    """What of the logits and the cross-entropy of a micro-batch waits for its backward on every stage, and of it the
    logits that a pipeline has put out for its last stage.

    pipelines: of plans; end: of every shape of a micro-batch, bytes; shape: of every stage. Returns bytes, shape (r,).
    Source: `head_memory`.
    """
    sent: Floats = 0.0
    if inputs.runtime.pipeline.receives_ahead:
        sent = is_pipelined(pipelines) * spread(end.output, shape)
    return spread(end.waiting, shape) + sent, sent


def _message_bytes(
    runs: Runs, sizes: Layout, shape: IntColumn, end: HeadMemory, output: Floats, inputs: Inputs
) -> FloatColumn:
    """Buffers for messages between stages, and what is sent or put out and stays, of every stage; bytes, shape (r,).

    sizes: the shapes; shape: of every stage; end: of every shape, bytes; output: what `loss_waiting` says is put out,
    bytes.
    """
    pipeline, held, of_stage = inputs.runtime.pipeline, runs.pipelines.stages, runs.pipelines.of_stage
    micro_batches = runs.plans.num_microbatches
    if pipeline.keeps_messages:
        counts = _kept_messages(runs.stages, spread(message_parts(sizes, inputs), shape))
        # DeepSpeed's last stage frees no outputs: those in its second buffer stay while it works on another one.
        output = output + (micro_batches > 1).take(runs.stages.plan) * spread(end.output, shape)
    elif pipeline.receives_ahead:
        counts = _messages_ahead(runs.stages, micro_batches.take(runs.stages.plan))
    else:
        counts = np.where(held.head & _has_one_chunk(held), 0.0, 2.0).take(of_stage)
    sent = counts * spread(message_bytes(sizes, inputs), shape)
    return sent + held.head.take(of_stage) * output if some(output) else sent


def _has_one_chunk(stages: Stages) -> BoolColumn:
    one_chunk: BoolColumn = stages.in_flight_chunks == stages.in_flight_micro_batches
    return one_chunk


def _kept_messages(stages: Stages, parts: Ints) -> FloatColumn:
    """How many messages a stage of a pipeline that keeps them has buffers for, beside those that are counted as
    activations; without keeping two, but none on the last stage of one chunk a rank, whose peak is while the loss works
    backward: what it has received is an activation then, and nothing is sent yet.

    Two also there, and of each micro-batch in flight what it has received and sent, or of scattered ones its part of
    what it has sent, of which backward holds one, and its gradient, whole. parts: that messages are scattered in;
    counts, shape (r,).
    """
    sends, scattered = 1 - stages.head, parts > 1
    each = sends + np.where(scattered, 0, 1 - stages.embedding)
    whole = np.where(scattered, 2.0 * parts * sends, 0.0)
    micro_batches: FloatColumn = 2.0 + stages.in_flight_micro_batches * each + whole
    return micro_batches


def _messages_ahead(stages: Stages, num_microbatches: IntColumn) -> FloatColumn:
    """The same where buffers are allocated ahead: all that a stage receives, and each output until its backward, less
    the inputs that layers keep; with one chunk a rank also the gradient that it sent last.

    num_microbatches: of every stage's plan; counts, shape (r,).
    """
    first = stages.embedding * stages.in_flight_micro_batches
    received = stages.receives * num_microbatches - (stages.in_flight_chunks - first)
    gradient = _has_one_chunk(stages) & (stages.embedding == 0) & (num_microbatches > stages.in_flight_micro_batches)
    sent = stages.in_flight_chunks - stages.in_flight_at_head
    messages: FloatColumn = np.maximum(1.0 * received + sent + gradient, 0.0)
    return messages


def _share_on_device(stages: Stages, inputs: Inputs) -> FloatColumn:
    """Of a stage's layers, the share whose saved activations stay on the device or are on their way, shape (r,)."""
    layers, away = stages.layers.sum(axis=1), max(inputs.runtime.activations.offloaded_layers - 1, 0)
    share: FloatColumn = np.maximum(layers - away, 1) / np.maximum(layers, 1)
    return share


def waiting_bytes(plan: Layout, inputs: Inputs, kind: LayerKind) -> Floats:
    """Bytes of one layer and micro-batch until its weight gradients are computed: of every linear layer its input and
    the gradient of its output, 2 bytes an element.

    A GPT layer on one rank keeps 32 s b h. plan: scalar or array (n,). Returns bytes. Source: Qi et al.,
    arXiv:2401.10241, section 3.1 (M_W); sail-sg/zero-bubble-pipeline-parallelism@47c2c7a00a15,
    megatron/core/weight_grad_store.py (put).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> float(waiting_bytes(Plan(), LLAMA, LLAMA.model.layer_kinds[0])) / (8192 * 4096)
    34.0
    """
    linears = projections(inputs, kind, layer_shard(plan, inputs, kind))
    every = (*linears.down, *linears.attention, linears.output, *linears.feed_forward)
    elements = sum(_elements(each) for each in every)
    if kind.is_moe:
        shard, hidden = expert_shard(plan, inputs, kind), inputs.model.hidden_size
        elements = elements + shard.rows * (2 * hidden + shard.width + shard.ffn)
    return 1.0 * HALF_BYTES * elements


def waiting_share(plan: Layout, inputs: Inputs) -> Floats:
    """What the layers of the model keep for their weight gradients over what they save after forward, at most 1.

    plan: scalar or array (n,). Returns a share. Source: `waiting_bytes`, `layer_memory`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> 0 < float(waiting_share(Plan(), LLAMA)) <= 1
    True
    """
    kinds = [*zip(inputs.layers_per_kind, inputs.model.layer_kinds, strict=True)]
    waiting = sum(layers * waiting_bytes(plan, inputs, kind) for layers, kind in kinds)
    saved = sum(layers * layer_memory(plan, inputs, kind).saved for layers, kind in kinds)
    return np.minimum(waiting / saved, 1.0)


def _elements(linear: Linear) -> Floats:
    return 1.0 * linear.rows * (linear.features + linear.outputs)

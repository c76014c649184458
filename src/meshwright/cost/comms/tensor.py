"""Tensor parallelism: the collectives of one layer, and the products that may hide them."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from meshwright.arrays import Bools, Floats, Ints, where
from meshwright.cost.batch_overlap import overlaps_micro_batches
from meshwright.cost.comms.adapters import adapter_exchanges
from meshwright.cost.comms.exchange import Communicator, Exchange, Message, communicator, repeated, resized
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.layer import LayerTime
from meshwright.cost.repeated import repeated_parts
from meshwright.cost.shard import dense_block, qkv_width, tokens
from meshwright.layout.plans import Layout
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import HALF_BYTES

ACTIVATIONS = "activations"
Messages: TypeAlias = tuple[Message, ...]


class Collectives(NamedTuple):
    """How often a piece of the model exchanges X = 2 s b h / c bytes; counts, scalar or array (n,)."""

    gathers: Ints
    """All-gathers; none without sequence parallelism."""
    reductions: Ints
    """Reduce-scatters with sequence parallelism, all-reduces without."""


class LayerCollectives(NamedTuple):
    """Collectives of one layer and micro-batch."""

    forward: Collectives
    backward: Collectives
    regathers: Ints
    """All-gathers in backward of inputs that were kept sharded."""
    recompute: Collectives
    """That full recomputation repeats, or the selective one of a feed-forward block."""
    expansions: Ints
    """All-gathers of compressed queries, keys and values that the selective one of latent attention repeats."""


class Region(NamedTuple):
    """The collectives at the ends of a tensor-parallel region, over X bytes."""

    ranks: Communicator
    enter: Messages
    """All-gather of the sequence; none without sequence parallelism."""
    leave: Messages
    """Reduce-scatter with sequence parallelism, all-reduce without."""


def layer_collectives(plan: Layout, inputs: Inputs, kind: LayerKind) -> LayerCollectives:
    """What one layer exchanges over its tensor-parallel ranks.

    With sequence parallelism two all-gathers and two reduce-scatters in each direction, and two more all-gathers in
    backward where the runtime keeps inputs sharded and weights are trained. Without, two all-reduces forward and in
    backward two, or one for every column-parallel product: one each for q, k and v or for all of them, and for gate and
    up or both, as they are fused. Layers of experts without a shared one have the attention's half of these alone. Full
    recomputation repeats the forward, in some runtimes without the reduction that ends a dense layer; selective of a
    feed-forward block enters and leaves it once more, of latent attention's expansion gathers its input, and by
    products repeats all but reduce-scatters, whose outputs it keeps. plan: scalar or array (n,). Returns counts.
    Source: Megatron-LM, tensor_parallel/layers.py; torch.distributed.tensor 2.13 and torchtitan 0.3.0
    (models/common/decoder_sharding.py), counted on fake processes.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> counts = layer_collectives(Plan(tp=8, sp=True), LLAMA, kind)
    >>> tuple(map(int, counts.forward)), tuple(map(int, counts.backward)), int(counts.regathers)
    ((2, 2), (2, 2), 2)
    """
    runtime, sequence = inputs.runtime, plan.sp > 0
    block = dense_block(kind)
    halves, kernels = 1 + (block is not None), runtime.kernels
    gate = 1 if block and block.gated and not kernels.fused_gate else 0
    products = halves + gate + (0 if inputs.fuses_qkv(kind.attention) else 2)
    summed = halves if runtime.communication.sums_shared_input_once else products
    full, parts = plan.recompute == Recompute.FULL, repeated_parts(plan, kind)
    by_product = inputs.runtime.activations.recomputes_by_product
    entered = by_product & (plan.recompute == Recompute.SELECTIVE)
    forward = Collectives(where(sequence, halves, 0), halves + 0 * plan.tp)
    last = int(runtime.activations.checkpoint_stops_early and not kind.is_moe)
    repeated: Ints = where(full, forward.reductions - last, 0)
    repeated_products: Ints = where(sequence, 0, entered * forward.reductions)
    return LayerCollectives(
        forward=forward,
        backward=Collectives(where(sequence, halves, 0), where(sequence, halves, summed)),
        regathers=where(sequence & runtime.activations.regathers_inputs & (not inputs.freezes_weights), halves, 0),
        recompute=Collectives(
            gathers=(full | entered) * forward.gathers + where(sequence, parts.block, 0),
            reductions=repeated + parts.block + repeated_products,
        ),
        expansions=where(sequence, parts.expansion, 0),
    )


def layer_tensor_exchanges(plan: Layout, inputs: Inputs, kind: LayerKind, layer: LayerTime) -> tuple[Exchange, ...]:
    """Tensor-parallel exchanges of one layer and micro-batch.

    X = 2 s b h / c bytes as often as `layer_collectives` says; what is gathered may be quantised before, to
    `Inputs.sequence_gather_bytes` an element, but what an adapter reads too comes in 2 bytes, and no product beside it
    hides that (`return_layernorm_output` of Transformer Engine), nor what is gathered in 2 bytes and quantised behind
    it, as no product reads it (pytorch/pytorch issue 149990). Adapters add theirs (`adapter_exchanges`). In backward
    the all-gathers that fetch saved, sharded inputs once more are issued beside the input-gradient product, the input
    gradient's reduction beside the weight-gradient product (Megatron-LM, tensor_parallel/layers.py,
    LinearWithGradAccumulationAndAsyncCommunication). Where t exceeds the key and value heads, the fused projection's
    output is gathered whole and its gradient reduced again.

    plan: scalar or array (n,); layer: its compute, for the windows, seconds. Returns bytes and seconds. Source:
    `layer_collectives`.

    >>> from meshwright.cost.compute.layer import layer_time
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> plan, kind = Plan(tp=8, sp=True), LLAMA.model.layer_kinds[0]
    >>> exchanges = layer_tensor_exchanges(plan, LLAMA, kind, layer_time(plan, LLAMA, kind))
    >>> forward = [each for each in exchanges if each.phase == "forward"]
    >>> [message.operation for each in forward[1:] for message in each.messages if message.times]
    ['all_gather', 'reduce_scatter']
    """
    counts, overlap = layer_collectives(plan, inputs, kind), inputs.runtime.overlap
    hidden, fused = hidden_share(plan, inputs), overlap.tensor_parallel > 0
    read_by_products = inputs.gathers_quantised or not inputs.recipe.quantises
    entering, fused_gather = hidden * read_by_products, fused and read_by_products
    unfused = tensor_region(plan, inputs)
    region = tensor_region(plan, inputs, fused) if fused else unfused
    if fused and not fused_gather:
        region = region._replace(enter=unfused.enter)
    product, gradient, full = layer.forward.gemm / 4, layer.backward.gemm / 4, plan.recompute == Recompute.FULL
    # What regions gather: in full recomputation all of them again, in selective the feed-forward block alone.
    width, expanded = _entry_widths(inputs, kind)
    halves, read = 1 + (dense_block(kind) is not None), _read_by_adapters(inputs, kind)
    sizes = HALF_BYTES * read + inputs.sequence_gather_bytes[0] * (1 - read), inputs.sequence_gather_bytes[1]
    gathers: dict[float, Messages] = {HALF_BYTES: region.enter}
    for size in {*sizes} - {HALF_BYTES}:
        gathers[size] = _gathered(region.ranks, plan, inputs, where(plan.sp, 1, 0), size, fused_gather)
    operand, gradient_enter = (gathers[size] for size in sizes)
    enter, gradient_enter = resized(operand, width), resized(gradient_enter, width)
    enter_again, expand = resized(operand, where(full, width, 1.0)), resized(region.enter, expanded)
    whole, sliced = _split_heads(region, plan, inputs, kind)

    def exchange(
        window: Floats, phase: str, messages: tuple[Message, ...], count: Ints, share: Floats = hidden
    ) -> Exchange:
        return Exchange("tp", phase, messages, times=count, window=window, share=share)

    exchanges = [
        Exchange("tp", "forward", whole),
        exchange(product, "forward", enter, counts.forward.gathers, entering * (1 - read)),
        exchange(product, "forward", region.leave, counts.forward.reductions),
        Exchange("tp", "recompute", whole, times=where(full, 1, 0)),
        exchange(product, "recompute", enter_again, counts.recompute.gathers, entering * (1 - read)),
        exchange(product, "recompute", region.leave, counts.recompute.reductions),
        exchange(product, "recompute", expand, counts.expansions, entering),
        exchange(gradient, "backward", gradient_enter, counts.backward.gathers, entering),
        Exchange("tp", "backward", sliced),
    ]
    share = overlap.tensor_parallel_backward
    entered = repeated(enter, counts.regathers / halves)
    left = repeated(unfused.leave, counts.backward.reductions / halves)
    for column in layer.columns[:halves]:
        exchanges.append(Exchange("tp", "backward", entered, window=column.input_gradient, share=share))
        exchanges.append(Exchange("tp", "backward", left, window=column.weight_gradient, share=share))
    return (*exchanges, *(adapter_exchanges(plan, inputs, kind, region.ranks) if inputs.freezes_weights else ()))


def _read_by_adapters(inputs: Inputs, kind: LayerKind) -> float:
    """The share of the regions of a layer of which adapters read what enters."""
    halves = ("attention", "block")[: 1 + (dense_block(kind) is not None)]
    return sum(inputs.adapted(kind, half) for half in halves) / len(halves)


def hidden_share(plan: Layout, inputs: Inputs) -> Floats:
    """Share of its matrix product that hides a tensor-parallel exchange; 0: none.

    What the runtime overlaps, in most only all-gathers and reduce-scatters, which sequence parallelism has, between
    accelerators that reach each other's memory, and in Megatron nothing beside latent attention, nor, where kernels
    need a single queue, beside exchanges of experts that another micro-batch hides, which want several.
    plan: scalar or array (n,). Returns shares. Source: Megatron-LM@d98e8a64ddf3, training/arguments.py L1441-1442,
    L1466-1475, core/extensions/transformer_engine.py L1176-1185; Megatron-Bridge@067f987df03b,
    training/comm_overlap.py L446-448, which switches tp_comm_overlap off, and perf_recipes/qwen/h100/qwen3_moe.py.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.behaviours import with_behaviours
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> inputs = LLAMA.replace(runtime=with_behaviours(LLAMA.runtime, ["tensor_parallel_overlap=on"]))
    >>> [float(hidden_share(Plan(tp=8, sp=sp), inputs)) for sp in (False, True)]
    [0.0, 0.5]
    """
    runtime = inputs.runtime
    latent = any(kind.attention.latent for kind in inputs.model.layer_kinds)
    share = 0.0 if latent and not runtime.communication.hides_beside_latent_attention else 1.0
    if runtime.communication.hides_by_peer_access and not inputs.cluster.accelerator.overlaps_by_peer_access:
        share = 0.0
    exchanges = (plan.sp > 0) | runtime.communication.hides_all_reduces
    if runtime.communication.orders_by_one_queue and inputs.cluster.accelerator.needs_one_queue:
        for kind in inputs.model.layer_kinds:
            exchanges = np.logical_and(exchanges, np.logical_not(overlaps_micro_batches(plan, inputs, kind)))
    return where(exchanges, share * runtime.overlap.tensor_parallel, 0.0)


def tensor_region(plan: Layout, inputs: Inputs, fused: bool = False) -> Region:
    """Entering and leaving a region with X = 2 s b h / c bytes.

    plan: scalar or array (n,); fused: with products, on whose layout collectives then work; else copies may put the
    sequence in order. Returns bytes and seconds. Source: Megatron-LM, tensor_parallel/mappings.py.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> float(tensor_region(Plan(tp=8, sp=True), LLAMA).enter[0].bytes)  # 2 bytes of 8192 tokens of 4096 elements
    67108864.0
    """
    size = 1.0 * HALF_BYTES * tokens(plan, inputs) * inputs.model.hidden_size
    ranks, sequence = communicator("tp", plan, inputs), where(plan.sp, 1, 0)
    copied = inputs.runtime.communication.copies_sequences != "none" and not fused
    return Region(
        ranks=ranks,
        enter=_gathered(ranks, plan, inputs, sequence, HALF_BYTES, fused),
        leave=(
            _rearranged(ranks.message("reduce_scatter", ACTIVATIONS, size, sequence), copied, inputs),
            ranks.message("all_reduce", ACTIVATIONS, size, 1 - sequence),
        ),
    )


def whole_gather(region: Region, plan: Layout, inputs: Inputs) -> Messages:
    """The all-gather of X bytes that comes with and without sequence parallelism, of what each rank has a share of.

    region: of `tensor_region`; plan: scalar or array (n,). Returns bytes and seconds. Source: `tensor_region`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> plan = Plan(tp=8)
    >>> region = tensor_region(plan, LLAMA)
    >>> region.enter[0].seconds, round(whole_gather(region, plan, LLAMA)[0].seconds * 1e3, 2)
    (0.0, 0.21)
    """
    return _gathered(region.ranks, plan, inputs, 1, HALF_BYTES, fused=False)


def _gathered(
    ranks: Communicator, plan: Layout, inputs: Inputs, times: Ints, element_bytes: float, fused: bool
) -> Messages:
    """The all-gather of s b h / c elements along the sequence."""
    size = 1.0 * element_bytes * tokens(plan, inputs) * inputs.model.hidden_size
    copies = inputs.runtime.communication.copies_sequences
    copied = ((plan.micro_batch > 1) & (copies == "batched") | (copies == "all")) & (not fused)
    return (_rearranged(ranks.message("all_gather", ACTIVATIONS, size, times), copied, inputs),)


def _rearranged(message: Message, copied: Bools, inputs: Inputs) -> Message:
    """The same with a copy of its buffer, which puts pieces of the sequence in order. copied: whether there is one."""
    copy = elementwise_time(2.0 * message.bytes, inputs.cluster.accelerator)
    return message._replace(seconds=message.seconds + where(copied, copy, 0.0))


def _entry_widths(inputs: Inputs, kind: LayerKind) -> tuple[float, float]:
    """What the regions of one layer gather over X, on average, and what the expansion of latent attention starts from.

    Latent attention gathers r_q + r_kv + d_rope elements a token in place of h, and r_q + r_kv of them again for the
    expansion alone. Source: Megatron-LM, multi_latent_attention.py.
    """
    latent, hidden = kind.attention.latent, inputs.model.hidden_size
    if latent is None:
        return 1.0, 0.0
    halves = 1 + (dense_block(kind) is not None)
    expanded = (latent.query_rank or hidden) + latent.kv_rank
    return ((expanded + latent.rope_head_dim) / hidden + halves - 1) / halves, expanded / hidden


def _split_heads(region: Region, plan: Layout, inputs: Inputs, kind: LayerKind) -> tuple[Messages, Messages]:
    """The gather of a projection whose key and value heads are split over ranks, and the reduction of its gradient;
    nothing where t is no more than the heads.
    """
    size = 1.0 * HALF_BYTES * tokens(plan, inputs) * qkv_width(kind)
    size = where(plan.tp > kind.attention.kv_heads, size, 0.0)
    gathered, reduced = (region.ranks.message(name, ACTIVATIONS, size) for name in ("all_gather", "reduce_scatter"))
    return (gathered,), (reduced,)

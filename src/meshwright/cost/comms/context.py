"""Context parallelism: how ranks that share a sequence bring queries together with keys and values."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Floats, Ints, larger, smaller, where
from meshwright.cost.comms.exchange import Communicator, Exchange, Message, communicator
from meshwright.cost.compute.layer import LayerTime
from meshwright.cost.repeated import repeated_parts
from meshwright.cost.shard import layer_shard
from meshwright.layout.groups import context_split
from meshwright.layout.plans import Layout
from meshwright.specs.choices import ContextExchange, Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import HALF_BYTES

KEYS_AND_VALUES = "keys and values"
THEIR_GRADIENTS = "gradients of keys and values"


class ContextBytes(NamedTuple):
    """Bytes of one layer and micro-batch on one rank; each scalar or array (n,)."""

    local: Floats
    """Keys and values of the rank's own part of the sequence."""
    gradients: Floats
    """Their gradients, as a ring passes them on."""
    gathered: Floats
    """Keys and values of the whole group, the buffer of an all-gather."""
    exchanged: Floats
    """Queries, keys, values and output of one rank, the buffers of an all-to-all."""


def context_bytes(plan: Layout, inputs: Inputs, kind: LayerKind) -> ContextBytes:
    """What context-parallel ranks send for one layer and micro-batch.

    Local keys and values hold 2 b s (k d_k + k d_v) / (c t) bytes. A ring of r ranks passes them on r - 1 times forward
    and again backward, and their gradients r times; an all-gather collects c times as much; an all-to-all exchanges
    queries, keys, values and output, key and value heads repeated until every rank has one.
    plan: scalar or array (n,). Returns bytes. Source: Liu et al., arXiv:2310.01889; torch.distributed.tensor 2.13,
    experimental attention, counted; Jacobs et al., arXiv:2309.14509.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> sizes = context_bytes(Plan(cp=2), LLAMA, LLAMA.model.layer_kinds[0])
    >>> float(sizes.local), float(sizes.gathered)  # 2 bytes of 4096 tokens of 8 + 8 heads of 128
    (16777216.0, 33554432.0)
    """
    shard, split = layer_shard(plan, inputs, kind), context_split(plan, inputs)
    local = 1.0 * HALF_BYTES * shard.tokens * shard.attended
    repeated = larger(1.0, split.heads * plan.tp / kind.attention.kv_heads)
    keys = smaller(repeated, split.heads) * (shard.key + shard.value)
    return ContextBytes(
        local=local,
        gradients=local * inputs.runtime.communication.context_gradient_bytes / HALF_BYTES,
        gathered=local * plan.cp,
        exchanged=1.0 * HALF_BYTES * shard.tokens * (shard.query + shard.core + keys),
    )


def context_exchanges(plan: Layout, inputs: Inputs, kind: LayerKind, layer: LayerTime) -> tuple[Exchange, ...]:
    """Context-parallel exchanges of one layer and micro-batch.

    Ring: messages beside the attention of the piece that has arrived, (r - 1) / r of it. All-gather: keys and values
    before attention, their gradients reduced after it, nothing hidden. All-to-all: queries, keys and values before
    attention and its output after it, in both directions. Hierarchical: the all-to-all inside the scale-up domain, the
    ring across.

    plan: scalar or array (n,); layer: its compute, for the windows, seconds. Returns bytes and seconds.
    Source: `context_bytes`; Megatron-LM, --cp-comm-type p2p, all_gather, a2a, a2a+p2p.

    >>> from meshwright.cost.compute.layer import layer_time
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> plan, kind = Plan(cp=4), LLAMA.model.layer_kinds[0]
    >>> exchanges = context_exchanges(plan, LLAMA, kind, layer_time(plan, LLAMA, kind))
    >>> [float(each.times) for each in exchanges if each.phase == "forward"]  # a ring, no all-gather or all-to-all
    [0.0, 1.0, 1.0]
    """
    sizes, ring = context_bytes(plan, inputs, kind), context_split(plan, inputs).ring
    whole, heads = communicator("cp", plan, inputs), communicator("cp_heads", plan, inputs)
    gathers = where(plan.context_exchange == ContextExchange.ALL_GATHER, 1, 0)
    rings, overlap = (1 - gathers) * (ring > 1), inputs.runtime.overlap.context
    gathered = whole.message("all_gather", KEYS_AND_VALUES, sizes.gathered)
    reduced = whole.message("reduce_scatter", THEIR_GRADIENTS, sizes.gathered)
    swapped = heads.message("all_to_all", "queries, keys, values and output", sizes.exchanged)
    forward, backward = _ring_messages(sizes, whole, ring)
    passed = (ring - 1) / larger(ring, 1)
    gathers_again, again = _repetitions(plan, inputs, kind)
    window = layer.forward.attention * passed
    return (
        Exchange("cp", "forward", (gathered,), times=gathers),
        Exchange("cp", "forward", forward, times=rings, window=window, share=overlap),
        Exchange("cp", "forward", (swapped,), times=1 - gathers),
        Exchange("cp", "recompute", (gathered,), times=gathers * gathers_again),
        Exchange("cp", "recompute", forward, times=rings * again, window=window, share=overlap),
        Exchange("cp", "recompute", (swapped,), times=(1 - gathers) * again),
        Exchange("cp", "backward", (gathered, reduced), times=gathers),
        Exchange("cp", "backward", backward, times=rings, window=layer.backward.attention * passed, share=overlap),
        Exchange("cp", "backward", (swapped,), times=1 - gathers),
    )


def _repetitions(plan: Layout, inputs: Inputs, kind: LayerKind) -> tuple[Ints, Ints]:
    """How often backward repeats the forward pass's all-gathers, and its other exchanges: with a whole layer, and with
    the attention core. Selective recomputation by products keeps what an all-to-all brings, and a ring of PyTorch is
    made of these, but gathers again (torchtitan, activation_checkpoint.py, the operators that it saves).
    """
    full, selective = (plan.recompute == each for each in (Recompute.FULL, Recompute.SELECTIVE))
    if inputs.runtime.activations.recomputes_by_product:
        return where(full | selective, 1, 0), where(full, 1, 0)
    repeated: Ints = where(full, 1, repeated_parts(plan, kind).core)
    return repeated, repeated


def _ring_messages(
    sizes: ContextBytes, whole: Communicator, ring: Ints
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What a ring passes on forward and backward, where gradients travel with the keys and values of r - 1 steps."""
    steps = larger(ring - 1, 1)
    keys = whole.message("send", KEYS_AND_VALUES, sizes.local, steps)
    both = whole.message("send", THEIR_GRADIENTS, sizes.local + sizes.gradients * ring / steps)
    more = steps * (both.seconds - keys.seconds) / ring
    return (keys,), (keys, both._replace(bytes=sizes.gradients, seconds=more, times=ring))

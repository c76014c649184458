"""Context parallelism: how ranks that share a sequence bring queries together with keys and values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.cost.comms.all_to_all import all_to_all_time
from meshwright.cost.comms.collectives import collective_time, message_time
from meshwright.cost.comms.group import Group, context_group, head_exchange_group
from meshwright.cost.comms.overlap import exposed_time
from meshwright.cost.compute.layer import LayerTime
from meshwright.cost.element import HALF_BYTES
from meshwright.cost.shard import layer_shard
from meshwright.layout.groups import context_split
from meshwright.layout.plan import ContextExchange
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


class ContextTime(NamedTuple):
    """Exposed seconds of context-parallel communication of one layer and micro-batch."""

    forward: Floats
    backward: Floats


class ContextBytes(NamedTuple):
    """Bytes of one layer and micro-batch on one rank; each scalar or array (n,)."""

    ring_forward: Floats
    """Sent to the next rank of a ring, all its steps together: (r - 1) times the local keys and values."""
    ring_backward: Floats
    """The same again, and r times their gradients."""
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
    """
    shard, split = layer_shard(plan, inputs, kind), context_split(plan, inputs)
    local = 1.0 * HALF_BYTES * shard.tokens * (shard.key + shard.value)
    gradients = inputs.runtime.communication.context_gradient_bytes / HALF_BYTES
    repeated = np.maximum(1.0, split.heads * plan.tp / kind.attention.kv_heads)
    keys = np.minimum(repeated, split.heads) * (shard.key + shard.value)
    several = np.greater(split.ring, 1)
    return ContextBytes(
        local * (split.ring - 1),
        np.where(several, local * (split.ring - 1 + gradients * split.ring), 0.0),
        local * plan.cp,
        1.0 * HALF_BYTES * shard.tokens * (shard.query + shard.core + keys),
    )


def context_time(plan: Layout, inputs: Inputs, kind: LayerKind, layer: LayerTime) -> ContextTime:
    """Exposed context-parallel seconds of one layer and micro-batch.

    Ring: messages beside the attention of the piece that has arrived. All-gather: keys and values before attention,
    their gradients reduced after it, nothing hidden. All-to-all: queries, keys and values before attention and its
    output after it, in both directions. Hierarchical: the all-to-all inside the scale-up domain, the ring across.

    plan: scalar or array (n,); layer: its compute, for the windows. Returns seconds. Source: `context_bytes`;
    Megatron-LM, --cp-comm-type p2p, all_gather, a2a, a2a+p2p.
    """
    sent, split = context_bytes(plan, inputs, kind), context_split(plan, inputs)
    whole, cluster = context_group(plan, inputs), inputs.cluster
    gathers, rings = np.equal(plan.context_exchange, ContextExchange.ALL_GATHER), np.greater(split.ring, 1)
    gathered = collective_time("all_gather", sent.gathered, whole, cluster)
    reduced = collective_time("reduce_scatter", sent.gathered, whole, cluster)
    swapped = all_to_all_time(sent.exchanged, head_exchange_group(plan, inputs), cluster)
    forward, backward = (
        np.where(rings & np.logical_not(gathers), _ring_time(size, inputs, split.ring, window, whole), 0.0)
        for size, window in (
            (sent.ring_forward, layer.forward.attention),
            (sent.ring_backward, layer.backward.attention),
        )
    )
    return ContextTime(
        np.where(gathers, gathered, forward + swapped), np.where(gathers, gathered + reduced, backward + swapped)
    )


def _ring_time(size: Floats, inputs: Inputs, ring: Ints, window: Floats, whole: Group) -> Floats:
    """Exposed seconds of the messages of a ring: (r - 1) / r of the attention runs beside them."""
    steps = np.maximum(ring - 1, 1)
    time = steps * message_time(size / steps, whole, inputs.cluster)
    return exposed_time(time, window * (ring - 1) / np.maximum(ring, 1), inputs.runtime.overlap.context, 0.0, inputs)

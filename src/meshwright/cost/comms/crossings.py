"""Crossings: seconds of entering and leaving a tensor-parallel region."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats
from meshwright.cost.comms.collectives import collective_time
from meshwright.cost.comms.group import tensor_group
from meshwright.cost.element import HALF_BYTES
from meshwright.cost.shard import dense_block, qkv_width, tokens
from meshwright.layout.plan import Recompute
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


class Crossing(NamedTuple):
    """Seconds of entering and leaving a tensor-parallel region."""

    enter: Floats
    """All-gather of the sequence; nothing without sequence parallelism."""
    leave: Floats
    """Reduce-scatter with sequence parallelism, all-reduce without."""


class LayerCrossings(NamedTuple):
    """Of one layer; latent attention gathers compressed queries, keys and values in place of the hidden ones."""

    each: Crossing
    """On average over its regions."""
    again: Crossing
    """Over those that recomputation enters again: all of them, or the feed-forward block alone."""
    expand: Floats
    """Seconds of gathering what queries, keys and values of latent attention are expanded from."""


def crossing(plan: Layout, inputs: Inputs) -> Crossing:
    """Seconds of entering and leaving a region with X = 2 s b h / c bytes.

    plan: scalar or array (n,). Returns seconds. Source: Megatron-LM, tensor_parallel/mappings.py.
    """
    size = 1.0 * HALF_BYTES * tokens(plan, inputs) * inputs.model.hidden_size
    group = tensor_group(plan, inputs)
    return Crossing(
        np.where(plan.sp, collective_time("all_gather", size, group, inputs.cluster), 0.0),
        np.where(
            plan.sp,
            collective_time("reduce_scatter", size, group, inputs.cluster),
            collective_time("all_reduce", size, group, inputs.cluster),
        ),
    )


def layer_crossings(plan: Layout, inputs: Inputs, kind: LayerKind) -> LayerCrossings:
    """Seconds of entering and leaving the regions of one layer, and those that recomputation repeats.

    Latent attention gathers r_q + r_kv + d_rope elements a token in place of h, and r_q + r_kv of them again for the
    expansion alone. plan: scalar or array (n,). Returns seconds. Source: Megatron-LM, multi_latent_attention.py.
    """
    exchange, latent, hidden = crossing(plan, inputs), kind.attention.latent, inputs.model.hidden_size
    if latent is None:
        return LayerCrossings(exchange, exchange, 0.0)
    halves = 1 + (dense_block(kind) is not None)
    expanded = (latent.query_rank or hidden) + latent.kv_rank
    width = expanded + latent.rope_head_dim
    each = exchange._replace(enter=exchange.enter * (width / hidden + halves - 1) / halves)
    full = np.equal(plan.recompute, Recompute.FULL)
    again = exchange._replace(enter=np.where(full, each.enter, exchange.enter))
    return LayerCrossings(each, again, exchange.enter * expanded / hidden)


def split_heads(plan: Layout, inputs: Inputs, kind: LayerKind) -> tuple[Floats, Floats]:
    """Seconds of gathering the projection whose key and value heads are split over ranks, and of its gradient.

    Nothing where t is no more than the heads. plan: scalar or array (n,). Returns seconds.
    """
    size = np.where(
        np.greater(plan.tp, kind.attention.kv_heads), 1.0 * HALF_BYTES * tokens(plan, inputs) * qkv_width(kind), 0.0
    )
    group, cluster = tensor_group(plan, inputs), inputs.cluster
    gathered = collective_time("all_gather", size, group, cluster)
    return gathered, collective_time("reduce_scatter", size, group, cluster)

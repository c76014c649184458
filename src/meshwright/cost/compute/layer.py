"""Compute time of one transformer layer on one rank, for one micro-batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats
from meshwright.cost.compute.attention import eager_attention_time, fused_attention_time
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.experts import expert_time
from meshwright.cost.compute.passes import moved_bytes
from meshwright.cost.compute.products import NO_GEMM, Gemm, linear_time
from meshwright.cost.compute.projections import projections
from meshwright.cost.compute.work import NO_WORK, Work
from meshwright.cost.shard import Shard, layer_shard
from meshwright.cost.tree import combined
from meshwright.layout.groups import context_split
from meshwright.layout.plan import ContextExchange, Recompute
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


class LayerTime(NamedTuple):
    """Compute seconds of one layer for one micro-batch."""

    forward: Work
    backward: Work
    recompute: Work
    """What the backward pass computes again, before it."""
    columns: tuple[Gemm, Gemm]
    """Column-parallel products into the attention core and the feed-forward block: windows for overlap."""


def layer_time(plan: Layout, inputs: Inputs, kind: LayerKind) -> LayerTime:
    """Forward, backward and recomputed compute of one layer of a kind.

    Its linear layers (forward, input gradient, weight gradient each), the attention core, the experts, and the traffic
    of everything element-wise. Full recomputation runs the forward pass again, selective the attention core
    (Korthikanti et al., arXiv:2205.05198, section 5).
    plan: scalar or array (n,). Returns seconds.
    """
    shard, accelerator = layer_shard(plan, inputs, kind), inputs.cluster.accelerator
    linears, experts = projections(inputs, kind, shard), expert_time(plan, inputs, kind)
    into = _total(tuple(linear_time(*each, inputs) for each in linears.attention))
    block = tuple(linear_time(*each, inputs) for each in linears.feed_forward)
    others = (linear_time(*linears.output, inputs), *(linear_time(*each, inputs) for each in linears.down))
    products = _total((into, *block, *others, *experts.products))
    attention = _attention_time(plan, inputs, kind, shard)
    moved = moved_bytes(plan, inputs, kind, shard, linears)
    passes = elementwise_time(moved.forward + experts.forward_bytes, accelerator)
    forward = Work(products.forward, attention[0], passes)
    passes = elementwise_time(moved.backward + experts.backward_bytes, accelerator)
    backward = Work(products.backward, attention[1], passes)
    full, selective = plan.recompute == Recompute.FULL, plan.recompute == Recompute.SELECTIVE
    again = forward.where(full).plus(NO_WORK._replace(attention=np.where(selective, attention[0], 0.0)))
    time = LayerTime(forward, backward, again, (into, block[0] if block else NO_GEMM))
    return combined(lambda seconds: seconds * inputs.cluster.site_derate, time)


def _total(products: tuple[Gemm, ...]) -> Gemm:
    return combined(lambda *seconds: sum(seconds), *products)


def _attention_time(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> tuple[Floats, Floats]:
    attention, accelerator, peak = kind.attention, inputs.cluster.accelerator, inputs.half_peak_flops
    sequence, batch = inputs.job.sequence_length, plan.micro_batch
    if inputs.runtime.attention_kernel == "eager":
        widths = attention.head_dim, attention.value_head_dim
        whole = eager_attention_time(batch, shard.heads, *widths, sequence, accelerator, peak)
        return whole[0] / plan.cp, whole[1] / plan.cp
    width = attention.head_dim + attention.value_head_dim
    split = context_split(plan, inputs)
    kernels = np.where(np.equal(plan.context_exchange, ContextExchange.ALL_GATHER), 1, split.ring)
    heads, shape = shard.heads / split.heads, (width, sequence, attention.window)
    forward = fused_attention_time(batch, heads, *shape, accelerator, peak, split.ring, kernels)
    if inputs.runtime.attention_kernel != "newest":
        forward = forward * accelerator.kernels.attention.older[inputs.runtime.attention_kernel]
    return forward, forward * accelerator.kernels.attention.backward_ratio

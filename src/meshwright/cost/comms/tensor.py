"""Tensor parallelism: the collectives of one layer and of the two ends, and what of them is exposed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, Ints
from meshwright.cost.comms.collectives import collective_time
from meshwright.cost.comms.crossings import Crossing, crossing, layer_crossings, split_heads
from meshwright.cost.comms.group import tensor_group
from meshwright.cost.comms.overlap import exposed_time
from meshwright.cost.compute.ends import EndTime
from meshwright.cost.compute.layer import LayerTime
from meshwright.cost.element import FP32_BYTES
from meshwright.cost.repeated import repeated_parts
from meshwright.cost.shard import dense_block, tokens
from meshwright.layout.plan import Recompute
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind

ENTROPY_REDUCTIONS = 3


class TensorTime(NamedTuple):
    """Exposed seconds of tensor-parallel communication for one micro-batch."""

    forward: Floats
    backward: Floats
    """With what recomputation sends again."""


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


def layer_collectives(plan: Layout, inputs: Inputs, kind: LayerKind) -> LayerCollectives:
    """What one layer exchanges over its tensor-parallel ranks.

    With sequence parallelism two all-gathers and two reduce-scatters in each direction, and two more all-gathers in
    backward where the runtime keeps inputs sharded. Without, two all-reduces forward and in backward one for every
    column-parallel product: two where projections are fused, else one each for q, k, v, gate and up. Layers of experts
    without a shared one have the attention's half of these alone. Full recomputation repeats the forward, in some
    runtimes without the reduction that ends a dense layer; selective of a feed-forward block enters and leaves it once
    more, of latent attention's expansion gathers its input, and by products repeats all but reduce-scatters, whose
    outputs it keeps.
    plan: scalar or array (n,). Returns counts. Source: Megatron-LM, tensor_parallel/layers.py; torch.distributed.tensor
    2.13, counted on fake processes.
    """
    runtime, sequence = inputs.runtime, np.asarray(plan.sp, dtype=bool)
    block = dense_block(kind)
    halves, separate = 1 + (block is not None), 3 + (1 + block.gated if block else 0)
    products = halves if runtime.kernels.fused_projections else separate
    full, parts = np.equal(plan.recompute, Recompute.FULL), repeated_parts(plan, kind)
    by_product = inputs.runtime.activations.selective_recompute == "every_second_product"
    entered = by_product & np.equal(plan.recompute, Recompute.SELECTIVE)
    forward = Collectives(np.where(sequence, halves, 0), halves + 0 * plan.tp)
    return LayerCollectives(
        forward,
        Collectives(np.where(sequence, halves, 0), np.where(sequence, halves, products)),
        np.where(sequence & runtime.activations.regathers_inputs, halves, 0),
        Collectives(
            (full | entered) * forward.gathers + np.where(sequence, parts.block, 0),
            full * (forward.reductions - (runtime.activations.checkpoint_stops_early and not kind.is_moe))
            + parts.block
            + np.where(sequence, 0, entered * forward.reductions),
        ),
        np.where(sequence, parts.expansion, 0),
    )


def layer_tensor_time(plan: Layout, inputs: Inputs, kind: LayerKind, layer: LayerTime) -> TensorTime:
    """Exposed tensor-parallel seconds of one layer and micro-batch.

    X = 2 s b h / c bytes as often as `layer_collectives` says. In backward the all-gathers that fetch saved, sharded
    inputs once more are issued beside the input-gradient product, the input gradient's reduction beside the
    weight-gradient product (Megatron-LM, tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication).
    Where t exceeds the key and value heads, the fused projection's output is gathered whole and its gradient reduced
    again.

    plan: scalar or array (n,); layer: its compute, for the windows. Returns seconds.
    """
    (exchange, again, expand), overlap = layer_crossings(plan, inputs, kind), inputs.runtime.overlap
    counts, (gathered, scattered) = layer_collectives(plan, inputs, kind), split_heads(plan, inputs, kind)
    product, share = layer.forward.gemm / 4, overlap.tensor_parallel
    forward = gathered + _pass_time(counts.forward, exchange, product, share, inputs)
    repeated = _pass_time(counts.recompute, again, product, share, inputs)
    repeated = repeated + counts.expansions * _hidden(expand, product, share, inputs)
    gradient = counts.backward.gathers * _hidden(exchange.enter, layer.backward.gemm / 4, share, inputs)
    backward = gradient + scattered + repeated + np.where(plan.recompute == Recompute.FULL, gathered, 0.0)
    share, halves = overlap.tensor_parallel_backward, 1 + (dense_block(kind) is not None)
    for column in layer.columns[:halves]:
        entered, left = counts.regathers / halves, counts.backward.reductions / halves
        backward = backward + _hidden(entered * exchange.enter, column.input_gradient, share, inputs)
        backward = backward + _hidden(left * exchange.leave, column.weight_gradient, share, inputs)
    return TensorTime(forward, backward)


def _pass_time(counts: Collectives, exchange: Crossing, product: Floats, share: float, inputs: Inputs) -> Floats:
    """Exposed seconds of a forward pass: every collective beside the product that it feeds or follows."""
    enter, leave = (_hidden(each, product, share, inputs) for each in exchange)
    return counts.gathers * enter + counts.reductions * leave


def embedding_tensor_time(plan: Layout, inputs: Inputs) -> TensorTime:
    """Exposed seconds at the vocabulary-parallel embedding: its output reduced forward, gathered backward.

    plan: scalar or array (n,). Returns seconds for one micro-batch.
    """
    exchange = crossing(plan, inputs)
    return TensorTime(exchange.leave, exchange.enter)


def head_tensor_time(plan: Layout, inputs: Inputs, head: EndTime) -> TensorTime:
    """Exposed seconds at the output head.

    X gathered forward and again backward, its gradient reduced beside the weight gradient, and three all-reduces of 4
    bytes per token for the vocabulary-parallel cross-entropy.
    plan: scalar or array (n,); head: its compute, for the windows. Returns seconds for one micro-batch.
    """
    exchange, share = crossing(plan, inputs), inputs.runtime.overlap.tensor_parallel_backward
    size, group = FP32_BYTES * tokens(plan, inputs), tensor_group(plan, inputs)
    entropy = ENTROPY_REDUCTIONS * collective_time("all_reduce", size, group, inputs.cluster)
    again = 0.0 if not inputs.runtime.activations.regathers_inputs else exchange.enter
    backward = _hidden(again, head.input_gradient, share, inputs) + _hidden(
        exchange.leave, head.weight_gradient, share, inputs
    )
    return TensorTime(exchange.enter + entropy, backward)


def _hidden(time: Floats, window: Floats, share: float, inputs: Inputs) -> Floats:
    return exposed_time(time, window, share, 0.0, inputs)

"""Time of the attention core of one layer on one rank."""

from __future__ import annotations

from meshwright.arrays import Floats, where
from meshwright.cost.compute.attention import (
    MEASURED_WIDTH,
    backward_over_forward,
    computed_head,
    eager_attention_time,
    fused_attention_time,
    generation_constants,
    measured_widths,
    padding_bytes,
)
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.ordered import ordered_backward
from meshwright.cost.compute.slowdown import older_attention_slowdown, sustained_attention_slowdown
from meshwright.cost.shard import Shard
from meshwright.layout.groups import context_split
from meshwright.layout.plans import Layout
from meshwright.specs.choices import ContextExchange
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


def attention_time(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> tuple[Floats, Floats]:
    """Seconds of the attention core of one layer and one micro-batch on one rank, forward and backward.

    By the runtime's generation of kernels; each document on its own; under context parallelism the rank's part of rows
    and heads. plan: scalar or array (n,); shard: sizes on the rank. Source: `fused_attention_time`,
    `eager_attention_time`, the accelerator's kernel table.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> [round(float(each) * 1e3, 2) for each in attention_time(Plan(), LLAMA, kind, layer_shard(Plan(), LLAMA, kind))]
    [0.98, 2.83]
    """
    attention, accelerator, peak = kind.attention, inputs.cluster.accelerator, inputs.half_peak_flops
    sequence, batch = inputs.job.sequence_length, plan.micro_batch
    generation, widths = inputs.attention_generation, (attention.head_dim, attention.value_head_dim)
    if generation == "eager":
        scores = inputs.runtime.elementwise_bytes.attention_scores
        whole = eager_attention_time(batch, shard.heads, *widths, sequence, accelerator, peak, scores)
        return whole[0] / plan.cp, whole[1] / plan.cp
    constants, factor = accelerator.kernels.attention, older_attention_slowdown(inputs)
    library = "newest" if inputs.quantises_attention else inputs.runtime.kernels.attention_library
    kernels = generation_constants(constants, generation, library)
    factor = factor * kernels.slowdown * sustained_attention_slowdown(inputs, kernels.slowdown)
    head, value_head = (computed_head(width, kernels.head_multiple) for width in widths)
    split = context_split(plan, inputs)
    gathers = plan.context_exchange == ContextExchange.ALL_GATHER
    in_pieces = inputs.runtime.communication.merges_context_pieces
    launches = split.ring if in_pieces else where(gathers, 1, split.ring)
    heads, both_widths = shard.heads / split.heads, measured_widths(head + value_head, kernels)
    document, window = inputs.job.attended_length, attention.window
    documents = batch * sequence / document
    last: Floats = 1.0 if inputs.runtime.communication.balances_context else 2.0 - 1.0 / plan.cp

    def seconds(width: float, row_width: float) -> Floats:
        alone = fused_attention_time(
            documents, heads, width, document, window, accelerator, peak, split.ring, launches, row_width
        )
        return last * factor * alone

    forward = seconds(both_widths[0], kernels.row_width)
    backward = seconds(both_widths[1], 0.0) * backward_over_forward(head, constants)
    padded = padding_bytes(attention.head_dim, attention.value_head_dim, shard, accelerator)
    padding = elementwise_time(padded, accelerator)
    backward = ordered_backward(backward, plan, inputs, kind, shard) + padding
    time = forward + padding, backward
    return _quantised_attention(time, inputs, kind, shard) if inputs.quantises_attention else time


def _quantised_attention(
    time: tuple[Floats, Floats], inputs: Inputs, kind: LayerKind, shard: Shard
) -> tuple[Floats, Floats]:
    """Seconds of both passes with 8-bit operands: what the accelerator's kernels gain, and what quantises queries, keys
    and values forward and the output's gradient backward. time: of both passes in 2 bytes, seconds. Source: `quantised`
    of the accelerator's kernel table; TransformerEngine, dot_product_attention (fp8_dpa).
    """
    accelerator, element = inputs.cluster.accelerator, inputs.quantise_bytes
    recipe = inputs.recipe.attention or inputs.job.precision
    measured = accelerator.kernels.attention.quantised.get(recipe)
    read = (shard.query + shard.key + shard.value), shard.core
    ahead = tuple(elementwise_time(element * shard.tokens * width, accelerator) for width in read)
    if measured is None:
        return time[0] + ahead[0], time[1] + ahead[1]
    ratio = measured.wide if kind.attention.head_dim > MEASURED_WIDTH // 2 else measured.narrow
    return time[0] * ratio.forward + ahead[0], time[1] * ratio.backward + ahead[1]

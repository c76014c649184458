"""Activations that the forward pass keeps for the backward pass."""

from __future__ import annotations

from itertools import compress
from typing import NamedTuple

from meshwright.arrays import Floats, Ints, some, where
from meshwright.cost.compute.experts import expert_shard
from meshwright.cost.kept_products import kept_products
from meshwright.cost.memory.graph_pool import handed_out_bytes
from meshwright.cost.memory.norms import norm_bytes, norm_outputs
from meshwright.cost.memory.offloaded import offloaded_bytes
from meshwright.cost.memory.rotary import table_bytes, table_copy_bytes
from meshwright.cost.memory.saved import (
    CHOICE_BYTES,
    Saved,
    attention_bytes,
    core_bytes,
    expanded_bytes,
    expert_activation_bytes,
    expert_bytes,
    feed_forward_bytes,
    output_bytes,
    product_bytes,
)
from meshwright.cost.memory.working import ending_bytes, working_bytes
from meshwright.cost.repeated import repeated_parts
from meshwright.cost.routing import routed_experts
from meshwright.cost.shard import Shard, dense_block, layer_shard
from meshwright.layout.plans import Layout
from meshwright.specs.choices import ContextExchange, Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES


class LayerMemory(NamedTuple):
    """Bytes of one layer and micro-batch on one rank."""

    saved: Floats
    """Kept from forward to backward."""
    again: Floats
    """What recomputation makes alive again, or comes back from the host, while the layer's backward runs."""
    working: Floats
    """Alive for a moment while the layer's backward runs, beyond all of these; where it is computed again to its end,
    also when that ends, beside the gradient of its output, with sequence parallelism gathered too."""
    ending: Floats
    """Alive for a moment when the layer's forward ends, beyond what is saved."""
    tables: Floats
    """Of what is saved, the rotary table, which stands once for all micro-batches."""
    handed_out: Floats
    """Of CUDA graphs to kernels outside of them, beyond what is saved."""
    offloaded: Floats
    """What modules leave to the host, beyond what is saved."""


def layer_memory(plan: Layout, inputs: Inputs, kind: LayerKind) -> LayerMemory:
    """Saved and working bytes of one layer of a kind for one micro-batch.

    Saved per token, 2 bytes an element: every norm's input (1/t with sequence parallelism); each linear layer's input
    (norm outputs likewise where the runtime gathers them again, whole where it keeps them gathered; attention output
    and the activation's product / t), in the recipe's format where it quantises; q, k, v / t; 4 bytes of log-sum-exp
    per head; gate and up / t. With SwiGLU, RMS norm, flash attention, SP and gathering again:
    s b h (12 + 4 k/a + 6 f/h) / t. Eager attention keeps 5 a s / h more (softmax, its dropout mask and output). Latent
    attention keeps its compressed widths before and after their norms; experts the router's scores, and of every routed
    row its input, gate and up, and product. Full recomputation keeps the layer's input and has one layer's saved
    tensors alive again while it works; selective keeps all but `recomputed_bytes`, or what the runtime's kind of it
    keeps; offloaded modules (`offloaded_bytes`) leave their inputs to the host. Recomputation leaves the rotary table
    out, as a buffer that stands anyway.

    plan: scalar or array (n,). Returns bytes. Source: Korthikanti et al., arXiv:2205.05198, table 2; the saved tensors
    of Transformer Engine's modules; PyTorch 2.13's, counted on fake tensors and equal to the byte.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> saved = layer_memory(Plan(tp=8, sp=True), LLAMA, LLAMA.model.layer_kinds[0]).saved
    >>> float(saved) / (8192 * 4096 / 8)  # of s b h / t: 12 + 4 k/a + 6 f/h, and 4 a / h bytes of log-sum-exp
    34.03125
    """
    shard = layer_shard(plan, inputs, kind)
    saved = Saved(
        norms=norm_bytes(plan, inputs, kind, shard),
        attention=attention_bytes(plan, inputs, kind, shard),
        core=core_bytes(inputs, kind, shard),
        feed_forward=feed_forward_bytes(plan, inputs, kind, shard),
        experts=expert_bytes(plan, inputs, kind),
    )
    tables, ending = table_bytes(plan, inputs, kind), ending_bytes(plan, inputs, kind, shard)
    activations, copied = inputs.runtime.activations, _copied_bytes(plan, inputs, kind, shard)
    everything = sum(saved) + tables + copied + table_copy_bytes(inputs, kind, shard) + _pieces(plan, inputs, shard)
    layer_input = 1.0 * inputs.residual_bytes * shard.residual_tokens * inputs.model.hidden_size
    full, selective = plan.recompute == Recompute.FULL, plan.recompute == Recompute.SELECTIVE
    # What attention keeps is alive again after what the block does.
    after = 0.0 * layer_input
    if activations.checkpoints_modules and not kind.is_moe:
        after = where(full, saved.attention + saved.core + copied, 0.0)
        layer_input = 2.0 * layer_input + 2.0 * HALF_BYTES * shard.residual_tokens * inputs.model.hidden_size
    left = everything
    if some(selective) and activations.recomputes_by_product:
        left = _every_second_product(plan, inputs, kind, shard, saved.core)
    elif some(selective):
        left = everything - recomputed_bytes(plan, inputs, kind, shard, saved)
    offloaded = where(full, 0.0, offloaded_bytes(plan, inputs, kind, shard).freed)
    saved_bytes = where(full, layer_input, where(selective, left, everything)) - offloaded
    block = saved._replace(feed_forward=saved.feed_forward - after)
    working = working_bytes(plan, inputs, kind, shard, block, ending)
    return LayerMemory(
        saved=saved_bytes,
        again=everything - saved_bytes - after,
        working=working,
        ending=ending,
        tables=where(full | selective, 0, tables),
        handed_out=handed_out_bytes(plan, inputs, kind),
        offloaded=offloaded,
    )


def _copied_bytes(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """What one layer keeps twice: the attention core's output, and keys and values beside the copy that queries view.

    plan: scalar or array (n,). Returns bytes. Source: `Activations`.
    """
    activations, attention = inputs.runtime.activations, kind.attention
    copies = (plan.cp > 1) & activations.copies_context_output
    width = (copies | ((plan.micro_batch > 1) & activations.copies_batched_output)) * shard.core
    if activations.keeps_packed_projections and attention.heads == attention.kv_heads and not attention.qkv_bias:
        width = width + (plan.cp == 1) * (shard.key + shard.value)
    return 1.0 * HALF_BYTES * shard.tokens * width


def recomputed_bytes(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard, saved: Saved) -> Floats:
    """Saved bytes of one layer that selective recomputation leaves to backward.

    core_attn: the core's own, and its output where the next product keeps that in another format. layernorm: outputs of
    norms that are kernels of their own. mla_up_proj: queries, keys, values and the normed compressed widths, of which
    those before their norms stay. moe_act: the routed rows' product. mlp and shared_experts: gate, up and product, and
    what feeds them but the block's input, which in a dense layer is the norm's; moe: those of the shared expert, and
    everything of the router and the routed rows.
    shard: sizes on the rank; saved: everything that the layer keeps, bytes; plan: scalar or array (n,). Returns bytes.
    Source: Megatron-LM, transformer_config.py `recompute_modules`; tensor_parallel/random.py CheckpointWithoutOutput.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.recompute_modules import RecomputeModules
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> plan = Plan(recompute=Recompute.SELECTIVE, recompute_modules=RecomputeModules.CORE_ATTENTION)
    >>> kind, saved = LLAMA.model.layer_kinds[0], Saved(*(8.0 for _ in Saved._fields))
    >>> float(recomputed_bytes(plan, LLAMA, kind, layer_shard(plan, LLAMA, kind), saved))  # of the core
    8.0
    """
    repeated, outputs = repeated_parts(plan, kind), norm_outputs(plan, inputs, kind, shard)
    product: Floats = 0.0
    if kind.is_moe:
        experts = expert_shard(plan, inputs, kind)
        left = product_bytes(inputs, kind.feed_forward.gated) + expert_activation_bytes(inputs, kind)
        product = experts.rows * experts.ffn * left
    return (
        _where(repeated.core, saved.core + output_bytes(inputs, kind, shard))
        + _where(repeated.expansion, expanded_bytes(inputs, kind, shard))
        + _where(repeated.attention_norm, outputs.attention)
        + _where(repeated.block_norm + repeated.block, outputs.block)
        + _where(repeated.block_norm, outputs.router)
        + _where(repeated.block, saved.feed_forward)
        + where(repeated.experts > 0, saved.experts, _where(repeated.activation, product))
    )


def _where(times: Ints, size: Floats) -> Floats:
    """A size where something is computed again once or more, else nothing."""
    return where(times > 0, size, 0.0)


def _every_second_product(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard, core: Floats) -> Floats:
    """Saved bytes of one layer where every second matrix product is computed again, and everything element-wise.

    Kept: the layer's input; of the products in order (q, k, v, which may be one, output, gate, up, down) those that
    `kept_products` names; the attention core's output and what it keeps, unless the runtime attends again; with
    sequence parallelism the outputs of its reduce-scatters. The down product's output is whole on every rank; a
    compiler keeps it only where backward reads it, which a plain residual does not. core: what the attention core
    keeps, bytes.
    Source: torchtitan's per-operator selective checkpointing, counted with PyTorch 2.13 on fake tensors, and compiled
    (aot_eager and inductor) by its saved-tensor hooks.
    """
    hidden, block, rows = inputs.model.hidden_size, dense_block(kind), 1.0 * shard.tokens
    into = [shard.qkv] if inputs.fuses_qkv(kind.attention) else [shard.query, shard.key, shard.value]
    products = [rows * width for width in into] + [rows * hidden]
    if block:
        read = 1.0 * inputs.runtime.activations.keeps_unread_products
        products += [rows * shard.ffn] * (2 if block.gated else 1) + [read * rows * hidden]
    regions = 1 + (block is not None)
    kept = kept_products(inputs, kind, len(into), len(products) - len(into) - 1)
    reduced = where(plan.sp, 1.0 * regions * shard.residual_tokens * hidden, 0.0)
    attended = inputs.runtime.activations.keeps_attention_output * (HALF_BYTES * rows * shard.core + core)
    saved = HALF_BYTES * (shard.residual_tokens * hidden + reduced + sum(compress(products, kept)))
    keeps_pieces = inputs.runtime.activations.keeps_context_pieces
    of_pieces = _pieces(plan, inputs, shard) if keeps_pieces else _of_other_pieces(plan, inputs, shard)
    return saved + attended + of_pieces + _of_exchanges(plan, inputs, kind)


def _of_exchanges(plan: Layout, inputs: Inputs, kind: LayerKind) -> Floats:
    """Kept of routed experts, whose grouped products are computed again: what both exchanges bring, unless the runtime
    exchanges again, and the choices.
    """
    if not kind.is_moe:
        return 0.0 * plan.tp
    experts, hidden, active = expert_shard(plan, inputs, kind), inputs.model.hidden_size, routed_experts(kind).active
    keeps = not inputs.runtime.activations.exchanges_again(kind.attention)
    exchanged = where(plan.ep > 1, HALF_BYTES * hidden * (experts.rows + experts.tokens * active), 0.0)
    return keeps * exchanged + CHOICE_BYTES * experts.tokens * active


def _pieces(plan: Layout, inputs: Inputs, shard: Shard) -> Floats:
    """Keys and values of all pieces of a sequence, where the runtime keeps them.

    2 c T (k + v) with context parallelism, as attention reads them. Source: torch 2.13, compiled layers of Llama 3 8B
    with tp 1 and 2 and cp 1, 2 and 4, without and with selective recomputation: what their forward graphs put out for
    backward, equal to the byte on the rank that sees every piece whole.
    """
    kept = inputs.runtime.activations.keeps_context_pieces & (plan.cp > 1)
    return where(kept, 1.0 * HALF_BYTES * plan.cp * shard.tokens * shard.attended, 0.0)


def _of_other_pieces(plan: Layout, inputs: Inputs, shard: Shard) -> Floats:
    """Kept of the attention of every other rank's piece, on the rank that sees all of them whole: its output and
    log-sum-exp, and in a ring the keys and values that arrived.
    """
    if not inputs.runtime.activations.copies_context_output:
        return 0.0 * plan.cp
    arrived = where(plan.context_exchange == ContextExchange.RING, shard.attended, 0)
    width = HALF_BYTES * (shard.core + arrived) + FP32_BYTES * shard.heads
    return (plan.cp - 1.0) * shard.tokens * width

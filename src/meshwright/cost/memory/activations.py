"""Activations that the forward pass keeps for the backward pass, and the working set of one layer's backward."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats
from meshwright.cost.element import FP32_BYTES, HALF_BYTES
from meshwright.cost.shard import Shard, dense_feed_forward, layer_shard, residual_tokens, tokens, vocabulary_shard
from meshwright.layout.plan import ContextExchange, Recompute
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind

TOKEN_ID_BYTES = 8
DROPOUT_MASKS = 2


class LayerMemory(NamedTuple):
    """Bytes of one layer and micro-batch on one rank."""

    saved: Floats
    """Kept from forward to backward."""
    working: Floats
    """Alive for a moment while the layer's backward runs, beyond what is saved."""


def layer_memory(plan: Layout, inputs: Inputs, kind: LayerKind) -> LayerMemory:
    """Saved and working bytes of one layer of a kind for one micro-batch.

    Saved per token, 2 bytes an element: every norm's input (1/t with sequence parallelism); each linear layer's input
    (norm outputs likewise where the runtime gathers them again, whole where it keeps them gathered; attention output
    and the activation's product / t); q, k, v / t; 4 bytes of log-sum-exp per head; gate and up / t. With SwiGLU, RMS
    norm, flash attention, SP and gathering again: s b h (12 + 4 k/a + 6 f/h) / t. Eager attention keeps 5 a s / h more
    (softmax, its dropout mask and output). Full recomputation keeps the layer's input and has one layer's saved tensors
    alive again while it works; selective keeps what the runtime's kind of it keeps.

    plan: scalar or array (n,). Returns bytes. Source: Korthikanti et al., arXiv:2205.05198, table 2; the saved tensors
    of Transformer Engine's modules; PyTorch 2.13's, counted on fake tensors and equal to the byte.
    """
    shard = layer_shard(plan, inputs, kind)
    everything = _linear_bytes(inputs, kind, shard) + _core_bytes(inputs, shard)
    layer_input = 1.0 * HALF_BYTES * shard.residual_tokens * inputs.model.hidden_size
    kept = _selective_bytes(plan, inputs, kind, shard)
    if inputs.runtime.selective_recompute == "attention_core":
        kept = everything - _core_bytes(inputs, shard)
    full, selective = plan.recompute == Recompute.FULL, plan.recompute == Recompute.SELECTIVE
    saved = np.where(full, layer_input, np.where(selective, kept, everything))
    working = _backward_bytes(inputs, kind, shard) + _context_bytes(plan, inputs, shard)
    return LayerMemory(saved, everything - saved + working)


def _selective_bytes(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Saved bytes of one layer where every second matrix product is computed again, and everything element-wise.

    Kept: the layer's input; of the products in order (q, k, v, output, gate, up, down) the first, third and so on; the
    attention core's output with its log-sum-exp; with sequence parallelism the outputs of both reduce-scatters. The
    down product's output is whole on every rank. plan: scalar or array (n,); shard: its sizes. Returns bytes.
    Source: torchtitan's per-operator selective checkpointing, counted with PyTorch 2.13 on fake tensors.
    """
    hidden, gated = inputs.model.hidden_size, dense_feed_forward(kind).gated
    products = [shard.query, shard.key, shard.value, hidden, *([shard.ffn] * (2 if gated else 1)), hidden]
    reduced = np.where(plan.sp, 2.0 * shard.residual_tokens * hidden, 0.0)
    elements = shard.residual_tokens * hidden + reduced + shard.tokens * (sum(products[::2]) + shard.core)
    return HALF_BYTES * elements + _core_bytes(inputs, shard)


def head_memory(plan: Layout, inputs: Inputs) -> LayerMemory:
    """Saved and working bytes behind the last layer: the final norm's input and output, and the logits.

    Logits: the runtime's bytes alive per logit of the vocabulary shard, for one micro-batch; with sequence
    parallelism the gathered input of the head beside them, saved or gathered again. plan: scalar or array (n,).
    Returns bytes.
    """
    hidden, rows = inputs.model.hidden_size, tokens(plan, inputs)
    entropy = inputs.runtime.cross_entropies[inputs.runtime.cross_entropy]
    residual = 1.0 * HALF_BYTES * residual_tokens(plan, inputs) * hidden
    whole = 1.0 * HALF_BYTES * rows * hidden
    again = inputs.runtime.regathers_inputs
    gathered = np.where(plan.sp, whole, 0.0) if again else 0.0
    logits = entropy.alive_bytes * rows * vocabulary_shard(plan, inputs)
    return LayerMemory(residual + (residual if again else whole), logits + gathered)


def token_bytes(plan: Layout, inputs: Inputs) -> Floats:
    """Bytes of token ids, labels and positions of one micro-batch, 8 bytes each. Scalar or array (n,)."""
    return 3.0 * TOKEN_ID_BYTES * tokens(plan, inputs)


def _linear_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    hidden, block = inputs.model.hidden_size, dense_feed_forward(kind)
    norm_inputs = 1 if kind.parallel_residual else kind.norms
    fed = shard.residual_tokens if inputs.runtime.regathers_inputs else shard.tokens
    residual = hidden * (norm_inputs * shard.residual_tokens + min(kind.norms, 2) * fed)
    projections = shard.query + shard.key + shard.value + shard.core
    if kind.attention.qk_norm != "none":
        projections = projections + shard.query + shard.key
    inner = (2 if block.gated else 1) + 1 + (0 if inputs.runtime.fused_activation or not block.gated else 1)
    masks = DROPOUT_MASKS * hidden * shard.residual_tokens if inputs.runtime.dropout else 0.0
    kept = HALF_BYTES * (residual + shard.tokens * (projections + inner * shard.ffn)) + masks
    if inputs.model.norm == "rms":
        kept = kept + inputs.runtime.traffic.rms_norm_kept * hidden * kind.norms * shard.residual_tokens
    return kept + (_statistic_bytes(inputs, kind, shard) if inputs.runtime.keeps_statistics else 0.0)


def _statistic_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Reciprocal deviations of the norms, and the rotary tables of one sequence."""
    tables = 0 if inputs.model.learned_positions else inputs.job.sequence_length * kind.attention.head_dim
    return 1.0 * FP32_BYTES * (kind.norms * shard.residual_tokens + tables)


def _core_bytes(inputs: Inputs, shard: Shard) -> Floats:
    """What only the attention core keeps."""
    if inputs.runtime.attention_kernel != "eager":
        return 1.0 * FP32_BYTES * shard.tokens * shard.heads
    scores = 1.0 * shard.tokens * shard.heads * inputs.job.sequence_length
    return scores * inputs.runtime.score_bytes


def _context_bytes(plan: Layout, inputs: Inputs, shard: Shard) -> Floats:
    """Keys, values and their gradients in transit: gathered whole, or in a ring the piece in use and the next."""
    local = HALF_BYTES * shard.tokens * (shard.key + shard.value)
    pieces = np.where(np.equal(plan.context_exchange, ContextExchange.ALL_GATHER), plan.cp, 2)
    both = 1 + inputs.runtime.context_gradient_bytes / HALF_BYTES
    return np.where(np.greater(plan.cp, 1), both * pieces * local, 0.0)


def _backward_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Gradients alive in the feed-forward block's backward: its output's (whole), the product's, and gate and up's;
    beside them the input that is gathered again.
    """
    block = dense_feed_forward(kind)
    gradients = 2 * inputs.model.hidden_size + (3 if block.gated else 2) * shard.ffn
    return 1.0 * HALF_BYTES * shard.tokens * gradients

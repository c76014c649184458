"""Activations that the forward pass keeps for the backward pass, and the working set of one layer's backward."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats
from meshwright.cost.shard import Shard, dense_feed_forward, layer_shard, residual_tokens, tokens, vocabulary_shard
from meshwright.layout.plan import Recompute
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind

ELEMENT_BYTES = 2
STATISTIC_BYTES = 4
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
    (norm outputs likewise, attention output and the activation's product / t); q, k, v / t; 4 bytes of log-sum-exp per
    head; gate and up / t. With SwiGLU, RMS norm, flash attention and SP: s b h (12 + 4 k/a + 6 f/h) / t. Eager
    attention keeps 5 a s / h more (softmax, its dropout mask and output). Full recomputation keeps the layer's input
    and has one layer's saved tensors alive again while it works; selective drops what the attention core keeps.

    plan: scalar or array (n,). Returns bytes. Source: Korthikanti et al., arXiv:2205.05198, table 2; the saved tensors
    of Transformer Engine's modules.
    """
    shard = layer_shard(plan, inputs, kind)
    core = _core_bytes(inputs, shard)
    everything = _linear_bytes(inputs, kind, shard) + core
    layer_input = 1.0 * ELEMENT_BYTES * shard.residual_tokens * inputs.model.hidden_size
    full = plan.recompute == Recompute.FULL
    saved = np.where(full, layer_input, everything - np.where(plan.recompute == Recompute.SELECTIVE, core, 0.0))
    again = np.where(full, everything - layer_input, np.where(plan.recompute == Recompute.SELECTIVE, core, 0.0))
    return LayerMemory(saved, again + _backward_bytes(inputs, kind, shard))


def head_memory(plan: Layout, inputs: Inputs) -> LayerMemory:
    """Saved and working bytes behind the last layer: the final norm's input and output, and the logits.

    Logits: the runtime's bytes alive per logit of the vocabulary shard, for one micro-batch; with sequence
    parallelism the gathered input of the head beside them. plan: scalar or array (n,). Returns bytes.
    """
    hidden, rows = inputs.model.hidden_size, tokens(plan, inputs)
    entropy = inputs.runtime.cross_entropies[inputs.runtime.cross_entropy]
    normed = 2.0 * ELEMENT_BYTES * residual_tokens(plan, inputs) * hidden
    gathered = np.where(plan.sp, ELEMENT_BYTES * rows * hidden, 0.0)
    return LayerMemory(normed, entropy.alive_bytes * rows * vocabulary_shard(plan, inputs) + gathered)


def token_bytes(plan: Layout, inputs: Inputs) -> Floats:
    """Bytes of token ids, labels and positions of one micro-batch, 8 bytes each. Scalar or array (n,)."""
    return 3.0 * TOKEN_ID_BYTES * tokens(plan, inputs)


def _linear_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    hidden, block = inputs.model.hidden_size, dense_feed_forward(kind)
    norm_inputs = 1 if kind.parallel_residual else kind.norms
    residual = (norm_inputs + min(kind.norms, 2)) * hidden * shard.residual_tokens
    projections = shard.query + shard.key + shard.value + shard.core
    if kind.attention.qk_norm != "none":
        projections = projections + shard.query + shard.key
    inner = (2 if block.gated else 1) + 1 + (0 if inputs.runtime.fused_activation or not block.gated else 1)
    masks = DROPOUT_MASKS * hidden * shard.residual_tokens if inputs.runtime.dropout else 0.0
    return ELEMENT_BYTES * (residual + shard.tokens * (projections + inner * shard.ffn)) + masks


def _core_bytes(inputs: Inputs, shard: Shard) -> Floats:
    """What only the attention core keeps."""
    if inputs.runtime.attention_kernel == "flash":
        return 1.0 * STATISTIC_BYTES * shard.tokens * shard.heads
    scores = 1.0 * shard.tokens * shard.heads * inputs.job.sequence_length
    return scores * (2 * ELEMENT_BYTES + 1 if inputs.runtime.dropout else ELEMENT_BYTES)


def _backward_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Gradients alive in the feed-forward block's backward: its output's (whole), the product's, and gate and up's;
    beside them the input that is gathered again.
    """
    block = dense_feed_forward(kind)
    gradients = 2 * inputs.model.hidden_size + (3 if block.gated else 2) * shard.ffn
    return 1.0 * ELEMENT_BYTES * shard.tokens * gradients

"""Norms: what those of one layer keep from forward to backward, for one micro-batch."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Floats
from meshwright.cost.memory.adapters import kept_by_adapters
from meshwright.cost.shard import Shard, dense_block
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind, Mlp
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES

DROPOUT_MASKS, QUERY_KEY_VALUE = 2, 3
"""Of a layer; products of the attention norm's output."""


class NormOutputs(NamedTuple):
    """Bytes of the norms' outputs that one layer keeps, by who reads them; each scalar or array (n,)."""

    attention: Floats
    """The first products of attention."""
    block: Floats
    """The first product of the dense block, or of the shared one where it keeps a copy of its own."""
    router: Floats
    """The router, in 2 bytes an element, or in the fp32 that it works in."""


def norm_bytes(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Inputs and outputs of the norms, dropout masks, and what else the runtime's norms and rotary positions keep; of
    frozen norms not what their weights multiply.

    plan: scalar or array (n,); shard: sizes on the rank. Returns bytes. Source: `layer_memory`.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> shard = layer_shard(Plan(), LLAMA, kind)
    >>> float(norm_bytes(Plan(), LLAMA, kind, shard)) / (8192 * 4096)  # two inputs and two outputs of 2 bytes
    8.0
    """
    hidden, runtime = inputs.model.hidden_size, inputs.runtime
    read = (1 if kind.parallel_residual else kind.norms) * shard.residual_tokens
    saved = inputs.residual_bytes * hidden * read + sum(norm_outputs(plan, inputs, kind, shard))
    if runtime.activations.dropout:
        saved = saved + DROPOUT_MASKS * hidden * shard.residual_tokens
    if inputs.model.norm == "rms":
        of_heads = (shard.query + shard.key) * shard.tokens * (kind.attention.qk_norm == "head")
        rows = hidden * kind.norms * shard.residual_tokens
        kernels = runtime.elementwise_bytes
        kept = kernels.rms_norm_kept - kernels.rms_norm_kept_for_weight * inputs.freezes_weights
        saved = saved + kept * (rows + of_heads)
    return saved + (_statistic_bytes(inputs, kind, shard) if runtime.activations.keeps_statistics else 0.0)


def norm_outputs(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> NormOutputs:
    """What one layer keeps of its norms' outputs: each is the next product's input, whole where the runtime keeps it
    gathered, in the recipe's format; a router reads it in 2 bytes, which the shared expert keeps with it unless delayed
    scaling has it keep its own operand. Under autocast every product that is apart keeps a copy, and in latent
    attention both products that compress keep their own operand where they quantise it. Frozen products keep none of
    them, but adapters do (`kept_by_adapters`).

    plan: scalar or array (n,); shard: sizes on the rank. Returns bytes. Source: `layer_memory`; Megatron-core 0.16.1,
    moe/shared_experts.py L64-91 (`set_save_original_input`), multi_latent_attention.py (`linear_q_down_proj`,
    `linear_kv_down_proj`).

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> shard = layer_shard(Plan(), LLAMA, kind)
    >>> outputs = norm_outputs(Plan(), LLAMA, kind, shard)
    >>> float(outputs.attention) / (8192 * 4096), float(outputs.router)
    (2.0, 0.0)
    """
    if inputs.freezes_weights:
        of_attention, of_block = (kept_by_adapters(plan, inputs, kind, shard, read) for read in ("attention", "block"))
        return NormOutputs(of_attention, of_block, 0.0)
    recipe, hidden = inputs.recipe, inputs.model.hidden_size
    tokens = shard.residual_tokens if inputs.runtime.activations.regathers_inputs else shard.tokens
    read, second = recipe.saved_bytes * hidden * tokens, min(kind.norms, 2) - 1
    autocast, kernels, block = inputs.runtime.storage.autocast, inputs.runtime.kernels, kind.feed_forward
    compressed = 1 + (kernels.fused_projections and recipe.quantises and kind.attention.latent is not None)
    of_attention = (QUERY_KEY_VALUE if autocast and not inputs.fuses_qkv(kind.attention) else compressed) * read
    if isinstance(block, Mlp):
        return NormOutputs(
            of_attention, second * (1 + (autocast and block.gated and not kernels.fused_gate)) * read, 0.0
        )
    in_fp32 = inputs.runtime.activations.weighed_output_bytes == FP32_BYTES
    copied = dense_block(kind) is not None and (recipe.scales_from_earlier_steps or in_fp32)
    width = FP32_BYTES if in_fp32 else HALF_BYTES
    return NormOutputs(second * of_attention, copied * read, 1.0 * width * hidden * shard.residual_tokens)


def _statistic_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Reciprocal deviations of the norms over the hidden size and over heads; of layer norms also the means."""
    heads = shard.heads + shard.key // kind.attention.head_dim
    of_heads = shard.tokens * heads if kind.attention.qk_norm == "head" else 0
    rows = kind.norms * shard.residual_tokens * (2 if inputs.model.norm == "layer" else 1)
    return 1.0 * FP32_BYTES * (rows + of_heads)

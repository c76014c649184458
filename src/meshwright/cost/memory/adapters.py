"""Adapters in memory: what layers whose weights are frozen keep for backward."""

from __future__ import annotations

from meshwright.arrays import Floats, where
from meshwright.cost.compute.adapters import casts_for_adapters, works_in_fp32
from meshwright.cost.compute.experts import expert_shard
from meshwright.cost.memory.saved import norm_outputs
from meshwright.cost.shard import Shard
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES


def kept_beside_frozen(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Bytes that one layer keeps more for its adapters, less what nobody reads where its own weights are frozen.

    Every adapter keeps what its first product puts out, 2 r a token, and its input: 2 in a token and 2 r (in + out) for
    2-byte copies of its weights, all of its own where it casts them (`casts_for_adapters`); in fp32 twice as much, but
    no copies of weights. Else adapters of one input share it, which the attention core keeps anyway. Frozen layers read
    neither the outputs of norms, nor what those multiply by their weights, nor the product of gate and up; nor do
    frozen experts of their rows.
    plan: scalar or array (n,); shard: sizes on the rank. Returns bytes. Source: peft 0.21.2 tuners/lora/layer.py
    (Linear.forward) and transformers 5.23 models/llama/modeling_llama.py under torch.autocast, and with fully_shard of
    PyTorch 2.13, counted on fake tensors, to the byte.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA_LORA
    >>> kind, plans = LLAMA_LORA.model.layer_kinds[0], (Plan(), Plan(dp=8, zero=3))
    >>> shards = [layer_shard(plan, LLAMA_LORA, kind) for plan in plans]
    >>> cast, shared = (kept_beside_frozen(plan, LLAMA_LORA, kind, shard) for plan, shard in zip(plans, shards))
    >>> bool(shared < cast)
    True
    """
    adapters, tokens = inputs.adapters(kind), 1.0 * shard.tokens
    wide = works_in_fp32(plan, inputs)
    copies = sum(each.parameters for each in adapters) * where(wide, 0, 1)
    cast = tokens * sum(each.features for each in adapters) + copies
    shared = tokens * sum({each.reads: each.features for each in adapters if each.reads != "core"}.values())
    own = where(casts_for_adapters(plan, inputs), cast, shared) + tokens * sum(each.rank for each in adapters)
    rows = inputs.model.hidden_size * kind.norms * shard.residual_tokens
    of_heads = (shard.query + shard.key) * shard.tokens * (kind.attention.qk_norm == "head")
    scaled = inputs.runtime.elementwise_bytes.rms_norm_kept_for_weight * (rows + of_heads)
    unread = sum(norm_outputs(inputs, kind, shard)) + scaled * (inputs.model.norm == "rms")
    products = tokens * shard.ffn + _unread_by_experts(plan, inputs, kind)
    return where(wide, FP32_BYTES, HALF_BYTES) * own - unread - inputs.recipe.saved_bytes * products


def _unread_by_experts(plan: Layout, inputs: Inputs, kind: LayerKind) -> Floats:
    """Elements that frozen experts leave unread of all their rows: each one's input, and the product of gate and up."""
    if not kind.is_moe:
        return 0.0
    experts = expert_shard(plan, inputs, kind)
    return experts.rows * (inputs.model.hidden_size + experts.ffn)

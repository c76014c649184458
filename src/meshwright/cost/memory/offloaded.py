"""Offloaded: what the modules whose inputs wait in the host's memory take from the device, of one layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from meshwright.arrays import Bools, Floats, Ints, where
from meshwright.cost.compute.experts import expert_shard
from meshwright.cost.memory.graph_pool import OF_LAYERS, expert_rooms
from meshwright.cost.memory.norms import norm_outputs
from meshwright.cost.memory.saved import (
    core_bytes,
    entering_bytes,
    expert_activation_bytes,
    output_bytes,
    product_bytes,
    read_bytes,
)
from meshwright.cost.repeated import Repeated, repeated_parts
from meshwright.cost.routing import routed_experts
from meshwright.cost.shard import Shard
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import HALF_BYTES


class Offloaded(NamedTuple):
    """Bytes of one layer and micro-batch on one rank; each scalar or array (n,)."""

    freed: Floats
    """Which the device does not keep between the passes."""
    copied: Floats
    """Which travel to the host, and back; a tensor that two modules save travels twice."""


class Tensor(NamedTuple):
    """A tensor that a module saves, on one rank; each scalar or array (n,)."""

    elements: Floats
    freed: Floats
    """Bytes that the device keeps of it for this module alone."""
    copied: Floats
    """Bytes of it."""


NOTHING = Offloaded(0.0, 0.0)


def offloaded_bytes(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> Offloaded:
    """What of one layer and micro-batch goes to the host, where the runtime offloads modules.

    All that a module saves for its backward pass goes, tensor by tensor, of those with as many elements as
    `least_offloaded_elements` or more. attn_norm and mlp_norm: their input, where they are kernels of their own, and no
    CUDA graph holds them. qkv_linear: the norm's output, with its input where both are one kernel, and in latent
    attention the compressed widths around their norms. core_attn: queries, keys, values, its output and the
    log-sum-exp. attn_proj: that output, as the projection reads it. expert_fc1: the rows of experts; moe_act: gate and
    up; fused_group_mlp: both, and the product. What recomputation does not keep frees nothing, but what a module saved
    before it was dropped is copied all the same; a recomputed attention core saves nothing.

    plan: scalar or array (n,); shard: sizes on the rank. Returns bytes. Source: NVIDIA/Megatron-LM@d98e8a64ddf3
    core/pipeline_parallel/fine_grained_activation_offload.py (tensor_need_offloading_checker, bulk_offload_group),
    core/transformer/attention.py, multi_latent_attention.py, transformer_layer.py and moe/experts.py (`off_interface`).

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.behaviours import with_behaviours
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> inputs = LLAMA.replace(runtime=with_behaviours(LLAMA.runtime, ["offloaded_modules=core_attn+attn_proj"]))
    >>> kind = inputs.model.layer_kinds[0]
    >>> offloaded = offloaded_bytes(Plan(), inputs, kind, layer_shard(Plan(), inputs, kind))
    >>> [float(each) / (8192 * 4096) for each in offloaded]  # 2 (q + k + v + output), and the output a second time
    [5.0, 7.0]
    """
    activations = inputs.runtime.activations
    if not activations.offloaded_modules:
        return NOTHING
    tensors = [
        *_of_norms(inputs, kind, shard),
        *_of_attention(plan, inputs, kind, shard),
        *_of_experts(plan, inputs, kind),
    ]
    freed: Floats = 0.0 * plan.tp
    copied = freed
    for each in tensors:
        goes: Bools = each.elements >= activations.least_offloaded_elements
        freed, copied = freed + where(goes, each.freed, 0.0), copied + where(goes, each.copied, 0.0)
    return Offloaded(freed, copied)


def _whole(elements: Floats, width: float) -> Tensor:
    """A tensor that nothing else keeps."""
    return Tensor(elements, width * elements, width * elements)


def _some(elements: Floats, width: float, *, copied: Bools | Ints, freed: Bools | Ints) -> Tensor:
    """A tensor that is copied in some plans, and kept by nothing else in some."""
    return Tensor(elements, where(freed, width * elements, 0.0), where(copied, width * elements, 0.0))


def _of_norms(inputs: Inputs, kind: LayerKind, shard: Shard) -> Iterator[Tensor]:
    """Inputs of norms that are kernels of their own: before latent attention, and before experts."""
    named, graphs = inputs.runtime.activations.offloaded_modules, inputs.runtime.host.graphs
    layer_input = _whole(1.0 * shard.residual_tokens * inputs.model.hidden_size, inputs.residual_bytes)
    if "attn_norm" in named and kind.attention.latent is not None and graphs != "parts":
        yield layer_input
    if "mlp_norm" in named and kind.is_moe and graphs not in OF_LAYERS:
        yield layer_input


def _of_attention(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> Iterator[Tensor]:
    """Of the products that attention starts with, of its core and of its output projection."""
    named, repeated = inputs.runtime.activations.offloaded_modules, repeated_parts(plan, kind)
    if "qkv_linear" in named:
        yield from _of_first_products(plan, inputs, kind, shard, repeated)
    output, saved = 1.0 * shard.tokens * shard.core, inputs.recipe.saved_bytes
    if "core_attn" in named:
        kept, keys = repeated.core == 0, shard.key / (shard.key + shard.value)
        for width in (shard.query, keys * shard.attended, (1 - keys) * shard.attended):
            yield _some(1.0 * shard.tokens * width, HALF_BYTES, copied=kept, freed=kept & (repeated.expansion == 0))
        yield Tensor(output, kept * output_bytes(inputs, kind, shard), kept * HALF_BYTES * output)
        rest = core_bytes(inputs, kind, shard)
        scores = 1 if inputs.attention_generation != "eager" else inputs.job.sequence_length
        yield Tensor(1.0 * shard.tokens * shard.heads * scores, kept * rest, kept * rest)
    if "attn_proj" in named:
        yield _whole(output, saved)


def _of_first_products(
    plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard, repeated: Repeated
) -> Iterator[Tensor]:
    """Of the products that make queries, keys and values, with norms that are part of them."""
    read, latent = norm_outputs(plan, inputs, kind, shard).attention, kind.attention.latent
    elements = 1.0 * shard.residual_tokens * inputs.model.hidden_size
    yield Tensor(elements, where(repeated.attention_norm > 0, 0.0, read), read)
    if latent is None:
        yield _whole(elements, inputs.residual_bytes)
        if kind.attention.qk_norm != "none":
            yield _whole(1.0 * shard.tokens * shard.query, HALF_BYTES)
            yield _whole(1.0 * shard.tokens * shard.key, HALF_BYTES)
        return
    kept = repeated.expansion == 0
    for width, beside in ((latent.query_rank or 0, 0), (latent.kv_rank, latent.rope_head_dim)):
        yield _whole(1.0 * shard.residual_tokens * (width + beside), HALF_BYTES)
        yield _some(1.0 * shard.residual_tokens * width, inputs.recipe.saved_bytes, copied=kept, freed=kept)


def _of_experts(plan: Layout, inputs: Inputs, kind: LayerKind) -> Iterator[Tensor]:
    """Of routed experts: their rows, what enters their activation, and what leaves it."""
    named = inputs.runtime.activations.offloaded_modules
    if not kind.is_moe:
        return
    block, shard = routed_experts(kind), expert_shard(plan, inputs, kind)
    rows, _ = expert_rooms(plan, inputs, kind, shard)
    kept, inner, whole = repeated_parts(plan, kind).activation == 0, rows * shard.ffn, "fused_group_mlp" in named
    if whole or "expert_fc1" in named:
        elements, read = 1.0 * rows * inputs.model.hidden_size, read_bytes(inputs)
        # Transformer Engine keeps the rows as they came, not quantised, where its experts are not fused.
        wide = read if whole or inputs.recipe.marks_expert_rows else HALF_BYTES
        yield Tensor(elements, read * elements, wide * elements)
    if whole or "moe_act" in named:
        branches = 2 if block.gated else 1
        yield _whole(branches * inner, entering_bytes(inputs, block) / branches)
        beside = expert_activation_bytes(inputs, kind) + product_bytes(inputs, block.gated) - read_bytes(inputs)
        yield _some(inner, beside, copied=kept, freed=kept)
    if whole:
        yield _some(inner, read_bytes(inputs), copied=kept, freed=kept)

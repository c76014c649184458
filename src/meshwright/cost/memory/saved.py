"""Saved tensors: what the parts of one layer keep from forward to backward, for one micro-batch."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Floats, where
from meshwright.cost.compute.experts import expert_shard
from meshwright.cost.memory.adapters import kept_by_adapters
from meshwright.cost.memory.graph_pool import expert_rooms
from meshwright.cost.routing import routed_experts
from meshwright.cost.shard import Shard, compressed_width, dense_block
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Experts, LayerKind, Mlp
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES

ROUTER_BYTES = 2 * FP32_BYTES + 1
"""Per token and expert: logits and scores in fp32, and the map of who goes where."""
INDEX_BYTES = 8
OFFSET_BYTES = 4
CHOICE_BYTES = FP32_BYTES + INDEX_BYTES
"""Per token and chosen expert: its weight and its index."""


class Saved(NamedTuple):
    """Bytes of one layer, by part; each scalar or array (n,)."""

    norms: Floats
    """Inputs and outputs of the layer's norms."""
    attention: Floats
    """Projections of latent attention, queries, keys, values and the core's output."""
    core: Floats
    """What only the attention core keeps."""
    feed_forward: Floats
    """Of the dense or shared block."""
    experts: Floats


def attention_bytes(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Queries, keys, values and the core's output, also as the next product reads it, and in latent attention the
    compressed widths around their norms. A frozen product keeps nothing, but an adapter beside it does.

    plan: scalar or array (n,); shard: sizes on the rank. Returns bytes. Source: `layer_memory`; Megatron-LM,
    multi_latent_attention.py.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> shard = layer_shard(Plan(), LLAMA, kind)
    >>> float(attention_bytes(Plan(), LLAMA, kind, shard)) / (8192 * 4096)  # 2 (q + k + v + output): 1 + 1/4 + 1/4 + 1
    5.0
    """
    recipe, latent = inputs.recipe, kind.attention.latent
    width = shard.core + (0 if kind.attention.qk_norm == "none" else shard.query + shard.key)
    saved = HALF_BYTES * shard.tokens * width + expanded_bytes(inputs, kind, shard)
    if inputs.freezes_weights:
        saved = saved + kept_by_adapters(plan, inputs, kind, shard, "core")
    elif recipe.quantises:
        saved = saved + recipe.saved_bytes * shard.tokens * shard.core
    if latent is None:
        return saved
    return saved + HALF_BYTES * shard.residual_tokens * (compressed_width(kind) + latent.rope_head_dim)


def expanded_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Queries, keys and values, and of latent attention the normed compressed widths that they come from.

    2 T (q + k + v) + e T' (r_q + r_kv), e the recipe's bytes an element, T' the tokens of norms.
    shard: sizes on the rank. Returns bytes. Source: `layer_memory`; DeepSeek-V2, arXiv:2405.04434, section 2.1.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> shard = layer_shard(Plan(), LLAMA, kind)
    >>> float(expanded_bytes(LLAMA, kind, shard)) / (8192 * 4096)  # 2 (q + k + v): 1 + 1/4 + 1/4
    3.0
    """
    heads = 1.0 * HALF_BYTES * shard.tokens * (shard.query + shard.attended)
    return heads + inputs.recipe.saved_bytes * compressed_width(kind) * shard.residual_tokens


def output_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """The attention core's output in 2 bytes where only the core keeps it: the next product keeps its own operand, or
    none where its weight is frozen, unless an adapter reads that too.

    2 T a d_v / t in a recipe that quantises or beside frozen weights, else 0. shard: sizes on the rank. Returns bytes.
    Source: `layer_memory`.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> shard = layer_shard(Plan(), LLAMA, kind)
    >>> float(output_bytes(LLAMA, kind, shard))  # in bf16 the next product keeps it
    0.0
    """
    alone = not inputs.adapted(kind, "core") if inputs.freezes_weights else inputs.recipe.quantises
    return 1.0 * HALF_BYTES * alone * shard.tokens * shard.core


def core_bytes(inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """What only the attention core keeps: 4 bytes of log-sum-exp per head, or the scores.

    4 T a / t with fused attention; else T s a / t times the runtime's bytes a score (softmax, its mask and output, and
    of scores that are capped the tanh). shard: sizes on the rank. Returns bytes. Source: Korthikanti et al.,
    arXiv:2205.05198, section 4.1 (5 a s^2 b).

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> shard = layer_shard(Plan(), LLAMA, kind)
    >>> float(core_bytes(LLAMA, kind, shard)) / 8192  # 32 heads
    128.0
    """
    if inputs.attention_generation != "eager":
        return 1.0 * FP32_BYTES * shard.tokens * shard.heads
    activations, capped = inputs.runtime.activations, kind.attention.softcap
    return attention_scores(inputs, shard) * (activations.score_bytes + capped * activations.capped_score_bytes)


def attention_scores(inputs: Inputs, shard: Shard) -> Floats:
    """Scores of one layer and micro-batch where attention writes them to memory: T s a / t; else 0.

    shard: sizes on the rank. Returns a count. Source: by definition.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> attention_scores(LLAMA, layer_shard(Plan(), LLAMA, LLAMA.model.layer_kinds[0]))  # fused attention
    0.0
    """
    if inputs.attention_generation != "eager":
        return 0.0
    return 1.0 * shard.tokens * shard.heads * inputs.job.sequence_length


def feed_forward_bytes(plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Gate and up, and the product that is the down layer's input, of the dense or shared block; a frozen down layer
    keeps no input, but an adapter beside it does.

    plan: scalar or array (n,); shard: sizes on the rank. Returns bytes. Source: `layer_memory`.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind = LLAMA.model.layer_kinds[0]
    >>> shard = layer_shard(Plan(), LLAMA, kind)
    >>> float(feed_forward_bytes(Plan(), LLAMA, kind, shard)) / (8192 * 14336)  # gate, up and product
    6.0
    """
    block = dense_block(kind)
    if block is None:
        return 0.0 * shard.tokens
    bytes_per_element: float = _inner_bytes(inputs, block)
    if block.activation == "gelu_new" and not block.gated:
        bytes_per_element += inputs.runtime.elementwise_bytes.written_gelu_kept * inputs.residual_bytes / HALF_BYTES
    saved = 1.0 * shard.tokens * shard.ffn * bytes_per_element
    return saved + (kept_by_adapters(plan, inputs, kind, shard, "product") if inputs.freezes_weights else 0.0)


def expert_bytes(plan: Layout, inputs: Inputs, kind: LayerKind) -> Floats:
    """The router's scores and choices, and of every routed row its input, gate and up, and product; of frozen experts
    gate and up.

    plan: scalar or array (n,). Returns bytes; 0 for a dense layer. Source: Megatron-LM, core/transformer/moe,
    router.py and experts.py (the chosen experts' weights are applied inside the activation: no output is kept).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> kind = MIXTRAL.model.layer_kinds[0]
    >>> bytes_of_row = float(expert_bytes(Plan(dp=8, ep=8), MIXTRAL, kind)) / 8192
    >>> bytes_of_row > 2 * (4096 + 3 * 14336)  # input, gate, up and product
    True
    """
    if not kind.is_moe:
        return 0.0 * plan.tp
    block, shard, hidden = routed_experts(kind), expert_shard(plan, inputs, kind), inputs.model.hidden_size
    inner = _inner_bytes(inputs, block) + expert_activation_bytes(inputs, kind)
    row = read_bytes(inputs) * hidden + inner * shard.ffn
    if inputs.runtime.activations.weighed_output_bytes:
        return weighing_bytes(plan, inputs, kind) + shard.rows * row
    router = shard.tokens * (ROUTER_BYTES * block.count + CHOICE_BYTES * block.active)
    rows, _ = expert_rooms(plan, inputs, kind, shard)
    return router + rows * row


def weighing_bytes(plan: Layout, inputs: Inputs, kind: LayerKind) -> Floats:
    """What routing keeps where scores weigh the experts' outputs.

    Of every token its scores and their sum in fp32; of every choice its index and score, its place among the sorted
    ones, the token that it comes from, its sorted score and the experts' output; and where the rows of each expert end.
    In fp32 the router's weight as well, and with ep of every row that has arrived its place among the experts; in 2
    bytes of every choice the place that it goes back to.
    plan: scalar or array (n,). Returns bytes. Source: torchtitan 0.3.0, models/common/moe.py L200-330 and
    token_dispatcher.py L84-190, L478-560; transformers 5.23, integrations/moe.py (grouped_mm_experts_forward) and
    models/qwen3_moe/modeling_qwen3_moe.py (Qwen3MoeTopKRouter); counted with PyTorch 2.13 on fake tensors.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> kind = MIXTRAL.model.layer_kinds[0]
    >>> float(weighing_bytes(Plan(dp=8, ep=8), MIXTRAL, kind)) < 4096 * 2 * 4096  # Megatron keeps no outputs
    True
    """
    block, shard, hidden = routed_experts(kind), expert_shard(plan, inputs, kind), inputs.model.hidden_size
    choices, width = shard.tokens * block.active, inputs.runtime.activations.weighed_output_bytes
    in_fp32 = width == FP32_BYTES
    router = FP32_BYTES * (in_fp32 * block.count * hidden + shard.tokens * (block.count + 1))
    sorting = ((3 if in_fp32 else 4) * INDEX_BYTES + FP32_BYTES + width) * choices
    placing = where(plan.ep > 1, INDEX_BYTES * shard.rows, 0.0) + OFFSET_BYTES * shard.experts
    return router + sorting + placing + width * hidden * choices


def product_bytes(inputs: Inputs, gated: bool) -> float:
    """Bytes per element of the FFN of what the activation leaves: the product, and what an unfused one keeps beside.

    gated: whether it is the product of two. Returns bytes. Source: `layer_memory`.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> product_bytes(LLAMA, gated=True)
    2.0
    """
    unfused = gated and not inputs.runtime.activations.fused_activation
    kernels = inputs.runtime.elementwise_bytes
    gelu = gated and inputs.model.gates_with_gelu
    kept = HALF_BYTES + kernels.gated_activation_kept if unfused else kernels.gated_gelu_kept * gelu
    return kept + read_bytes(inputs)


def read_bytes(inputs: Inputs) -> float:
    """Bytes per element of the input that a product keeps: none where its weight is frozen.

    Returns bytes. Source: `layer_memory`.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> float(read_bytes(LLAMA))
    2.0
    """
    return 0.0 if inputs.freezes_weights else inputs.recipe.saved_bytes


def expert_activation_bytes(inputs: Inputs, kind: LayerKind) -> float:
    """Bytes per element of the FFN that experts keep more where kernels of their own clamp gate and up, or weigh what
    the activation leaves.

    Returns bytes. Source: `clamped_activation_kept` and `weighed_activation_kept` of the runtime's element-wise
    kernels.

    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> expert_activation_bytes(MIXTRAL, MIXTRAL.model.layer_kinds[0])
    0.0
    """
    block, fused = kind.feed_forward, inputs.runtime.kernels.expert_products == "fused"
    if not isinstance(block, Experts) or not block.gated or fused:
        return 0.0
    kept = inputs.runtime.elementwise_bytes
    return kept.weighed_activation_kept + kept.clamped_activation_kept * block.clamped


def entering_bytes(inputs: Inputs, experts: Mlp | Experts) -> float:
    """Bytes per element of the FFN of what enters the activation: gate and up, or up alone.

    experts: or a dense block. Returns bytes. Source: `layer_memory`.

    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> float(entering_bytes(MIXTRAL, MIXTRAL.model.layer_kinds[0].feed_forward))
    4.0
    """
    return inputs.runtime.elementwise_bytes.kept_input_bytes(experts) * (2 if experts.gated else 1)


def _inner_bytes(inputs: Inputs, block: Mlp | Experts) -> float:
    """Per element of the FFN: gate and up, and what the activation leaves."""
    return entering_bytes(inputs, block) + product_bytes(inputs, block.gated)

"""Shard: the sizes that one rank works on, after tensor, sequence and context parallelism."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Floats, Ints, smaller, where
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind, Mlp


class Shard(NamedTuple):
    """Sizes of one layer on one rank, for one micro-batch."""

    tokens: Ints
    """Tokens between the tensor-parallel regions' entry and exit."""
    residual_tokens: Floats
    """Tokens that norms and residuals see: divided by tp with sequence parallelism."""
    heads: Ints
    query: Ints
    """Width of the queries, elements per token."""
    key: Ints
    value: Ints
    attended: Ints
    """Width of keys and values together as attention reads them: once for every head where the runtime repeats them."""
    core: Ints
    """Width of the attention core's output, elements per token."""
    ffn: Ints
    qkv: Floats
    """Width of the fused query, key and value projection, elements per token."""


class VocabularyRows(NamedTuple):
    """Rows of the vocabulary on one rank; counts."""

    embedding: Ints
    head: Ints
    logits: Ints
    """For which the loss has logits."""


def tokens(plan: Layout, inputs: Inputs) -> Ints:
    """Tokens of one micro-batch on one rank: b s / c.

    plan: scalar or array (n,). Returns a count. Source: by definition.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> int(tokens(Plan(cp=4, micro_batch=2), LLAMA))
    4096
    """
    return plan.micro_batch * inputs.job.sequence_length // plan.cp


def residual_tokens(plan: Layout, inputs: Inputs) -> Floats:
    """Tokens of one micro-batch outside of the tensor-parallel regions: b s / (c t) with sequence parallelism.

    plan: scalar or array (n,). Returns a count. Source: Korthikanti et al., arXiv:2205.05198, section 4.2.2.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> [float(residual_tokens(Plan(tp=8, sp=sp), LLAMA)) for sp in (False, True)]
    [8192.0, 1024.0]
    """
    return tokens(plan, inputs) / where(plan.sp, plan.tp, 1)


def routed_tokens(plan: Layout, inputs: Inputs) -> Floats:
    """Tokens of one micro-batch that one rank sends to experts.

    T of `residual_tokens`, or all b s / c of `tokens` where a fused dispatcher takes whole sequences from every
    tensor-parallel rank.

    plan: scalar or array (n,). Returns a count. Source: Megatron-LM, core/transformer/moe/token_dispatcher.py;
    torchtitan 0.2.2 models/moe/moe_deepep.py.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> float(routed_tokens(Plan(tp=2, sp=True, dp=4, ep=8), MIXTRAL))
    2048.0
    """
    whole = inputs.dispatcher == "fused" and inputs.runtime.communication.fused_whole_sequences
    return 1.0 * tokens(plan, inputs) if whole else residual_tokens(plan, inputs)


def layer_shard(plan: Layout, inputs: Inputs, kind: LayerKind) -> Shard:
    """Sizes of one layer of a kind on one rank.

    Query heads and the FFN are divided by t; key and value heads by min(t, their number): beyond it several ranks work
    on one of them. The fused projection is always divided by t; where t exceeds the key and value heads its output is
    gathered again. plan: scalar or array (n,). Returns elements and tokens. Source: Megatron-core,
    transformer/attention.py.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> shard = layer_shard(Plan(tp=4, sp=True), LLAMA, LLAMA.model.layer_kinds[0])
    >>> [int(size) for size in (shard.tokens, shard.residual_tokens, shard.heads, shard.key, shard.ffn, shard.qkv)]
    [8192, 2048, 8, 256, 3584, 1536]
    """
    attention, block = kind.attention, dense_block(kind)
    kv_heads = attention.kv_heads // smaller(plan.tp, attention.kv_heads)
    heads = attention.heads // plan.tp
    attended = heads if inputs.runtime.kernels.repeats_keys else kv_heads
    return Shard(
        tokens=tokens(plan, inputs),
        residual_tokens=residual_tokens(plan, inputs),
        heads=heads,
        query=heads * attention.head_dim,
        key=kv_heads * attention.head_dim,
        value=kv_heads * attention.value_head_dim,
        attended=attended * (attention.head_dim + attention.value_head_dim),
        core=heads * attention.value_head_dim,
        ffn=(block.ffn_size if block else 0) // plan.tp,
        qkv=qkv_width(kind) / plan.tp,
    )


def qkv_width(kind: LayerKind) -> int:
    """Width of the whole fused query, key and value projection, elements per token.

    Returns elements. Source: by definition.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> qkv_width(LLAMA.model.layer_kinds[0])
    6144
    """
    attention = kind.attention
    return attention.heads * attention.head_dim + attention.kv_heads * (attention.head_dim + attention.value_head_dim)


def vocabulary_shard(plan: Layout, inputs: Inputs) -> Ints:
    """Rows of the vocabulary on one rank: padded to a multiple of `vocabulary_multiple` * t, divided by t.

    Source: Megatron-LM, core/tokenizers/utils/build_tokenizer.py. plan: scalar or array (n,). Returns rows.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> [int(vocabulary_shard(Plan(tp=tp), LLAMA)) for tp in (1, 8)]
    [128256, 16128]
    """
    multiple = inputs.runtime.storage.vocabulary_multiple
    return -(-inputs.model.vocab_size // (multiple * plan.tp)) * multiple


def vocabulary_rows(plan: Layout, inputs: Inputs) -> VocabularyRows:
    """Rows of the vocabulary that one rank has at either end: its shard, or all that the runtime leaves whole or
    gathers.

    plan: scalar or array (n,). Returns rows. Source: `vocabulary_shard`; the runtime's `whole_untied_embedding`,
    `gathers_logits` and `whole_tied_ends`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> tuple(map(int, vocabulary_rows(Plan(tp=8), LLAMA)))
    (16128, 16128, 16128)
    """
    model, sharding = inputs.model, inputs.runtime.sharding
    shard, whole = vocabulary_shard(plan, inputs), model.vocab_size + 0 * plan.tp
    head = whole if sharding.keeps_ends_whole(model) else shard
    return VocabularyRows(
        embedding=whole if sharding.keeps_embedding_whole(model) else shard,
        head=head,
        logits=whole if sharding.joins_logits(model) else head,
    )


def compressed_width(kind: LayerKind) -> int:
    """Elements per token of the compressed queries, keys and values of latent attention, which norms follow; else 0.

    Returns elements. Source: DeepSeek-V2, arXiv:2405.04434, section 2.1.

    >>> from meshwright.specs.reading.model import read_model
    >>> (dense, _) = read_model("deepseek-v3").layer_kinds
    >>> compressed_width(dense)  # 1536 + 512
    2048
    """
    latent = kind.attention.latent
    return (latent.query_rank or 0) + latent.kv_rank if latent else 0


def dense_block(kind: LayerKind) -> Mlp | None:
    """The feed-forward block that every token passes through: the dense one, the shared experts as one, or none.

    Returns a block, sizes in elements. Source: by definition.

    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> dense_block(MIXTRAL.model.layer_kinds[0]) is None
    True
    """
    block = kind.feed_forward
    if isinstance(block, Mlp):
        return block
    if not block.shared_ffn_size:
        return None
    return Mlp(ffn_size=block.shared_ffn_size, gated=block.gated, activation=block.activation)

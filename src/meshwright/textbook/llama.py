"""Sizes of a Llama-architecture model, as the closed forms of the memory estimator take them."""

from __future__ import annotations

from meshwright.errors import NotModelled
from meshwright.specs.model import LayerKind, Mlp, Model


def llama_sizes(model: Model) -> dict[str, int]:
    """The model's sizes under the names of `estimate_4d_memory`.

    model: a Llama architecture: one kind of dense layer with two RMS norms, a gated FFN of three matrices, grouped
    queries whose heads fill the hidden size, untied embeddings, rotary positions and no biases. A sliding window
    changes no size and is let through. Returns elements, layers, heads and tokens. Scope: the whole model.
    Source: the assumptions of Fujii et al., arXiv:2411.06465, section 3.
    Raises `NotModelled` with everything that is different about another model.

    >>> from meshwright import read_model
    >>> llama_sizes(read_model("llama-2-7b"))["ffn_hidden_size"]
    11008
    """
    different = [*_of_model(model), *(fault for kind in model.layer_kinds for fault in _of_layer(model, kind))]
    (kind, *_), feed_forward = model.layer_kinds, model.layer_kinds[0].feed_forward
    if different or not isinstance(feed_forward, Mlp):
        raise NotModelled(
            f"the 4D memory estimator is for the Llama architecture; {model.name} ({model.family}) has "
            f"{', '.join(dict.fromkeys(different))}. Other models: meshwright explain"
        )
    return {
        "hidden_size": model.hidden_size,
        "ffn_hidden_size": feed_forward.ffn_size,
        "num_layers": model.num_layers,
        "num_attention_heads": kind.attention.heads,
        "num_key_value_heads": kind.attention.kv_heads,
        "vocab_size": model.vocab_size,
    }


def _of_model(model: Model) -> list[str]:
    alike = {(kind.attention.replace(window=None), kind.feed_forward) for kind in model.layer_kinds}
    return _true(
        {
            f"{len(alike)} kinds of layers": len(alike) > 1,
            "tied embeddings": model.tied_embeddings,
            "a bias on the head": model.head_bias,
            "capped logits": model.head_softcap,
            "layer norms instead of RMS norms": model.norm != "rms",
            "learned positions": model.learned_positions > 0,
        }
    )


def _of_layer(model: Model, kind: LayerKind) -> list[str]:
    attention, feed_forward, hidden = kind.attention, kind.feed_forward, model.hidden_size
    widths = {attention.heads * attention.head_dim, attention.heads * attention.value_head_dim}
    norms = f"{kind.norms} norms in a layer" + (" that runs in parallel" if kind.parallel_residual else "")
    return _true(
        {
            "a mixture of experts": not isinstance(feed_forward, Mlp),
            "an FFN of two matrices": isinstance(feed_forward, Mlp) and not feed_forward.gated,
            "biases": feed_forward.bias or attention.qkv_bias or attention.output_bias,
            "latent attention": attention.latent is not None,
            "attention sinks": attention.sinks,
            "capped attention scores": attention.softcap,
            "norms of queries and keys": attention.qk_norm != "none",
            f"heads of {attention.head_dim} that do not fill the hidden size {hidden}": widths != {hidden},
            norms: kind.norms != 2 or kind.parallel_residual,
        }
    )


def _true(differences: dict[str, bool]) -> list[str]:
    return [text for text, is_so in differences.items() if is_so]

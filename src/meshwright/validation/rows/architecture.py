"""Architecture: the model of a row, from the catalogue, a known family, or the sizes that the row prints."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.errors import InvalidInput, NotModelled
from meshwright.specs.model import MAX_LAYERS, Attention, Experts, LayerKind, Mlp, Model
from meshwright.specs.read_model import read_model
from meshwright.specs.weights import parameter_count
from meshwright.validation.rows.families import BIASED_GELU, CATALOGUED, FAMILIES, LAYER_NORM, SILU, Family
from meshwright.validation.rows.table import Row

LLAMA = Family("", SILU, {}, {}, "gated feed-forward blocks and RMS norms, as Llama")
LLAMA_TIED = Family("", SILU, {}, {"tied_embeddings": True}, f"{LLAMA.source}, head and embedding tied")
LLAMA_SHARED = Family("", SILU, {}, {}, f"{LLAMA.source}, and a shared expert", shared_expert=True)
GPT = Family("", BIASED_GELU, {}, {"norm": "layer"}, "plain feed-forward blocks and layer norms, as GPT")
GPT_TIED = Family("", BIASED_GELU, {}, LAYER_NORM, f"{GPT.source}, head and embedding tied", True)
PLAIN_WIDTH = 3.9
"""From this many hidden sizes on, an FFN is taken for a plain one where no parameters are printed."""


def model_of(row: Row) -> tuple[Model, tuple[str, ...]]:
    """The architecture of a row without blanks, and what of it was assumed; raises `InvalidInput` where the sizes make
    no model.

    Sizes are the row's, the rest is of the catalogue's model of that name or of a family; of a name that neither has,
    the structure is the one whose parameters come nearest to the printed ones.
    """
    for begins, name in CATALOGUED.items():
        if row["model"].startswith(begins) and _has_sizes(known := read_model(name), row):
            return known.replace(name=row["model"], layer_pattern=known.layer_pattern[: int(row["layers"])]), ()
    for family in FAMILIES:
        runs = family.runtime in row["runtime_detail"]
        if row["model"].startswith(family.begins) and runs and not row["moe_experts"]:
            return _built(row, family), ()
    return _nearest(row)


def _has_sizes(known: Model, row: Row) -> bool:
    """Whether the row is of that model, or of its first layers."""
    return known.hidden_size == int(row["hidden"]) and known.num_layers >= int(row["layers"])


def _nearest(row: Row) -> tuple[Model, tuple[str, ...]]:
    models = [(_built(row, family), family) for family in _candidates(row)]
    if row["params_b"]:
        printed = float(row["params_b"]) * 1e9
        models.sort(key=lambda each: abs(parameter_count(each[0]) - printed))
    model, family = models[0]
    return model, (f"what {row['model']} consists of is not printed: {family.source}",)


def _candidates(row: Row) -> Iterator[Family]:
    """The likeliest first."""
    plain = int(row["ffn_hidden"]) >= PLAIN_WIDTH * int(row["hidden"]) and row["kv_heads"] == row["heads"]
    gated = (LLAMA, LLAMA_TIED)
    if row["moe_experts"]:
        return iter((*gated, LLAMA_SHARED))
    return iter((GPT_TIED, GPT, *gated) if plain else (*gated, GPT, GPT_TIED))


def _built(row: Row, family: Family) -> Model:
    hidden, heads = int(row["hidden"]), int(row["heads"])
    if int(row["layers"]) > MAX_LAYERS:
        raise NotModelled(f"{row['layers']} layers; at most {MAX_LAYERS} are planned for")
    if hidden % heads and not row["head_dim"]:
        raise NotModelled(f"hidden {hidden} does not divide by heads {heads}, and no head_dim is printed")
    sizes = {"head_dim": int(row["head_dim"] or hidden // heads)} | family.attention
    try:
        attention = Attention(heads=heads, kv_heads=int(row["kv_heads"]), value_head_dim=sizes["head_dim"], **sizes)
        block = _experts(row, family) if row["moe_experts"] else Mlp(ffn_size=int(row["ffn_hidden"]), **family.mlp)
        return Model(
            name=row["model"],
            family="native",
            hidden_size=hidden,
            vocab_size=int(row["vocab"]),
            layer_kinds=(LayerKind(name="layer", attention=attention, feed_forward=block),),
            layer_pattern=(0,) * int(row["layers"]),
            learned_positions=int(row["seq_len"]) if family.learned_positions else 0,
            **family.model,
        )
    except InvalidInput:
        raise
    except ValueError as error:
        raise NotModelled(f"the sizes of {row['model']} make no model: {' '.join(str(error).split())}") from None


def _experts(row: Row, family: Family) -> Experts:
    """Gated experts in every layer, as wide as is printed."""
    width = int(row["moe_ffn"] or row["ffn_hidden"])
    return Experts(
        count=int(row["moe_experts"]),
        active=int(row["moe_topk"] or 1),
        ffn_size=width,
        shared_ffn_size=width * family.shared_expert,
    )

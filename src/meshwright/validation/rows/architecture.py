"""Architecture: the model of a row, from the catalogue, a named structure, or the sizes that the row prints."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from meshwright.errors import InvalidInput, NotModelled, UnknownName
from meshwright.specs import catalog
from meshwright.specs.base import Spec
from meshwright.specs.model import MAX_LAYERS, Attention, Experts, LayerKind, Mlp, Model
from meshwright.specs.reading.model import catalogued_model
from meshwright.specs.weights import parameter_count
from meshwright.validation.rows.settings import document
from meshwright.validation.rows.table import Row

PLAIN_WIDTH = 3.9
"""From this many hidden sizes on, an FFN is taken for a plain one where no parameters are printed."""


class Architecture(Spec):
    """What a model consists of, beyond the sizes that a row prints."""

    what: str
    feed_forward: dict[str, Any]
    attention: dict[str, Any] = {}
    model: dict[str, Any] = {}
    learned_positions: bool = False
    """It learns one embedding for each position of the sequence; else positions are rotary."""
    shared_expert: bool = False
    """Every token visits one expert more, as wide as the others."""
    source: str


@cache
def architectures() -> dict[str, Architecture]:
    """Every structure by its name."""
    return {name: Architecture(**entry) for name, entry in document("architectures").items()}


def model_of(row: Row) -> tuple[Model, tuple[str, ...]]:
    """The model of a row without blanks, and what of it was assumed; raises `InvalidInput` where the sizes make none.

    `architecture` names a structure, whose sizes are the row's, or a model of the catalogue, of which the first layers
    are taken. Where it is blank, `model` may name one of the catalogue; else the structure is the one whose parameters
    come nearest to the printed ones.
    """
    return _model_of(*(row[name] for name in COLUMNS_OF_MODEL))


COLUMNS_OF_MODEL = (
    *("architecture", "model", "params_b", "seq_len", "layers", "hidden", "vocab", "heads", "kv_heads", "head_dim"),
    *("ffn_hidden", "moe_experts", "moe_topk", "moe_ffn"),
)


@lru_cache(maxsize=4096)
def _model_of(*values: str) -> tuple[Model, tuple[str, ...]]:
    row = dict(zip(COLUMNS_OF_MODEL, values, strict=True))
    structure = architectures().get(row["architecture"])
    if structure:
        return _built(row, structure), ()
    known = catalogue_model(row)
    if known and not (differing := differences(row, known)):
        layers = known.layer_pattern[: int(row["layers"])]
        return known.replace(name=row["model"] or known.name, layer_pattern=layers), ()
    if known and row["architecture"]:
        raise NotModelled(f"the row differs from its architecture {row['architecture']}: {differing}")
    return _nearest(row, f"; it is not the catalogue's {known.name}: {differing}" if known else "")


def with_neighbouring_experts(model: Model) -> Model:
    """The model whose tokens each visit neighbouring experts, all of one group, as the gates of some benchmarks send
    them: token i to the top-k experts from i times top-k on. Raises `InvalidInput` where experts make no such groups.
    """
    return model.replace(layer_kinds=tuple(map(_neighbouring, model.layer_kinds)))


def _neighbouring(kind: LayerKind) -> LayerKind:
    block = kind.feed_forward
    if isinstance(block, Mlp):
        return kind
    return kind.replace(feed_forward=block.replace(groups=block.count // block.active, active_groups=1))


def catalogue_model(row: Row) -> Model | None:
    """The catalogue's model of the id or alias in `architecture` or else in `model`; None: there is none; raises
    `UnknownName` for an architecture that is neither a model nor a structure. A model of which the row has the first
    layers may end in their number: Llama-3.1-8B-L8.
    """
    found = catalog.find("models", row["architecture"] or row["model"].removesuffix(f"-L{row['layers']}"))
    if row["architecture"] and not found:
        raise UnknownName("architecture", row["architecture"], (*architectures(), *catalog.names("models")))
    return catalogued_model(found) if found else None


def sizes_of(model: Model) -> Row:
    """The columns that a model of the catalogue fills."""
    kind = model.layer_kinds[-1]
    attention, block = kind.attention, kind.feed_forward
    sizes = {"layers": model.num_layers, "hidden": model.hidden_size, "vocab": model.vocab_size}
    sizes |= {"heads": attention.heads, "kv_heads": attention.kv_heads}
    if isinstance(block, Experts):
        sizes |= {"moe_experts": block.count, "moe_topk": block.active, "moe_ffn": block.ffn_size}
    else:
        sizes["ffn_hidden"] = block.ffn_size
    return {column: str(size) for column, size in sizes.items()}


def differences(row: Row, model: Model) -> str:
    """The sizes that a row prints otherwise than a model has them; a row may have its first layers alone."""
    printed = [
        f"{column} is {size}, not {row[column]}"
        for column, size in sizes_of(model).items()
        if row[column] and (int(row[column]) > int(size) if column == "layers" else row[column] != size)
    ]
    return " and ".join(printed)


def _nearest(row: Row, why: str) -> tuple[Model, tuple[str, ...]]:
    """The structure whose parameters come nearest to the printed ones, or without these the likeliest."""
    names = ["llama", "llama-tied"]
    if row["moe_experts"]:
        names.append("llama-shared-expert")
    elif int(row["ffn_hidden"]) >= PLAIN_WIDTH * int(row["hidden"]) and row["kv_heads"] == row["heads"]:
        names = ["gpt", "gpt-untied", *names]
    else:
        names += ["gpt", "gpt-untied"]
    models = [(_built(row, structure), structure) for structure in map(architectures().__getitem__, names)]
    if row["params_b"]:
        printed = float(row["params_b"]) * 1e9
        models.sort(key=lambda each: abs(parameter_count(each[0]) - printed))
    model, structure = models[0]
    return model, (f"the structure of {row['model']} is not printed, assumed: {structure.what}{why}",)


def _built(row: Row, structure: Architecture) -> Model:
    hidden, heads = int(row["hidden"]), int(row["heads"])
    if int(row["layers"]) > MAX_LAYERS:
        raise NotModelled(f"{row['layers']} layers; at most {MAX_LAYERS} are planned for")
    if hidden % heads and not row["head_dim"]:
        raise NotModelled(f"hidden {hidden} is not divisible by heads {heads}, and no head_dim is printed")
    sizes = {"head_dim": hidden // heads} | structure.attention
    sizes |= {"head_dim": int(row["head_dim"])} if row["head_dim"] else {}
    try:
        attention = Attention(heads=heads, kv_heads=int(row["kv_heads"]), value_head_dim=sizes["head_dim"], **sizes)
        return Model(
            name=row["model"],
            family="native",
            hidden_size=hidden,
            vocab_size=int(row["vocab"]),
            layer_kinds=(LayerKind(name="layer", attention=attention, feed_forward=_feed_forward(row, structure)),),
            layer_pattern=(0,) * int(row["layers"]),
            learned_positions=int(row["seq_len"]) if structure.learned_positions else 0,
            **structure.model,
        )
    except InvalidInput:
        raise
    except ValueError as error:
        raise NotModelled(f"the sizes of {row['model']} make no model: {' '.join(str(error).split())}") from None


def _feed_forward(row: Row, structure: Architecture) -> Mlp | Experts:
    """The same in every layer; experts are as wide as is printed."""
    if not row["moe_experts"]:
        return Mlp(ffn_size=int(row["ffn_hidden"]), **structure.feed_forward)
    width = int(row["moe_ffn"] or row["ffn_hidden"])
    return Experts(
        count=int(row["moe_experts"]),
        active=int(row["moe_topk"] or 1),
        ffn_size=width,
        shared_ffn_size=width * structure.shared_expert,
        **structure.feed_forward,
    )

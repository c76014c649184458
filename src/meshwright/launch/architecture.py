"""Architecture: a model as flat fields that launch files can spell, and the model that such fields say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from meshwright.errors import Fault, InvalidInput, InvalidSpec, NotModelled
from meshwright.launch.forms import Fields
from meshwright.specs.base import Spec
from meshwright.specs.model import MAX_LAYERS, Attention, Experts, LatentAttention, LayerKind, Mlp, Model

_ENDS = ("tied_embeddings", "head_bias", "head_softcap", "norm", "learned_positions", "mtp_layers")
_WHOLE = ("hidden_size", "vocab_size", *_ENDS)
_LAYER = ("norms", "parallel_residual")
_SCORES = ("qkv_bias", "output_bias", "qk_norm", "sinks", "softcap")
_ATTENTION = ("heads", "kv_heads", "head_dim", "value_head_dim", *_SCORES)
_SHAPE = ("gated", "activation")
"""Of blocks, dense or of experts."""
_MIXTURE = {"expert_groups": "groups", "expert_bias": "bias"} | {
    name: name for name in ("active_groups", "router_bias", "shared_ffn_size", "shared_gate", "clamped")
}
"""Of experts, by the names of flat fields."""
_SIZES = {"experts": "count", "active_experts": "active", "expert_ffn_size": "ffn_size"}
"""The same, which a mixture must have."""


def _usual(part: type[Spec], names: Iterable[str]) -> Fields:
    return {f"model.{name}": part.model_fields[name].default for name in names}


NEUTRAL: Fields = {
    **_usual(Model, _ENDS),
    **_usual(LayerKind, _LAYER),
    **_usual(Attention, (*_SCORES, "scaled_rotary")),
    **_usual(Mlp, (*_SHAPE, "bias")),
    **{f"model.{name}": Experts.model_fields[field].default for name, field in _MIXTURE.items()},
    "model.window": 0,
    "model.windowed_layers": (),
    "model.latent": False,
    "model.experts": 0,
}
"""What a model is where nothing says otherwise."""


def model_fields(model: Model) -> Fields:
    """The model as flat fields, `model.hidden_size` and so on.

    Raises `NotModelled` for one whose layers differ by more than windows and experts: no launch file spells it.
    """
    kinds = model.layer_kinds
    attention = kinds[0].attention
    plain = {(kind.attention.replace(window=None), kind.norms, kind.parallel_residual) for kind in kinds}
    dense = {kind.feed_forward for kind in kinds if isinstance(kind.feed_forward, Mlp)}
    mixtures = {*model.mixtures}
    windows = {kind.attention.window for kind in kinds if kind.attention.window is not None}
    if any(len(each) > 1 for each in (plain, dense, mixtures, windows)):
        raise NotModelled(
            f"layers of {model.name} differ by more than a window and experts, for which launch files have no settings"
        )
    windowed = tuple(int(kinds[index].attention.window is not None) for index in model.layer_pattern)
    fields = _read(model, _WHOLE) | _read(kinds[0], _LAYER)
    fields |= {
        "model.layers": model.num_layers,
        "model.scaled_rotary": attention.scaled_rotary,
        "model.window": max(windows, default=0),
        "model.windowed_layers": windowed if 0 < sum(windowed) < len(windowed) else (),
        "model.experts": 0,
    }
    return fields | attention_fields(model) | _dense(*dense) | _mixture(model, *mixtures)


def attention_fields(model: Model) -> Fields:
    """Attention of the first layers as flat fields."""
    attention = model.layer_kinds[0].attention
    return _read(attention, _ATTENTION) | _latent(attention)


def _read(part: Spec, names: Iterable[str]) -> Fields:
    return {f"model.{name}": getattr(part, name) for name in names}


def _said(said: Fields, names: Iterable[str]) -> dict[str, Any]:
    """The inverse of `_read`."""
    return {name: said[f"model.{name}"] for name in names}


def model_of(fields: Fields, name: str) -> Model:
    """The model that fields say; raises `InvalidSpec` with every fault. name: what it is called."""
    said = NEUTRAL | {key: value for key, value in fields.items() if value is not None}
    needed = ["hidden_size", "vocab_size", "layers", "heads"]
    needed += ["active_experts", "expert_ffn_size"] if said["model.experts"] else []
    needed += ["kv_rank", "plain_head_dim", "rope_head_dim"] if said["model.latent"] else []
    if missing := [each for each in needed if f"model.{each}" not in said]:
        raise InvalidSpec("the model", [Fault(each, "is not in the file") for each in missing])
    if small := [each for each in needed if said[f"model.{each}"] < 1]:
        raise InvalidSpec(
            "the model", [Fault(each, f"is {said[f'model.{each}']}; it must be 1 or more") for each in small]
        )
    if said["model.layers"] > MAX_LAYERS:
        raise InvalidSpec(
            "the model", [Fault("layers", f"are {said['model.layers']}; at most {MAX_LAYERS} are planned for")]
        )
    marks, windows = _marks(said), _windowed(said)
    window = said["model.window"] or None
    if len(marks) != said["model.layers"] or len(windows) != said["model.layers"]:
        raise InvalidInput(f"{len(marks)} marks of layers with experts, but {said['model.layers']} layers")
    pairs = [(bool(mark), window if windowed else None) for mark, windowed in zip(marks, windows, strict=True)]
    kinds = list(dict.fromkeys(pairs))
    return Model(
        name=name,
        family="native",
        layer_kinds=tuple(_kind(said, *pair) for pair in kinds),
        layer_pattern=tuple(kinds.index(pair) for pair in pairs),
        **_said(said, _WHOLE),
    )


def _latent(attention: Attention) -> Fields:
    if not attention.latent:
        return {"model.latent": False}
    latent = attention.latent
    return {
        "model.latent": True,
        "model.query_rank": latent.query_rank,
        "model.kv_rank": latent.kv_rank,
        "model.rope_head_dim": latent.rope_head_dim,
        "model.plain_head_dim": attention.head_dim - latent.rope_head_dim,
    }


def _dense(block: Mlp | None = None) -> Fields:
    return {} if block is None else _read(block, ("ffn_size", "bias", *_SHAPE))


def _mixture(model: Model, experts: Experts | None = None) -> Fields:
    if experts is None:
        return {}
    marks = tuple(int(model.layer_kinds[index].is_moe) for index in model.layer_pattern)
    fields = {f"model.{name}": getattr(experts, field) for name, field in (_SIZES | _MIXTURE).items()}
    return fields | _read(experts, _SHAPE) | {"model.expert_layers": marks}


def _marks(said: Fields) -> tuple[int, ...]:
    """Which layers have experts: all of a model that has any, or those that its marks or their distance say."""
    marks = said.get("model.expert_layers")
    layers: int = said["model.layers"]
    if not said["model.experts"]:
        return (0,) * layers
    if isinstance(marks, int):
        return tuple(int(layer % marks == 0) for layer in range(layers))
    return tuple(marks) if marks else (1,) * layers


def _windowed(said: Fields) -> tuple[int, ...]:
    """Which layers have the window: all, those that are marked, or with a distance n all but every n-th (Megatron-core
    transformer_config.py, is_layer_window_attention).
    """
    layers, marks = said["model.layers"], said["model.windowed_layers"]
    if isinstance(marks, int):
        return tuple(int((layer + 1) % marks != 0) for layer in range(layers)) if marks else (1,) * layers
    return tuple(marks) or (1,) * layers


def _kind(said: Fields, moe: bool, window: int | None) -> LayerKind:
    return LayerKind(
        name=f"{'moe' if moe else 'dense'}{' window' if window else ''}",
        attention=_attention(said, window),
        feed_forward=_experts(said) if moe else _mlp(said),
        **_said(said, _LAYER),
    )


def _attention(said: Fields, window: int | None) -> Attention:
    heads, latent = said["model.heads"], None
    if said["model.latent"]:
        rope = said["model.rope_head_dim"]
        latent = LatentAttention(
            query_rank=said.get("model.query_rank"), kv_rank=said["model.kv_rank"], rope_head_dim=rope
        )
        head_dim: Any = said["model.plain_head_dim"] + rope
    else:
        head_dim = said.get("model.head_dim") or said["model.hidden_size"] // heads
    return Attention(
        heads=heads,
        kv_heads=heads if latent else said.get("model.kv_heads") or heads,
        head_dim=head_dim,
        value_head_dim=said.get("model.value_head_dim") or head_dim,
        window=window,
        latent=latent,
        **_said(said, (*_SCORES, "scaled_rotary")),
    )


def _mlp(said: Fields) -> Mlp:
    size = said.get("model.ffn_size") or 4 * said["model.hidden_size"]
    return Mlp(ffn_size=size, **_said(said, ("bias", *_SHAPE)))


def _experts(said: Fields) -> Experts:
    mixture = {field: said[f"model.{name}"] for name, field in (_SIZES | _MIXTURE).items()}
    return Experts(**mixture, **_said(said, _SHAPE))


def same_architecture(one: Model, other: Model, sequence: int) -> bool:
    """Whether two models run sequences of so many tokens alike, whatever they and their kinds of layers are called;
    multi-token prediction is the job's.
    """
    return _unnamed(one.over(sequence)) == _unnamed(other.over(sequence))


def _unnamed(model: Model) -> Model:
    loose = {"name": "", "family": "", "assumptions": (), "config_values": {}, "mtp_layers": 0}
    kinds = [kind.replace(name="") for kind in model.layer_kinds]
    distinct = tuple(dict.fromkeys(kinds[index] for index in model.layer_pattern))
    pattern = tuple(distinct.index(kinds[index]) for index in model.layer_pattern)
    return model.replace(**loose, layer_kinds=distinct, layer_pattern=pattern)

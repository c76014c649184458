"""Architecture: a model as flat fields that launch files can spell, and the model that such fields say."""

from __future__ import annotations

from typing import Any

from meshwright.errors import Fault, InvalidInput, InvalidSpec, NotModelled
from meshwright.launch.forms import Fields
from meshwright.specs.model import MAX_LAYERS, Attention, Experts, LatentAttention, LayerKind, Mlp, Model

NEUTRAL: Fields = {
    "model.tied_embeddings": False,
    "model.head_bias": False,
    "model.head_softcap": False,
    "model.norm": "rms",
    "model.learned_positions": 0,
    "model.norms": 2,
    "model.parallel_residual": False,
    "model.qkv_bias": False,
    "model.output_bias": False,
    "model.qk_norm": "none",
    "model.sinks": False,
    "model.softcap": False,
    "model.scaled_rotary": False,
    "model.window": 0,
    "model.windowed_layers": (),
    "model.latent": False,
    "model.gated": True,
    "model.activation": "silu",
    "model.bias": False,
    "model.experts": 0,
    "model.mtp_layers": 0,
}
"""What a model is where nothing says otherwise."""
NEUTRAL_EXPERTS: Fields = {
    "model.expert_groups": 1,
    "model.active_groups": 1,
    "model.router_bias": False,
    "model.shared_ffn_size": 0,
    "model.shared_gate": False,
    "model.clamped": False,
    "model.expert_bias": False,
}
_SCORES = ("qkv_bias", "output_bias", "qk_norm", "sinks", "softcap")
_ATTENTION = ("heads", "kv_heads", "head_dim", "value_head_dim", *_SCORES)
_ENDS = ("tied_embeddings", "head_bias", "head_softcap", "norm", "learned_positions", "mtp_layers")
_WHOLE = ("hidden_size", "vocab_size", *_ENDS)


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
    fields: Fields = {f"model.{name}": getattr(model, name) for name in _WHOLE}
    fields |= {
        "model.layers": model.num_layers,
        "model.norms": kinds[0].norms,
        "model.parallel_residual": kinds[0].parallel_residual,
        "model.scaled_rotary": attention.scaled_rotary,
        "model.window": max(windows, default=0),
        "model.windowed_layers": windowed if 0 < sum(windowed) < len(windowed) else (),
        "model.experts": 0,
    }
    return fields | attention_fields(model) | _dense(*dense) | _mixture(model, *mixtures)


def attention_fields(model: Model) -> Fields:
    """Attention of the first layers as flat fields."""
    attention = model.layer_kinds[0].attention
    return {f"model.{name}": getattr(attention, name) for name in _ATTENTION} | _latent(attention)


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
        **{each: said[f"model.{each}"] for each in _WHOLE},
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
    if block is None:
        return {}
    names = ("ffn_size", "gated", "bias", "activation")
    return {f"model.{name}": getattr(block, name) for name in names}


def _mixture(model: Model, experts: Experts | None = None) -> Fields:
    if experts is None:
        return {}
    marks = tuple(int(model.layer_kinds[index].is_moe) for index in model.layer_pattern)
    names = ("router_bias", "shared_ffn_size", "shared_gate", "clamped", "active_groups")
    return {
        **{f"model.{name}": getattr(experts, name) for name in names},
        "model.experts": experts.count,
        "model.active_experts": experts.active,
        "model.expert_groups": experts.groups,
        "model.expert_ffn_size": experts.ffn_size,
        "model.expert_bias": experts.bias,
        "model.gated": experts.gated,
        "model.activation": experts.activation,
        "model.expert_layers": marks,
    }


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
        norms=said["model.norms"],
        parallel_residual=said["model.parallel_residual"],
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
        **{name: said[f"model.{name}"] for name in (*_SCORES, "scaled_rotary")},
    )


def _mlp(said: Fields) -> Mlp:
    size = said.get("model.ffn_size") or 4 * said["model.hidden_size"]
    return Mlp(ffn_size=size, **{name: said[f"model.{name}"] for name in ("gated", "bias", "activation")})


def _experts(said: Fields) -> Experts:
    said = NEUTRAL_EXPERTS | said
    return Experts(
        count=said["model.experts"],
        active=said["model.active_experts"],
        groups=said["model.expert_groups"],
        ffn_size=said["model.expert_ffn_size"],
        bias=said["model.expert_bias"],
        **{name: said[f"model.{name}"] for name in ("gated", "activation", "router_bias", "shared_ffn_size")},
        **{name: said[f"model.{name}"] for name in ("shared_gate", "clamped", "active_groups")},
    )


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

"""What is not modelled, and how a config.json shows it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from meshwright.errors import LONGEST, NotModelled, UnknownName, quoted
from meshwright.specs.reading.huggingface.families import FAMILIES, family

_LINEAR = "linear attention layers"
_MAMBA = "Mamba layers"
_SPARSE = "sparse attention that an indexer selects"
_MIXED_HEADS = "heads of their own in full or sliding layers"
_FEATURES = {
    "linear_attn": _LINEAR,
    "linear_attn_config": _LINEAR,
    "linear_num_key_heads": _LINEAR,
    "use_mamba": _MAMBA,
    "mamba_num_heads": _MAMBA,
    "mamba_d_state": _MAMBA,
    "ssm_state_size": _MAMBA,
    "index_topk": _SPARSE,
    "sparse_attention_config": "block-sparse attention",
    "compress_ratios": "compressed attention",
    "hc_mult": "hyper-connections between layers",
    "attn_output_gate": "gates on the attention output",
    "mla_use_output_gate": "gates on the attention output",
    "attention_k_eq_v": "keys that serve as values",
    "global_head_dim": _MIXED_HEADS,
    "swa_num_key_value_heads": _MIXED_HEADS,
    "num_kv_shared_layers": "keys and values shared between layers",
    "hidden_size_per_layer_input": "embeddings for each layer",
    "enable_moe_block": "experts beside a dense block in one layer",
    "moe_latent_size": "experts of a hidden size of their own",
    "routed_expert_hidden_size": "experts of a hidden size of their own",
    "attn_res_block_size": "residuals that attend to earlier layers",
    "block_configs": "layers that each have a shape of their own",
    "is_encoder_decoder": "an encoder",
}
"""Keys that no family reads and that change the layers when they are set."""

_SHARED_EXPERTS = (
    *("num_shared_experts", "n_shared_experts", "shared_expert_intermediate_size", "moe_num_shared_experts"),
    "num_experts_shared",
)
"""Keys of shared experts by family: one that a family does not read names layers that it does not have."""

_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
"""Keys of experts by family: more than one in a family that reads none of them are layers that it does not have."""

_BY_TYPE = {
    "llama4_text": "chunked attention, with layers of no position between",
    "mimo": "layers that only the code in its own repository defines",
    "step3p7": "gates on the attention output, and more heads in sliding layers",
}
"""What a `model_type` brings with it and no key shows (transformers 5.23)."""

_ENCODERS = re.compile(r"\w*(ForMaskedLM|Bidirectional\w*|EncoderModel)")
"""Classes in `architectures` whose tokens attend to those after them too, whatever the family."""

_BY_NAME = {
    r"llama-?4": ("Llama 4", _BY_TYPE["llama4_text"]),
    r"llama-?3[.-]3-nemotron": ("Llama 3.3 Nemotron", _FEATURES["block_configs"]),
    r"nemotron-h": ("Nemotron-H", _MAMBA),
    r"nemotron-3": ("Nemotron 3", _MAMBA),
    r"qwen-?3\.5": ("Qwen3.5", _LINEAR),
    r"kimi-k3": ("Kimi K3", _LINEAR),
    r"deepseek-v3\.2": ("DeepSeek-V3.2", _SPARSE),
    r"deepseek-v4": ("DeepSeek-V4", _FEATURES["compress_ratios"]),
    r"glm-5(\.\d)?": ("GLM-5", _SPARSE),
    r"minimax-m3": ("MiniMax-M3", _FEATURES["sparse_attention_config"]),
    r"gemma-?4": ("Gemma 4", _FEATURES["attention_k_eq_v"]),
    r"mimo-v2": ("MiMo-V2", _FEATURES["swa_num_key_value_heads"]),
    r"mimo": ("MiMo", _BY_TYPE["mimo"]),
    r"step-?3\.7": ("Step 3.7", _BY_TYPE["step3p7"]),
}
"""Models that are not modelled, by the beginning of their names: what they are called, and what their config.json shows
(tests/data/hf_configs)."""

_ADVICE = "a decoder of plain attention, dense and expert layers can be written as a native TOML file"


def refuse_unread(subject: str, model_type: str, config: Mapping[str, Any]) -> None:
    """Raise `NotModelled` for anything in the config that is not modelled, `UnknownName` for an unread `model_type`."""
    features = features_of(model_type, config)
    if features:
        raise NotModelled(
            f"{subject}: {model_type} is not modelled: {'; '.join(features)}. Families that are read: {_families()}"
        )
    if model_type not in FAMILIES:
        error = UnknownName("model_type", model_type, FAMILIES)
        near = difflib.get_close_matches(model_type[:LONGEST].lower(), FAMILIES, cutoff=0.7)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        unknown = f"{subject}: unknown model_type {quoted(model_type)}{hint}"
        error.args = (f"{unknown}. Families that are read: {_families()}; {_ADVICE}",)
        raise error


def refuse_name(name: str) -> None:
    """Raise `NotModelled` for the name of a model whose config.json would be refused.

    name: as a user writes it, with or without its owner.
    """
    plain = name.strip().lower().replace("_", "-").replace(" ", "-").rpartition("/")[2]
    for beginning, (model, why) in _BY_NAME.items():
        if re.match(rf"((meta|nvidia)-)?{beginning}(?![\d.a-z])", plain):
            raise NotModelled(f"model {quoted(name)}: {model} is not modelled, nor is its config.json read: {why}")


def refuse_flat(subject: str, model_type: str) -> None:
    """Raise `NotModelled` for a multimodal model that is not read and keeps its language model's keys in the open."""
    raise NotModelled(f"{subject}: {model_type} is not read yet, not even its language model; read: {_families()}")


def refuse_wrapper(subject: str, model_type: str, inner_type: str, inner: Mapping[str, Any]) -> None:
    """Raise `NotModelled` for a multimodal model, saying whether its language model can be planned."""
    wrapper = f"{subject}: {model_type} wraps a language model with vision or audio towers, which are not modelled"
    features = features_of(inner_type, inner)
    if inner_type in FAMILIES and not features:
        raise NotModelled(
            f"{wrapper}; its language model ({inner_type}) is: plan it alone with --text-only (text_only=True)"
        )
    why = "; ".join(features) if features else f"{inner_type} is not one of the families that are read: {_families()}"
    raise NotModelled(f"{wrapper}; nor is its language model ({inner_type}): {why}")


def architectures_of(config: Mapping[str, Any]) -> list[str]:
    """The classes of transformers that a config names."""
    named = config.get("architectures")
    return [str(name) for name in named] if isinstance(named, list) else []


def features_of(model_type: str, config: Mapping[str, Any]) -> list[str]:
    """What a config shows that is not modelled, each with the keys that show it."""
    shown: dict[str, list[str]] = {}
    for key, feature in _FEATURES.items():
        if config.get(key):
            shown.setdefault(feature, []).append(key)
    encoders = [name for name in architectures_of(config) if _ENCODERS.fullmatch(name)]
    if encoders:
        shown[f"an encoder, {encoders[0]}"] = ["architectures"]
    types = config.get("layer_types")
    if isinstance(types, list):
        kinds = {str(kind) for kind in types} - {"full_attention", "sliding_attention"}
        for kind in sorted(kinds):
            feature = _LINEAR if kind == "linear_attention" else f"{kind} layers"
            shown.setdefault(feature, []).append("layer_types")
    if others := [key for key in _SHARED_EXPERTS if config.get(key) and key not in _read_by(model_type)]:
        shown["shared experts, which this family does not have"] = others
    if others := [key for key in _EXPERTS if _many(config.get(key)) and key not in _read_by(model_type)]:
        shown["experts, which this family does not have"] = others
    listed = [f"{feature} ({', '.join(keys)})" for feature, keys in shown.items()]
    return [_BY_TYPE[model_type], *listed] if model_type in _BY_TYPE else listed


def _many(value: object) -> bool:
    return isinstance(value, int | float) and value > 1


def _read_by(model_type: str) -> set[str]:
    """The keys that a family reads; of one that is not read, those of experts, about which nothing is known."""
    if model_type not in FAMILIES:
        return {*_SHARED_EXPERTS, *_EXPERTS}
    read = family(model_type)
    return {key for name in read.model_fields for key in read.keys_of(name)}


def _families() -> str:
    return ", ".join(FAMILIES)

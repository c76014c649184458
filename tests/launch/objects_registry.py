"""Models of torchtitan's registry in Meshwright's words. argv: a JSON file of names, `family flavour`; prints JSON."""

from __future__ import annotations

import importlib
from dataclasses import asdict
from typing import Any

from objects import print_answers, stand_in

ABSENT = ("tensorboard", "torch.utils.tensorboard", "datasets")


def read(name: str) -> dict[str, Any]:
    """The fields of one model, as its configuration has them, and the parameters of what that builds."""
    import torch

    family, flavour = name.split()
    config = importlib.import_module(f"torchtitan.models.{family}").model_registry(flavour).model
    with torch.device("meta"):
        parameters = sum(each.numel() for each in config.build().parameters())
    layers = [_layer(each) for each in config.layers]
    windows = [each.pop("window") for each in layers]
    fields = {key: value for layer in layers for key, value in layer.items()}
    assert all(fields | layer == fields for layer in layers), "layers differ"
    windowed = [int(bool(window)) for window in windows]
    return fields | {
        "parameters": parameters,
        "positions": config.max_seq_len,
        "rotary": asdict(config.layers[0].attention.rope),
        "hidden_size": config.dim,
        "vocab_size": config.vocab_size,
        "layers": len(layers),
        "tied_embeddings": config.enable_weight_tying,
        "head_bias": config.lm_head.bias,
        "window": max(window or 0 for window in windows),
        "windowed_layers": windowed if 0 < sum(windowed) < len(windowed) else [],
        "expert_layers": [int(each.moe is not None) for each in config.layers],
    }


def _layer(layer: Any) -> dict[str, Any]:
    attention = layer.attention
    fields = _latent(attention) if hasattr(attention, "kv_lora_rank") else _plain(attention)
    fields |= {"heads": attention.n_heads, "output_bias": attention.wo.bias}
    fields["window"] = getattr(attention, "sliding_window_size", None)
    fields["sinks"] = "sinks" in (attention.param_init or {})
    return fields | (_experts(layer.moe) if layer.moe else {"ffn_size": layer.feed_forward.w1.out_features})


def _plain(attention: Any) -> dict[str, Any]:
    products = attention.qkv_linear
    return {
        "kv_heads": attention.n_kv_heads,
        "head_dim": products.head_dim,
        "qkv_bias": (getattr(products, "wqkv", None) or products.wq).bias,
        "scaled_rotary": attention.rope.scaling == "yarn",
        "qk_norm": "head" if getattr(attention, "qk_norm", None) else "none",
    }


def _latent(attention: Any) -> dict[str, Any]:
    return {
        "query_rank": attention.q_lora_rank or None,
        "kv_rank": attention.kv_lora_rank,
        "plain_head_dim": attention.qk_nope_head_dim,
        "rope_head_dim": attention.qk_rope_head_dim,
        "value_head_dim": attention.v_head_dim,
    }


def _experts(mixture: Any) -> dict[str, Any]:
    router, shared = mixture.router, mixture.shared_experts
    inner = mixture.routed_experts.inner_experts
    return {
        "experts": mixture.num_experts,
        "active_experts": router.top_k,
        "expert_groups": router.num_expert_groups or 1,
        "active_groups": router.num_limited_groups or 1,
        "expert_ffn_size": inner.hidden_dim,
        "router_bias": router.gate.bias,
        "shared_ffn_size": shared.w1.out_features if shared else 0,
        "clamped": hasattr(inner, "swiglu_limit"),
        "expert_bias": any("bias" in name for name in inner.param_init or {}),
    }


if __name__ == "__main__":
    print_answers(read, lambda: stand_in(*ABSENT))

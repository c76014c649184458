"""Values of a config.json that change neither memory nor time, and that a launch or a question needs all the same."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

NORMS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon")
"""Keys of the epsilon of norms, by family."""
KEYS = (
    "rope_theta",
    "initializer_range",
    "scoring_func",
    "norm_topk_prob",
    "aux_loss_alpha",
    "seq_aux",
    "routed_scaling_factor",
    "topk_method",
    "router_aux_loss_coef",
    "max_position_embeddings",
)
"""Keys whose value is taken as it is, beside `norm_eps` and those of rotary positions."""
ROUTED = {key: {"scoring_func": "sigmoid", "topk_method": "noaux_tc"} for key in ("glm4_moe", "hy_v3")}
"""What the router of a family does without a key that says so (transformers 5.23, modeling_glm4_moe.py, of hy_v3)."""
ORIGINAL = "original_max_position_embeddings"
SCALED_FROM_ORIGINAL = ("llama3", "yarn", "longrope")
"""Kinds of rotary positions that rest on how many the model had before they were scaled."""
PARTIAL = "partial_rotary_factor"
TURNED = {"glm4_moe": (PARTIAL, 0.5), "gpt_neox": ("rotary_pct", 0.25), "phi3": (PARTIAL, 1.0)}
"""Families whose class can give positions to a part of each head alone: the key of the share, and its default."""


def config_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """The values, flat; those of rotary positions as `rope.factor` and so on.

    Positions are scaled from `original_max_position_embeddings`, of the file before that of its rotary object, else
    from all that the file has. `rope.partial_rotary_factor` is there where a part of each head has none. Source:
    transformers 5.23, modeling_rope_utils.py, standardize_rope_params.

    >>> config_values({"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}, "layers": [1]})
    {'rope_theta': 500000.0, 'rope.rope_type': 'llama3', 'rope.factor': 8.0}
    """
    rotary = config.get("rope_parameters") or config.get("rope_scaling")
    values = {key: config.get(key) for key in KEYS} | ROUTED.get(str(config.get("model_type")), {})
    if isinstance(rotary, Mapping):
        values["rope_theta"] = rotary.get("rope_theta", config.get("rope_theta"))
        values["rope.rope_type"] = rotary.get("rope_type", rotary.get("type"))
        values |= {f"rope.{key}": value for key, value in rotary.items() if key not in ("rope_theta", "type")}
        if values["rope.rope_type"] in SCALED_FROM_ORIGINAL:
            original = config.get(ORIGINAL) or rotary.get(ORIGINAL) or config.get("max_position_embeddings")
            values[f"rope.{ORIGINAL}"] = original
    values[f"rope.{PARTIAL}"] = _turned(config, rotary if isinstance(rotary, Mapping) else {})
    values["norm_eps"] = next((config[key] for key in NORMS if key in config), None)
    values["routed_scaling_factor"] = config.get("router_scaling_factor", config.get("routed_scaling_factor"))
    return {key: value for key, value in values.items() if _plain(value)}


def _turned(config: Mapping[str, Any], rotary: Mapping[str, Any]) -> Any:
    """The share of a head that has positions; None where all of it has.

    Source: transformers 5.23, configuration_glm4_moe.py, configuration_gpt_neox.py, configuration_phi3.py.
    """
    key, usual = TURNED.get(str(config.get("model_type")), (PARTIAL, None))
    share = None if usual is None else rotary.get(PARTIAL, config.get(key, usual))
    return None if share == 1 else share


def _plain(value: Any) -> bool:
    return isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))

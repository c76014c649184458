"""Scaled rotary positions: the factor that YaRN multiplies them by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def rotary_factor(parameters: Mapping[str, Any]) -> float:
    """The factor that multiplies cosines and sines of rotary positions; 1 without YaRN.

    a = 0.1 m ln(f) + 1 for a context f > 1 times as long; with m = `mscale` over the same with m = `mscale_all_dim`
    where the file has both. parameters: the object `rope_parameters` or `rope_scaling`. Returns a factor. Source:
    YaRN, arXiv:2309.00071, section 3.4; transformers 5.23, modeling_rope_utils.py, _compute_yarn_parameters.

    >>> round(rotary_factor({"rope_type": "yarn", "factor": 32.0}), 4)
    1.3466
    >>> rotary_factor({"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0})  # DeepSeek-V3
    1.0
    """
    if parameters.get("rope_type", parameters.get("type")) != "yarn":
        return 1.0
    if given := parameters.get("attention_factor"):
        return float(given)
    longer = float(parameters.get("factor") or 1.0)
    scale, scale_all = parameters.get("mscale"), parameters.get("mscale_all_dim")
    if scale and scale_all:
        return _factor(longer, float(scale)) / _factor(longer, float(scale_all))
    return _factor(longer, 1.0)


def _factor(longer: float, scale: float) -> float:
    return 0.1 * scale * math.log(longer) + 1.0 if longer > 1 else 1.0

"""Fusion: whether a recipe of Megatron-Bridge computes biases and activation in one kernel."""

from __future__ import annotations

import re

from meshwright.launch.imports.files.bridge_workloads import is_workload
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings

FIELD = "model.bias_activation_fusion"
_PERFORMANCE = "perf_recipes"
_FUSED = re.compile(r"llama|deepseek|moonlight|glm|gpt[-_]?oss|kimi|nemotron", re.IGNORECASE)
"""Models whose providers fuse it."""


def leaves_activation_unfused(read: LaunchSettings, known: Settings) -> bool:
    """Whether a recipe that does not say `bias_activation_fusion` is left without it: it is off in `GPTModelProvider`,
    and on in the providers of some models and in all recipes for performance.

    Source: NVIDIA-NeMo/Megatron-Bridge v0.2.0 to v0.6.0 and 067f987df03b, models/gpt_provider.py and the models'
    bridges, perf_recipes/qwen, scripts/performance/configs.
    """
    if FIELD in known or is_workload(read) or _PERFORMANCE in read.program:
        return False
    makers = [str(known.get("--name", "")), *(each.key for each in read.elsewhere)]
    return not any(_FUSED.search(each) or _PERFORMANCE in each for each in makers)

"""Fusion: kernels that a recipe of Megatron-Bridge leaves unfused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from meshwright.launch.imports.files.bridge_workloads import is_workload
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings

_PERFORMANCE = "perf_recipes"


class Fusion(NamedTuple):
    """A field of a model that fuses kernels, and is off in `GPTModelProvider`."""

    field: str
    without: str
    """The flag of Megatron-LM that turns it off there."""
    what: str
    on: re.Pattern[str]
    """Names of models whose providers turn it on."""
    refused: re.Pattern[str] | None = None
    """Names of models to which Megatron-core refuses it, so that they are priced without it unasked."""

    def is_settled(self, maker: str) -> bool:
        """Whether what makes a model, a recipe or a provider, leaves no question about it."""
        return bool(self.on.search(maker) or (self.refused and self.refused.search(maker)))


FUSIONS = (
    Fusion(
        field="model.bias_activation_fusion",
        without="--no-bias-swiglu-fusion",
        what="activations take longer and keep more",
        on=re.compile(r"llama|deepseek|moonlight|glm|gpt[-_]?oss|kimi|nemotron", re.IGNORECASE),
        refused=re.compile("gemma", re.IGNORECASE),
    ),
    Fusion(
        field="model.apply_rope_fusion",
        without="--no-rope-fusion",
        what="rotary positions take longer",
        on=re.compile(r"llama|nemotron", re.IGNORECASE),
    ),
)


def left_unfused(read: LaunchSettings, known: Settings) -> Iterator[Fusion]:
    """What a recipe leaves off that does not say it: nothing where it is one for performance, all of which fuse both.

    Source: NVIDIA-NeMo/Megatron-Bridge v0.2.0 to v0.6.0 and 067f987df03b, models/gpt_provider.py and the models'
    bridges; perf_recipes/_common.py and perf_recipes/qwen; scripts/performance/utils/overrides.py and configs.
    """
    if is_workload(read) or _PERFORMANCE in read.program:
        return
    makers = [str(known.get("--name", "")), *(each.key for each in read.elsewhere), *_provider(read)]
    if any(_PERFORMANCE in each for each in makers):
        return
    learned = known.get("model.position_embedding_type") == "learned_absolute"
    for each in FUSIONS:
        idle = learned and each.without == "--no-rope-fusion"
        if not idle and each.field not in known and not any(map(each.is_settled, makers)):
            yield each


def _provider(read: LaunchSettings) -> list[str]:
    """The class of a model whose sizes the file has itself, where it imports one alone."""
    imported = {name.rpartition(".")[2] for name in read.program.split() if name.endswith("ModelProvider")}
    return [*imported] if len(imported) == 1 else []

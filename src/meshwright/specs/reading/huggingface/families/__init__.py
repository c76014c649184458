"""The families that are read, by their `model_type`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meshwright.specs.reading.huggingface.decoder import Decoder

FAMILIES = {
    "deepseek_v2": "deepseek.DeepseekV2",
    "deepseek_v3": "deepseek.DeepseekV3",
    "falcon": "gpt.Falcon",
    "gemma2": "gemma.Gemma2",
    "gemma3_text": "gemma.Gemma3Text",
    "glm4_moe": "glm.Glm4Moe",
    "gpt2": "gpt.Gpt2",
    "gpt_neox": "gpt.GptNeoX",
    "gpt_oss": "mixture.GptOss",
    "hy_v3": "hunyuan.HyV3",
    "kimi_k2": "deepseek.DeepseekV3",
    "llama": "llama.Llama",
    "minimax_m2": "mixture.MiniMaxM2",
    "mistral": "llama.Mistral",
    "mixtral": "mixture.Mixtral",
    "phi3": "llama.Phi3",
    "qwen2": "qwen.Qwen2",
    "qwen2_moe": "qwen.Qwen2Moe",
    "qwen3": "qwen.Qwen3",
    "qwen3_moe": "qwen.Qwen3Moe",
    "qwen3_vl_moe_text": "qwen.Qwen3VlMoeText",
    "qwen3_vl_text": "qwen.Qwen3VlText",
}
"""The file of this folder and the class in it; a file is imported where a model of it is asked for."""

TEXT_OF_WRAPPER = {
    "gemma3": "gemma3_text",
    "kimi_k25": "deepseek_v3",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
}
"""The language model that a multimodal class builds when `text_config` names none."""


def family(model_type: str) -> type[Decoder]:
    """The class of a `model_type` of `FAMILIES`."""
    file, _, name = FAMILIES[model_type].partition(".")
    found: type[Decoder] = getattr(import_module(f"{__name__}.{file}"), name)
    return found

"""The families that are read, by their `model_type`."""

from __future__ import annotations

from meshwright.specs.huggingface.decoder import Decoder
from meshwright.specs.huggingface.families.deepseek import DeepseekV2, DeepseekV3
from meshwright.specs.huggingface.families.gemma import Gemma2, Gemma3Text
from meshwright.specs.huggingface.families.gpt import Falcon, Gpt2, GptNeoX
from meshwright.specs.huggingface.families.llama import Llama, Mistral, Phi3
from meshwright.specs.huggingface.families.mixture import GptOss, MiniMaxM2, Mixtral
from meshwright.specs.huggingface.families.qwen import Qwen2, Qwen2Moe, Qwen3, Qwen3Moe, Qwen3VlMoeText, Qwen3VlText

FAMILIES: dict[str, type[Decoder]] = {
    "deepseek_v2": DeepseekV2,
    "deepseek_v3": DeepseekV3,
    "falcon": Falcon,
    "gemma2": Gemma2,
    "gemma3_text": Gemma3Text,
    "gpt2": Gpt2,
    "gpt_neox": GptNeoX,
    "gpt_oss": GptOss,
    "kimi_k2": DeepseekV3,
    "llama": Llama,
    "minimax_m2": MiniMaxM2,
    "mistral": Mistral,
    "mixtral": Mixtral,
    "phi3": Phi3,
    "qwen2": Qwen2,
    "qwen2_moe": Qwen2Moe,
    "qwen3": Qwen3,
    "qwen3_moe": Qwen3Moe,
    "qwen3_vl_moe_text": Qwen3VlMoeText,
    "qwen3_vl_text": Qwen3VlText,
}

TEXT_OF_WRAPPER = {
    "gemma3": "gemma3_text",
    "kimi_k25": "deepseek_v3",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
}
"""The language model that a multimodal class builds when `text_config` names none."""

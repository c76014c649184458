"""Frameworks: what a row calls the software that ran it, and what stands for it; every table with its sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from meshwright.specs.runtime.operators import CrossEntropy


class StandIn(NamedTuple):
    """What a framework that the catalogue has not is priced as."""

    runtime: str
    changes: Mapping[str, Any] = {}
    """Behaviours that it has otherwise."""
    without: tuple[str, ...] = ()
    """Rules that it does not have."""
    told: str = ""
    memory: Mapping[str, Any] = {}
    """What the device holds beside live tensors, where that is otherwise."""


FRAMEWORKS = {
    "llm-foundry": "llm-foundry",
    "Megatron-Bridge": "megatron-bridge",
    "sail-sg zero-bubble": "zero-bubble",
}
"""Runtimes of the catalogue that a row names in words, beside the library that its column `runtime` gives."""

LIKE = {
    "galvatron": StandIn(
        "torchtitan",
        {
            "gradient_bytes": 2,
            "ends_apart": True,
            "ends_as_layers": (False,),
            "receives_ahead": False,
            "exchange_pools": False,
            "fused_activation": True,
            "keeps_unread_products": False,
            "regathers_inputs": True,
            "copies_batched_output": True,
            "cross_entropy": "half",
            "cross_entropies": {"half": CrossEntropy(alive_bytes=6, forward_bytes=8, backward_bytes=8)},
        },
        ("microbatches_fill_stages",),
        "with gradients reduced in bf16 and both ends as units of their own, fused activations, a bf16 cross-entropy, "
        "inputs gathered again and two cuBLAS workspaces (PKU-DAIR/Hetu-Galvatron@cea12ffb, galvatron/core/runtime)",
        {"workspace_bytes": 2 * 8_519_680},
    ),
    "paddle": StandIn("megatron-core"),
    "pytorch-eager": StandIn(
        "pytorch-ddp", {"attention_kernel": "newest"}, told="with the attention of a later PyTorch, cuDNN's"
    ),
}
"""Frameworks that the catalogue has not."""

FRAMEWORK_FAMILY = {
    **dict.fromkeys(
        ("megatron-core", "megatron-lm", "megatron-deepspeed", "internevo", "nanotron", "galvatron"), "Megatron"
    ),
    **dict.fromkeys(("pytorch-fsdp1", "torchtitan"), "FSDP"),
}
"""Frameworks, as the column `runtime` calls them, that work alike and are scored together; any other is `other`."""

RECIPES = {"fp8": "fp8-delayed", "fp8 (TE amp_fp8; MP Mode DEFAULT)": "fp8-delayed"}
"""Recipes that a row's precision details stand for, where `precision` is no recipe's name: fp8 without another word is
assumed to be Transformer Engine's delayed scaling (NeMo-Framework-Launcher, gpt3/175b_performance.yaml:
`fp8_amax_history_len: 1024`; for Composer assumed alike)."""

CUDNN_ON_BLACKWELL, CUDNN_EVERYWHERE = 1196, 1881
"""Pull requests of torchtitan from which on it prefers cuDNN's attention: on Blackwell 1196 itself; everywhere, as in
0.3.0 (models/common/attention.py L408-412), assumed from 1881 on, as the change itself was not found."""
EARLIER_TORCHTITAN = ("(2024)", "202412", "async TP benchmark", "Oct 2024", "TritonFusedRMSNorm", "POC")
"""Words of the sources of torchtitan's earlier runs."""

"""Offload modules: the parts of a layer whose saved inputs can wait in the host's memory."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

from meshwright.specs.choices import one_of

OFFLOAD_MODULES = (
    "attn_norm",
    "qkv_linear",
    "core_attn",
    "attn_proj",
    "mlp_norm",
    "expert_fc1",
    "moe_act",
    "fused_group_mlp",
)
"""Their names, as Megatron-core has them (transformer_config.py, `offload_modules`, @d98e8a64ddf3), in the order of a
forward pass; the one of linear attention (`gdp_qkv`) is not among them."""
OF_EXPERTS = frozenset({"expert_fc1", "moe_act", "fused_group_mlp"})
"""Those inside of a mixture, which only models with experts have."""


def in_order(modules: Any) -> Any:
    """The modules that a text names, with commas, plus signs or spaces between them, or that a list has, each once and
    in the order of a forward pass; names of none stand at the end.

    >>> in_order("moe_act+core_attn,moe_act")
    ('core_attn', 'moe_act')
    """
    if isinstance(modules, str):
        modules = [name for name in re.split(r"[\s,;+]+", modules) if name]
    if not isinstance(modules, list | tuple) or not all(isinstance(name, str) for name in modules):
        return modules
    place = {name: index for index, name in enumerate(OFFLOAD_MODULES)}
    return tuple(sorted(dict.fromkeys(modules), key=lambda name: place.get(name, len(place))))


OffloadModules: TypeAlias = Annotated[tuple[Annotated[str, one_of(OFFLOAD_MODULES)], ...], BeforeValidator(in_order)]
"""Some of them, as a runtime's field has them."""

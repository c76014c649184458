"""Recompute modules: the parts of a layer that selective recomputation can compute again."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from enum import STRICT, IntFlag
from functools import reduce

from meshwright.errors import InvalidInput, quoted


class RecomputeModules(IntFlag, boundary=STRICT):
    """A set of parts of a layer, as bits (Megatron-core, transformer_config.py, `recompute_modules`)."""

    CORE_ATTENTION = 1
    """The attention core (Korthikanti et al., arXiv:2205.05198)."""
    LAYER_NORM = 2
    """Norms that are kernels of their own: the feed-forward block's in layers of experts, the attention's where it is
    latent; elsewhere a norm is part of the product that it feeds."""
    EXPERT_ACTIVATION = 4
    """The activation of routed experts."""
    LATENT_UP_PROJECTION = 8
    """Queries, keys and values of latent attention, from their compressed widths."""
    MLP = 16
    """The whole feed-forward block of dense layers, with its norm."""
    EXPERTS = 32
    """The whole mixture: router, exchange, routed experts and the shared one."""
    SHARED_EXPERTS = 64
    """The shared expert."""


RECOMPUTE_MODULE_NAMES = {
    RecomputeModules.CORE_ATTENTION: "core_attn",
    RecomputeModules.LAYER_NORM: "layernorm",
    RecomputeModules.EXPERT_ACTIVATION: "moe_act",
    RecomputeModules.LATENT_UP_PROJECTION: "mla_up_proj",
    RecomputeModules.MLP: "mlp",
    RecomputeModules.EXPERTS: "moe",
    RecomputeModules.SHARED_EXPERTS: "shared_experts",
}
RECOMPUTE_MODULE_ALIASES = {
    "attention": RecomputeModules.CORE_ATTENTION,
    "core_attention": RecomputeModules.CORE_ATTENTION,
    "norm": RecomputeModules.LAYER_NORM,
    "moe_layer": RecomputeModules.EXPERTS,
    "shared_expert": RecomputeModules.SHARED_EXPERTS,
}
"""Other words for some of them, in recipes and in Megatron-core's own messages (transformer_config.py)."""
NO_MODULES = RecomputeModules(0)
_BY_NAME = {name: module for module, name in RECOMPUTE_MODULE_NAMES.items()} | RECOMPUTE_MODULE_ALIASES


def names_of(modules: RecomputeModules) -> list[str]:
    """The names of the modules in a set, as a plan file lists them.

    >>> names_of(RecomputeModules.LAYER_NORM | RecomputeModules.MLP)
    ['layernorm', 'mlp']
    """
    return [name for module, name in RECOMPUTE_MODULE_NAMES.items() if module in modules]


def modules_of(names: Iterable[str]) -> RecomputeModules:
    """The set of the modules with these names or aliases; raises `KeyError` for a name that no module has.

    >>> modules_of(["norm", "mlp"]) == RecomputeModules.LAYER_NORM | RecomputeModules.MLP
    True
    """
    return reduce(operator.or_, map(_BY_NAME.__getitem__, names), NO_MODULES)


def read_modules(text: str) -> RecomputeModules:
    """The set of the modules that a text names, with commas, plus signs or spaces between them.

    Raises `InvalidInput` for a name that no module has, and for none at all.

    >>> names_of(read_modules("Moe-Act + norm"))
    ['layernorm', 'moe_act']
    """
    names = [name.lower().replace("-", "_") for name in re.split(r"[\s,;+]+", text) if name]
    unknown = [name for name in names if name not in {*RECOMPUTE_MODULE_NAMES.values(), *RECOMPUTE_MODULE_ALIASES}]
    if unknown or not names:
        what = f"unknown recompute module {quoted(', '.join(unknown))}" if names else f"{quoted(text)} names no module"
        also = ", ".join(f"{alias} for {RECOMPUTE_MODULE_NAMES[it]}" for alias, it in RECOMPUTE_MODULE_ALIASES.items())
        raise InvalidInput(f"{what}; known: {', '.join(RECOMPUTE_MODULE_NAMES.values())}; also {also}")
    return modules_of(names)

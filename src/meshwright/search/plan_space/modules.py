"""Modules: which sets of modules a search lets selective recomputation compute again."""

from __future__ import annotations

from meshwright.layout.legality.recompute import absent_modules, ungrouped_modules, unscaled_modules
from meshwright.specs.inputs import Inputs
from meshwright.specs.recompute_modules import NO_MODULES, RecomputeModules, modules_of

CHEAP = RecomputeModules.LAYER_NORM | RecomputeModules.EXPERT_ACTIVATION
"""They cost memory traffic alone."""
EXPANDED = CHEAP | RecomputeModules.LATENT_UP_PROJECTION
BLOCKS = RecomputeModules.MLP | RecomputeModules.SHARED_EXPERTS
LADDER = (
    CHEAP,
    EXPANDED,
    EXPANDED | BLOCKS,
    EXPANDED & ~RecomputeModules.EXPERT_ACTIVATION | RecomputeModules.MLP | RecomputeModules.EXPERTS,
)
"""Every set saves more bytes than the one before, at more seconds for each byte; the whole mixture, the last, holds
activation and shared expert."""


def module_sets(inputs: Inputs) -> list[RecomputeModules]:
    """The sets of modules worth trying: those of the ladder that differ, from what the model and the runtime have.

    The attention core is in all of them where it keeps its scores in memory. Under fused attention it keeps next to
    nothing, and stands alone only where there is nothing else, or where the runtime chooses for itself.
    """
    core = RecomputeModules.CORE_ATTENTION
    usable = usable_modules(inputs)
    always = core if inputs.attention_generation == "eager" else NO_MODULES
    ladder = [always, *(always | step & usable for step in LADDER)]
    return list(dict.fromkeys(modules for modules in ladder if modules)) or [core]


def usable_modules(inputs: Inputs) -> RecomputeModules:
    """The runtime's modules of which some layer has a part that recomputing frees."""
    kinds = inputs.model.layer_kinds
    dense = RecomputeModules.MLP if any(not kind.is_moe for kind in kinds) else NO_MODULES
    separate = any(kind.is_moe or kind.attention.latent for kind in kinds)
    norms = RecomputeModules.LAYER_NORM if separate else NO_MODULES
    inner = ~(RecomputeModules.MLP | RecomputeModules.LAYER_NORM | absent_modules(inputs.model))
    effective = (inner | dense | norms) & ~unscaled_modules(inputs.recipe) & ~ungrouped_modules(inputs.runtime)
    return effective & modules_of(inputs.runtime.plans.recompute_modules)

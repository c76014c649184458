"""Rules of what recomputation computes again: modules of the selective kind, layers of the full one."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Bools
from meshwright.layout.legality.rule import Rule
from meshwright.layout.plan import Plan, Recompute
from meshwright.layout.plans import Layout
from meshwright.layout.recompute_modules import NO_MODULES, RecomputeModules, names_of
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Experts

_EXPERTS = RecomputeModules.EXPERT_ACTIVATION | RecomputeModules.EXPERTS
_NORMS_AND_ACTIVATIONS = RecomputeModules.LAYER_NORM | RecomputeModules.EXPERT_ACTIVATION


def absent_modules(inputs: Inputs) -> RecomputeModules:
    """The modules that name a part of a layer which no layer of the model has."""
    kinds = inputs.model.layer_kinds
    blocks = [kind.feed_forward for kind in kinds if isinstance(kind.feed_forward, Experts)]
    latent = any(kind.attention.latent for kind in kinds)
    absent = NO_MODULES if latent else RecomputeModules.LATENT_UP_PROJECTION
    absent |= NO_MODULES if blocks else _EXPERTS
    return absent | (NO_MODULES if any(block.shared_ffn_size for block in blocks) else RecomputeModules.SHARED_EXPERTS)


def unscaled_modules(inputs: Inputs) -> RecomputeModules:
    """The modules whose recomputation the job's recipe of scales does not survive."""
    return _NORMS_AND_ACTIVATIONS if inputs.recipe.scales_from_earlier_steps else NO_MODULES


def _without(plan: Layout, refused: RecomputeModules) -> Bools:
    chosen = np.equal(np.bitwise_and(plan.recompute_modules, int(refused)), 0)
    return np.not_equal(plan.recompute, Recompute.SELECTIVE) | chosen


def _present(plan: Layout, inputs: Inputs) -> Bools:
    return _without(plan, absent_modules(inputs))


def _present_reason(plan: Plan, inputs: Inputs) -> str:
    absent = plan.recompute_modules & absent_modules(inputs)
    parts = {
        "latent attention": RecomputeModules.LATENT_UP_PROJECTION,
        "experts": _EXPERTS,
        "a shared expert": RecomputeModules.SHARED_EXPERTS,
    }
    missing = " and 0 with ".join(part for part, modules in parts.items() if modules & absent)
    told = f"recompute_modules {_listed(absent)}, but {inputs.model.name} has 0 layers with {missing}"
    return f"{told}; {_rest(plan, absent)}"


def _scaling(plan: Layout, inputs: Inputs) -> Bools:
    return _without(plan, unscaled_modules(inputs))


def _scaling_reason(plan: Plan, inputs: Inputs) -> str:
    refused = plan.recompute_modules & unscaled_modules(inputs)
    told = (
        f"recompute_modules {_listed(refused)} does not go with {inputs.recipe.id}, which must quantise a tensor once"
    )
    return f"{told}; {_rest(plan, refused)}"


def _rest(plan: Plan, refused: RecomputeModules) -> str:
    """The plan's modules without those refused; the attention core where none is left."""
    left = plan.recompute_modules & ~refused
    return f"nearest recompute_modules: {_listed(left or RecomputeModules.CORE_ATTENTION)}"


def _listed(modules: RecomputeModules) -> str:
    return ",".join(names_of(modules))


def _layers(plan: Layout, inputs: Inputs) -> Bools:
    count, full = plan.recompute_layers, np.equal(plan.recompute, int(Recompute.FULL))
    inside = np.greater(count, 0) & np.less_equal(count, inputs.model.num_layers)
    return np.equal(count, 0) | (full & inside)


def _layers_reason(plan: Plan, inputs: Inputs) -> str:
    count, layers = plan.recompute_layers, inputs.model.num_layers
    if plan.recompute != Recompute.FULL:
        return f"recompute_layers {count} without recompute full recomputes nothing; nearest recompute_layers: 0"
    return f"recompute_layers {count} of a chunk, but the model has {layers}; nearest recompute_layers: {layers}"


RULES = (
    Rule("recompute_layers", _layers, _layers_reason),
    Rule("recompute_modules_present", _present, _present_reason),
    Rule("recompute_modules_scaling", _scaling, _scaling_reason),
)

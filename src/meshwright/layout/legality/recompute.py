"""Rules of what recomputation computes again: modules of the selective kind, layers of the full one."""

from __future__ import annotations

from functools import lru_cache

from meshwright.arrays import Bools, one_of
from meshwright.errors import any_of
from meshwright.layout.legality.rule import Ruling, invariant, one, restriction
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout
from meshwright.specs.choices import RECOMPUTE_NAMES, Recompute
from meshwright.specs.model import Model
from meshwright.specs.offload_modules import OF_EXPERTS
from meshwright.specs.precision import Precision
from meshwright.specs.recompute_modules import NO_MODULES, RecomputeModules, modules_of, names_of
from meshwright.specs.runtime import Runtime

_EXPERTS = RecomputeModules.EXPERT_ACTIVATION | RecomputeModules.EXPERTS
_NORMS_AND_ACTIVATIONS = RecomputeModules.LAYER_NORM | RecomputeModules.EXPERT_ACTIVATION


@lru_cache(maxsize=64)
def absent_modules(model: Model) -> RecomputeModules:
    """The modules that name a part of a layer which no layer of the model has."""
    absent = NO_MODULES
    if not any(kind.attention.latent for kind in model.layer_kinds):
        absent |= RecomputeModules.LATENT_UP_PROJECTION
    if not model.is_moe:
        absent |= _EXPERTS
    if not any(block.shared_ffn_size for block in model.mixtures):
        absent |= RecomputeModules.SHARED_EXPERTS
    return absent


@lru_cache(maxsize=64)
def _known_modules(names: tuple[str, ...]) -> RecomputeModules:
    """What a runtime can recompute; names: as it has them."""
    return modules_of(names) or RecomputeModules.CORE_ATTENTION


def unscaled_modules(recipe: Precision) -> RecomputeModules:
    """The modules whose recomputation a recipe of scales does not survive."""
    return _NORMS_AND_ACTIVATIONS if recipe.scales_from_earlier_steps else NO_MODULES


def ungrouped_modules(runtime: Runtime) -> RecomputeModules:
    """The modules that are recomputed only where one module computes the experts of a rank, and here none does."""
    looped = runtime.host.host_s_per_looped_expert.forward > 0
    return RecomputeModules.EXPERT_ACTIVATION if looped else NO_MODULES


@invariant
def recompute(plan: Layout, runtime: Runtime) -> Ruling:
    """The runtime has the kind of recomputation."""
    known = runtime.plans.recompute
    yield one_of(plan.recompute, [code for code, name in RECOMPUTE_NAMES.items() if name in known])
    yield (
        f"recompute {RECOMPUTE_NAMES[one(plan).recompute]} ({int(plan.recompute)}) is not modelled for {runtime.id}; "
        f"set recompute to {any_of(known)}"
    )


@invariant
def recompute_modules(plan: Layout, model: Model, runtime: Runtime) -> Ruling:
    """What selective recomputation names, the runtime can recompute and the model has."""
    known = _known_modules(runtime.plans.recompute_modules)
    named = (plan.recompute_modules != 0) | (plan.recompute != Recompute.SELECTIVE)
    yield named & _without(plan, ~int(known) | int(absent_modules(model)))
    plan = one(plan)
    unknown, absent = plan.recompute_modules & ~known, plan.recompute_modules & absent_modules(model)
    if unknown or not plan.recompute_modules:
        what = f"{_listed(unknown)} is not modelled for {runtime.id}" if unknown else "names 0 modules"
        what = f"recompute_modules {what}; it has {len(names_of(known))}: {_listed(known)}"
        yield f"{what}; {_rest(plan, unknown | absent)}"
    parts = {
        "latent attention": RecomputeModules.LATENT_UP_PROJECTION,
        "experts": _EXPERTS,
        "a shared expert": RecomputeModules.SHARED_EXPERTS,
    }
    missing = " and 0 with ".join(part for part, modules in parts.items() if modules & absent)
    what = f"recompute_modules {_listed(absent)}, but {model.name} has 0 layers with {missing}"
    yield f"{what}; {_rest(plan, absent)}"


@invariant
def recompute_layers(plan: Layout, model: Model, runtime: Runtime) -> Ruling:
    """Layers named for recomputation go with full, in a runtime that takes them, and are no more than the model has."""
    count, full = plan.recompute_layers, plan.recompute == int(Recompute.FULL)
    inside = (count > 0) & (count <= model.num_layers)
    yield (count == 0) | (full & inside & runtime.plans.takes_recompute_layers)
    if not runtime.plans.takes_recompute_layers:
        yield f"recompute_layers {count}: {runtime.id} recomputes every layer or none; nearest recompute_layers: 0"
    if plan.recompute != Recompute.FULL:
        yield f"recompute_layers {count} without recompute full recomputes nothing; nearest recompute_layers: 0"
    layers = model.num_layers
    yield f"recompute_layers {count} of a chunk, but the model has {layers}; nearest recompute_layers: {layers}"


@restriction
def recompute_modules_scaling(plan: Layout, recipe: Precision) -> Ruling:
    """With delayed fp8 scaling, selective recomputation names neither layernorm nor moe_act."""
    refused = unscaled_modules(recipe)
    yield _without(plan, refused)
    yield (
        f"recompute_modules {_listed(one(plan).recompute_modules & refused)} does not go with {recipe.id}, which must "
        f"quantise a tensor once; {_rest(one(plan), refused)}"
    )


@restriction
def recompute_modules_grouped(plan: Layout, runtime: Runtime) -> Ruling:
    """Where experts run one after the other, selective recomputation does not name moe_act."""
    refused = ungrouped_modules(runtime)
    yield _without(plan, refused)
    yield (
        f"recompute_modules {_listed(refused)} needs grouped experts (--with grouped_experts=on), and these run one "
        f"after the other; {_rest(one(plan), refused)}"
    )


@restriction
def recompute_offloaded(plan: Layout, runtime: Runtime) -> Ruling:
    """Activations in the host's memory need recompute none."""
    yield (plan.recompute == Recompute.NONE) | (not runtime.activations.offloaded_layers)
    named = RECOMPUTE_NAMES[one(plan).recompute]
    yield f"recompute {named} does not go with activations on the host in {runtime.id}; set recompute to none"


@restriction
def recompute_offloaded_modules(plan: Layout, runtime: Runtime) -> Ruling:
    """With modules in the host's memory recompute is not full, and with some of experts its modules are without moe."""
    named = runtime.activations.offloaded_modules
    of_experts = [name for name in named if name in OF_EXPERTS]
    refused = RecomputeModules.EXPERTS if of_experts else NO_MODULES
    yield ((plan.recompute != Recompute.FULL) | (not named)) & _without(plan, refused)
    if one(plan).recompute == Recompute.FULL:
        what = f"recompute full does not go with {', '.join(named)} on the host in {runtime.id}"
        yield f"{what}; set recompute to none"
    yield (
        f"recompute_modules {_listed(one(plan).recompute_modules & refused)} computes the whole mixture again, and "
        f"{', '.join(of_experts)} of it wait on the host; {_rest(one(plan), refused)}"
    )


def _without(plan: Layout, refused: int) -> Bools:
    return (plan.recompute != Recompute.SELECTIVE) | (plan.recompute_modules & int(refused) == 0)


def _rest(plan: Plan, refused: RecomputeModules) -> str:
    """The plan's modules without those refused; the attention core where none is left."""
    left = plan.recompute_modules & ~refused
    return f"nearest recompute_modules: {_listed(left or RecomputeModules.CORE_ATTENTION)}"


def _listed(modules: RecomputeModules) -> str:
    return ",".join(names_of(modules))

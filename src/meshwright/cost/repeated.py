"""Repeated: which parts of a layer selective recomputation computes again."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Ints, where
from meshwright.layout.plans import Layout
from meshwright.specs.choices import Recompute
from meshwright.specs.model import Experts, LayerKind
from meshwright.specs.recompute_modules import RecomputeModules


class Repeated(NamedTuple):
    """How often backward computes each part of one layer again; counts, scalar or array (n,)."""

    core: Ints
    """The attention core."""
    expansion: Ints
    """Queries, keys and values of latent attention, from their compressed widths."""
    attention_norm: Ints
    """The norm before attention, where it is a kernel of its own."""
    block_norm: Ints
    """The norm before the feed-forward block, likewise."""
    activation: Ints
    """Of routed experts."""
    block: Ints
    """The whole dense or shared block, in a dense layer with its norm."""
    experts: Ints
    """Router, exchange and routed experts."""


def repeated_parts(plan: Layout, kind: LayerKind) -> Repeated:
    """What selective recomputation computes again of one layer of a kind; nothing where the plan has none.

    A norm that feeds a product alone is part of its kernel and of no checkpoint: layers of experts have a norm of
    their own before the router, latent attention one before its projections. The checkpoint of a mixture holds the
    shared expert, whose own checkpoint may lie inside it: then it runs twice more.
    plan: scalar or array (n,). Returns counts. Source: Megatron-LM, core/transformer/transformer_layer.py (`IdentityOp`
    for norms that are fused), moe/moe_layer.py (`custom_forward`), core/models/gpt/gpt_layer_specs.py.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> int(repeated_parts(Plan(recompute="selective"), LLAMA.model.layer_kinds[0]).core)
    1
    """
    moe, latent = kind.is_moe, kind.attention.latent is not None
    shared = isinstance(kind.feed_forward, Experts) and kind.feed_forward.shared_ffn_size > 0
    modules: Ints = where(plan.recompute == Recompute.SELECTIVE, plan.recompute_modules, 0)
    norm, mixture = _chosen(modules, RecomputeModules.LAYER_NORM), _chosen(modules, RecomputeModules.EXPERTS)
    inside = mixture + _chosen(modules, RecomputeModules.SHARED_EXPERTS)
    return Repeated(
        core=_chosen(modules, RecomputeModules.CORE_ATTENTION),
        expansion=latent * _chosen(modules, RecomputeModules.LATENT_UP_PROJECTION),
        attention_norm=latent * norm,
        block_norm=moe * norm,
        activation=moe * _chosen(modules, RecomputeModules.EXPERT_ACTIVATION),
        block=shared * inside if moe else _chosen(modules, RecomputeModules.MLP),
        experts=moe * mixture,
    )


def _chosen(modules: Ints, module: RecomputeModules) -> Ints:
    """1 where a module is among those of a plan, else 0."""
    return modules >> int(module).bit_length() - 1 & 1

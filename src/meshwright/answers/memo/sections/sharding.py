"""Sharding: by what each axis of a plan divides weights, gradients, optimizer states and activations."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.layout.groups import expert_sharding_ranks, sharding_ranks
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs

WHOLE = "whole"


def sharding_rows(plan: Plan, inputs: Inputs) -> Iterator[tuple[str, ...]]:
    """One row for every axis with two or more ranks: axis, weights, gradients, optimizer states, activations."""
    if plan.tp > 1:
        cut = f"by {plan.tp}"
        yield f"tp {plan.tp}", cut, cut, cut, cut if plan.sp else f"{cut}, but norms and residuals"
    if plan.cp > 1:
        parts = ("with dp" if plan.zero >= stage else WHOLE for stage in (3, 2, 1))
        yield f"cp {plan.cp}", *parts, f"by {plan.cp}"
    if plan.pp > 1:
        cut = f"by {plan.pp}, in layers"
        yield f"pp {plan.pp}", cut, cut, cut, "not: fewer layers, more micro-batches in flight"
    if inputs.model.is_moe and plan.ep > 1:
        cut = f"experts by {plan.ep}"
        yield f"ep {plan.ep}", cut, cut, cut, "moved with their tokens"
    if plan.dp * plan.cp > 1:
        ranks = f"dp {plan.dp}" + (f" x cp {plan.cp}" if plan.cp > 1 else "")
        cut = f"by {int(sharding_ranks(plan))}"
        if inputs.model.is_moe:
            cut += f", experts by {int(expert_sharding_ranks(plan))}"
        parts = (cut if plan.zero >= stage else WHOLE for stage in (3, 2, 1))
        yield f"{ranks}, ZeRO {plan.zero}", *parts, "whole: every replica has its own sequences"

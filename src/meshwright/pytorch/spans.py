"""Spans: axes of a plan over the same ranks share one process group in PyTorch, and go by one name here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from meshwright.layout.plan import Plan

S = TypeVar("S")


def names_of_groups(plan: Plan) -> dict[str, str]:
    """What the group of each axis that splits something is called: by the axis, or by all that span its ranks.

    >>> names_of_groups(Plan(tp=2, sp=True, cp=4))
    {'dp': 'dp/cp', 'tp': 'tp', 'cp': 'dp/cp'}
    """
    shards = plan.dp * plan.cp // plan.dp_replicate
    spans = {
        "pp": (plan.num_gpus // plan.pp, plan.pp),
        "dp_replicate": (shards * plan.tp, plan.dp_replicate),
        "dp": (plan.tp, shards),
        "tp": (1, plan.tp),
        "cp": (plan.tp, plan.cp),
    }
    if plan.ep > 1:
        spans |= {"edp": (plan.ep, shards * plan.tp // plan.ep), "ep": (1, plan.ep)}
    return joined_names({axis: span for axis, span in spans.items() if span[1] > 1})


def joined_names(spans: Mapping[str, S]) -> dict[str, str]:
    """The name of each axis, or of all that have the same span."""
    return {axis: "/".join(other for other in spans if spans[other] == span) for axis, span in spans.items()}

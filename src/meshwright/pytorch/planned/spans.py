"""Spans: which ranks an axis of a plan is split over, and one name for axes that are split over the same."""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.layout.plan import Plan
from meshwright.pytorch.processes.records import Collective, recounted


def ranks_of_axes(plan: Plan, rank: int) -> dict[str, tuple[int, ...]]:
    """The ranks of one rank's group on each axis that has two or more; dp with those of cp, edp: the same experts.

    rank: in the world, 0 first; ranks are in the order pp, dp, cp, tp, the fastest last.

    >>> ranks_of_axes(Plan(pp=2, tp=2), 1)
    {'pp': (1, 3), 'tp': (0, 1)}
    """
    shards = plan.dp * plan.cp // plan.dp_replicate
    steps = {
        "pp": (plan.num_gpus // plan.pp, plan.pp),
        "dp_replicate": (shards * plan.tp, plan.dp_replicate),
        "dp": (plan.tp, shards),
        "tp": (1, plan.tp),
        "cp": (plan.tp, plan.cp),
        "edp": (plan.ep, shards * plan.tp // plan.ep if plan.ep > 1 else 1),
        "ep": (1, plan.ep),
    }
    return {axis: _ranks(rank, step, size) for axis, (step, size) in steps.items() if size > 1}


def _ranks(rank: int, step: int, size: int) -> tuple[int, ...]:
    first = rank - rank // step % size * step
    return tuple(range(first, first + step * size, step))


def names_of_groups(plan: Plan, rank: int = 0) -> dict[str, str]:
    """What each axis is called where axes over the same ranks go by one name; the same for every rank.

    rank: in the world, 0 first.

    >>> names_of_groups(Plan(tp=2, sp=True, cp=4))
    {'dp': 'dp/cp', 'tp': 'tp', 'cp': 'dp/cp'}
    """
    spans = ranks_of_axes(plan, rank)
    return {axis: "/".join(other for other in spans if spans[other] == span) for axis, span in spans.items()}


def grouped(counts: Mapping[Collective, int], plan: Plan) -> dict[Collective, int]:
    """The same where axes over the same ranks share a process group, and go by one name; counts."""
    names = names_of_groups(plan)
    return recounted(counts, lambda each: each._replace(axis=names.get(each.axis, each.axis)))

"""Groups: which ranks an axis joins, and how many of them share a block of links.

Ranks are numbered with the first axis of the runtime's order fastest (Megatron-LM, parallel_state.py,
`RankGenerator`): along an axis of stride q the members of a group are base + q * i.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from meshwright.arrays import Ints, larger, some, where
from meshwright.distinct import distinct_rows
from meshwright.layout.plans import Layout
from meshwright.specs.choices import ContextExchange
from meshwright.specs.inputs import Inputs


class Placement(NamedTuple):
    """How the groups of one axis lie over blocks of consecutive ranks."""

    members_per_block: Ints
    """Members of one group in the block where it has the fewest: its share of the block's network."""
    blocks: Ints
    """Blocks that the widest group touches; 1: every group stays inside one block."""


def stride(plan: Layout, axis: str, order: Sequence[str]) -> Ints:
    """Distance between neighbours along an axis: the product of the degrees of the faster axes.

    axis: a name of the order; order: axes, fastest first. Ranks, scalar or array (n,).
    Expert axes do not number the dense grid and are passed over.
    """
    distance: Ints = 1
    for faster in order[: order.index(axis)]:
        if faster not in ("ep", "etp"):
            distance = distance * getattr(plan, faster)
    return distance


def sharding_ranks(plan: Layout) -> Ints:
    """Ranks over which ZeRO divides: n = dp c / dp_replicate. plan: scalar or array (n,). Returns a count.

    >>> from meshwright.layout.plan import Plan
    >>> sharding_ranks(Plan(dp=64, cp=2, zero=3, dp_replicate=16))
    8
    """
    return plan.dp * plan.cp // plan.dp_replicate


def expert_sharding_ranks(plan: Layout) -> Ints:
    """Ranks over which ZeRO divides the routed experts: EDP / dp_replicate, at least one. plan: scalar or array (n,).

    Returns a count. Source: Megatron-LM, parallel_state.py (expert data parallel group).
    """
    return larger(expert_data_ranks(plan) // plan.dp_replicate, 1)


class ContextSplit(NamedTuple):
    """How context-parallel ranks divide one sequence; c = heads x ring."""

    heads: Ints
    """Ranks among which an all-to-all divides the heads."""
    ring: Ints
    """Ranks among which keys and values travel; with an all-gather those that gather them."""


def context_split(plan: Layout, inputs: Inputs) -> ContextSplit:
    """How many context-parallel ranks exchange heads, and how many pass keys and values on.

    Ring and all-gather divide the sequence alone, an all-to-all the heads alone; hierarchical exchanges heads among the
    ranks that share a scale-up domain. plan: scalar or array (n,). Returns counts.
    """
    if not some(plan.cp > 1):
        return ContextSplit(plan.cp, plan.cp)
    swaps, swaps_inside = (
        plan.context_exchange == kind for kind in (ContextExchange.ALL_TO_ALL, ContextExchange.HIERARCHICAL)
    )
    inside: Ints = 1
    if some(swaps_inside):
        distance, levels = stride(plan, "cp", inputs.runtime.plans.rank_order), inputs.cluster.levels
        placed = placement(plan.cp, distance, levels[0].size, inputs.cluster.num_gpus)
        inside = where(swaps_inside, np.gcd(placed.members_per_block, plan.cp), 1)
    heads: Ints = where(swaps, plan.cp, inside)
    return ContextSplit(heads, plan.cp // heads)


def expert_data_ranks(plan: Layout) -> Ints:
    """Ranks that hold the same experts: EDP = t c dp / (etp ep). plan: scalar or array (n,). Returns a count.

    Source: Megatron-LM, parallel_state.py (expert_data_parallel_size).

    >>> from meshwright.layout.plan import Plan
    >>> expert_data_ranks(Plan(tp=2, dp=16, ep=8))
    4
    """
    return plan.tp * plan.cp * plan.dp // (plan.etp * plan.ep)


def expert_stride(plan: Layout, axis: str, order: Sequence[str]) -> Ints:
    """Distance between neighbours along an axis of the expert grid, which numbers the same ranks as the dense one.

    rank = etp + ETP (ep + EP (edp + EDP pp)) in the default order: `tp` stands for etp, `dp` for edp, and cp has no
    axis of its own. plan: scalar or array (n,); axis: a name of the order; order: axes, fastest first. Ranks.
    Source: Megatron-LM, parallel_state.py (expert_decoder_rank_generator).

    >>> from meshwright.layout.plan import Plan
    >>> expert_stride(Plan(tp=2, dp=16, ep=8), "dp", ("tp", "cp", "ep", "dp", "pp"))
    8
    """
    degrees = {"tp": plan.etp, "ep": plan.ep, "dp": expert_data_ranks(plan), "pp": plan.pp}
    distance: Ints = 1
    for faster in order[: order.index(axis)]:
        distance = distance * degrees.get(faster, 1)
    return distance


def placement(degree: Ints, stride: Ints, block: int, world: int) -> Placement:
    """How groups of `degree` ranks, `stride` apart, lie over blocks of `block` consecutive ranks.

    degree, stride: scalar or array (n,); block: ranks; world: ranks in all, the last block may be partly filled.
    Degrees need not divide the block: every group is counted. Of a group that the world is too small for every rank
    counts as a block of its own.

    >>> placement(8, 1, 8, 64)
    Placement(members_per_block=8, blocks=1)
    >>> placement(4, 8, 8, 64)
    Placement(members_per_block=1, blocks=4)
    >>> placement(3, 1, 8, 24)
    Placement(members_per_block=1, blocks=2)
    """
    if block >= world or not some(degree > 1):
        return Placement(degree, 1)
    # Products of whole quotients tell what divides what; remainders take NumPy several times as long.
    span = degree * stride
    per_block, touched = block // stride, span // block
    inside, apart = block // span * span == block, (stride // block * block == stride) | (span > world)
    known = inside | apart
    if world % block == 0:
        known = known | ((touched * block == span) & (per_block * stride == block))
    members: Ints = where(inside, degree, where(apart, 1, per_block))
    touched = where(inside, 1, where(apart, degree, touched))
    if not isinstance(known, np.ndarray):
        return Placement(members, touched) if known else Placement(*_counted(int(degree), int(stride), block, world))
    if not known.all():
        rows = np.flatnonzero(~known)
        pairs, index = distinct_rows(*(np.broadcast_to(each, known.shape)[rows] for each in (degree, stride)))
        counted = [_counted(*pair, block, world) for pair in zip(*(each.tolist() for each in pairs), strict=True)]
        members[rows], touched[rows] = np.array(counted)[index].T  # type: ignore[index]
    return Placement(members, touched)


@lru_cache(maxsize=4096)
def _counted(degree: int, distance: int, block: int, world: int) -> tuple[int, int]:
    """The same where groups lie unevenly: the members of every group in every block are counted."""
    span = degree * distance
    groups = max(min(math.lcm(span, block), world) // span, 1)
    bases = np.add.outer(np.arange(groups) * span, np.arange(distance)).ravel()
    blocks = np.sort(np.add.outer(bases, np.arange(degree) * distance) // block, axis=1)
    starts = np.ones_like(blocks, dtype=bool)
    starts[:, 1:] = blocks[:, 1:] != blocks[:, :-1]
    sizes = np.diff(np.append(np.flatnonzero(starts.ravel()), blocks.size))
    return int(sizes.min()), int(starts.sum(axis=1).max())

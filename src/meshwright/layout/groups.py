"""Groups: which ranks an axis joins, and how many of them share a block of links.

Ranks are numbered with the first axis of the runtime's order fastest (Megatron-LM, parallel_state.py,
`RankGenerator`): along an axis of stride q the members of a group are base + q * i.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from meshwright.arrays import IntColumn, Ints
from meshwright.distinct import on_distinct
from meshwright.layout.plans import Layout


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


def placement(degree: Ints, stride: Ints, block: int, world: int) -> Placement:
    """How groups of `degree` ranks, `stride` apart, lie over blocks of `block` consecutive ranks.

    degree, stride: scalar or array (n,); block: ranks; world: ranks in all, the last block may be partly filled.
    Degrees need not divide the block: every group is counted.

    >>> placement(8, 1, 8, 64)
    Placement(members_per_block=8, blocks=1)
    >>> placement(4, 8, 8, 64)
    Placement(members_per_block=1, blocks=4)
    >>> placement(3, 1, 8, 24)
    Placement(members_per_block=1, blocks=2)
    """
    columns = np.atleast_1d(*np.broadcast_arrays(degree, stride))
    counted = on_distinct(lambda degrees, strides: _placements(degrees, strides, block, world), *columns)
    if np.ndim(degree) == np.ndim(stride) == 0:
        return Placement(int(counted.members_per_block[0]), int(counted.blocks[0]))
    return counted


def _placements(degrees: IntColumn, strides: IntColumn, block: int, world: int) -> Placement:
    pairs = zip(map(int, degrees), map(int, strides), strict=True)
    rows = [_placement(degree, distance, block, world) for degree, distance in pairs]
    return Placement(np.array([row[0] for row in rows]), np.array([row[1] for row in rows]))


def _placement(degree: int, distance: int, block: int, world: int) -> tuple[int, int]:
    span = degree * distance
    if block >= world or block % span == 0:
        return degree, 1
    if distance % block == 0:
        return 1, degree
    if world % block == span % block == block % distance == 0:
        return block // distance, span // block
    groups = max(min(math.lcm(span, block), world) // span, 1)
    bases = np.add.outer(np.arange(groups) * span, np.arange(distance)).ravel()
    blocks = np.sort(np.add.outer(bases, np.arange(degree) * distance) // block, axis=1)
    starts = np.ones_like(blocks, dtype=bool)
    starts[:, 1:] = blocks[:, 1:] != blocks[:, :-1]
    sizes = np.diff(np.append(np.flatnonzero(starts.ravel()), blocks.size))
    return int(sizes.min()), int(starts.sum(axis=1).max())

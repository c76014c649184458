"""Routing: how many ranks or nodes the experts of one token lie on, when every choice of experts is as likely."""

from __future__ import annotations

import math

import numpy as np

from meshwright.arrays import Floats, Ints, Numbers


def missed_share(candidates: int, held: Numbers, active: int) -> Floats:
    """Share of tokens of which no expert lies in a block: C(c - x, k) / C(c, k), drawn without replacement.

    candidates: experts c that a token may choose; held: x of them in the block, scalar or array (n,); active: k that it
    visits. Returns a share.

    >>> round(float(missed_share(256, 128, 8)), 5)
    0.00349
    """
    share: Floats = 1.0
    for drawn in range(min(active, candidates)):
        share = share * np.maximum(candidates - held - drawn, 0) / (candidates - drawn)
    return share


def reached_blocks(experts: int, active: int, blocks: Ints, groups: int = 1, allowed: int = 1) -> Floats:
    """Expected number of blocks (nodes, ranks) that hold one of a token's experts, E / blocks lying in each.

    blocks (1 - C(E - E / blocks, k) / C(E, k)); with routing limited to `allowed` of `groups` equal groups of experts,
    of which every choice is as likely, the mean over what they leave of the block.

    experts: E, a count; active: k that a token visits; blocks: a count, scalar or array (n,); groups, allowed: counts.
    Returns a count, scalar or array (n,). Source: DeepSeek-V3, arXiv:2412.19437, section 2.1.2 (limited groups).

    >>> round(float(reached_blocks(256, 8, 4)), 2)
    3.61
    """
    candidates, group = experts * allowed // groups, experts / groups
    within_a_group = allowed / groups * (1.0 - missed_share(candidates, np.minimum(experts / blocks, group), active))
    whole_groups = np.array([_reached(held, group, candidates, active, groups, allowed) for held in range(groups + 1)])
    return blocks * np.where(np.less(blocks, groups), whole_groups[groups // np.asarray(blocks)], within_a_group)


def _reached(held: int, group: float, candidates: int, active: int, groups: int, allowed: int) -> float:
    """Share of tokens that reach a block of `held` whole groups."""
    choices = [(math.comb(held, left) * math.comb(groups - held, allowed - left), left) for left in range(allowed + 1)]
    reached = sum(ways * (1.0 - missed_share(candidates, left * group, active)) for ways, left in choices)
    return float(reached / math.comb(groups, allowed))

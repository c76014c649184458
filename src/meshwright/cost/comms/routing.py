"""Routing: how many ranks or nodes the experts of one token lie on, when every choice of experts is as likely."""

from __future__ import annotations

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


def reached_blocks(experts: int, active: int, blocks: Ints) -> Floats:
    """Expected number of blocks (nodes, ranks) that hold one of a token's experts, E / blocks lying in each.

    blocks (1 - C(E - E / blocks, k) / C(E, k)); routing is not limited to groups of experts.

    experts: E, a count; active: k that a token visits; blocks: a count, scalar or array (n,).
    Returns a count, scalar or array (n,).

    >>> round(float(reached_blocks(256, 8, 4)), 2)
    3.61
    """
    return blocks * (1.0 - missed_share(experts, experts / blocks, active))

"""Routing: how many ranks or nodes the experts of one token lie on, when every choice of experts is as likely."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints, Numbers
from meshwright.specs.model import Experts


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


def reached_blocks(experts: Experts, blocks: Ints) -> Floats:
    """Expected number of blocks (nodes, ranks) that hold one of a token's experts, x = E / blocks lying in each.

    blocks (1 - M(E, x, k)), M(c, x, k) = C(c - x, k) / C(c, k). A token that is limited to g of G groups chooses them
    for their best experts: it visits one expert in each of them, and k - g others anywhere in them. A block that holds
    q = max(x G / E, 1) groups, or the share r = min(x G / E, 1) of one, is then reached with probability
    (1 - M(G, q, g)) (1 - (1 - r) M(g (E / G - 1), x, k - g)): of blocks of whole groups no more than g. The smaller of
    both counts.

    experts: E, of which a token visits k; blocks: a count, scalar or array (n,). Returns a count, scalar or array (n,).
    Within 1.6 % of what the gates of DeepSeek-V2 and -V3 choose by independent scores, and 4 % with any other g of 8.
    Source: DeepSeek-V3, arXiv:2412.19437, section 2.1.2; Megatron-LM, moe_utils.py, group_limited_topk.

    >>> v3 = Experts(count=256, active=8, ffn_size=2048, groups=8, active_groups=4)
    >>> [round(float(reached_blocks(each, 8)), 2) for each in (v3, v3.replace(groups=1, active_groups=1))]
    [4.0, 5.29]
    """
    held, group = experts.count / blocks, experts.count // experts.groups
    chosen, spanned = min(experts.active_groups, experts.active), held / group
    entered = 1.0 - missed_share(experts.groups, np.maximum(spanned, 1.0), chosen)
    others = missed_share(chosen * (group - 1), held, experts.active - chosen)
    limited = entered * (1.0 - (1.0 - np.minimum(spanned, 1.0)) * others)
    return blocks * np.minimum(limited, 1.0 - missed_share(experts.count, held, experts.active))

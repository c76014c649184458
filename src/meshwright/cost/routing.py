"""Routing: how many routed tokens the experts of one rank compute, and how many ranks or nodes one token reaches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, Ints, Numbers
from meshwright.errors import NotModelled
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Experts, LayerKind


class Rows(NamedTuple):
    """Rows of the matrix products of one rank's experts, over all of them; counts, scalar or array (n,)."""

    mean: Floats
    hottest: Floats
    """On the rank that receives the most: the one that the others wait for, and whose memory fills first."""


def routed_experts(kind: LayerKind) -> Experts:
    """The mixture of experts of a kind; raises `NotModelled` for a dense feed-forward block.

    Returns a block, sizes in elements. Source: by definition.

    >>> from meshwright.specs.examples import MIXTRAL
    >>> routed_experts(MIXTRAL.model.layer_kinds[0]).count
    8
    """
    if not isinstance(kind.feed_forward, Experts):
        raise NotModelled(f"layers of kind {kind.name!r} hold no experts to route tokens to")
    return kind.feed_forward


def routed_rows(plan: Layout, inputs: Inputs, kind: LayerKind, tokens: Numbers) -> Rows:
    """Rows that the experts of one rank compute for one micro-batch of one layer.

    ETP ranks gather the tokens of each other: the mean is ETP T k, whatever ep is. The busiest rank has the job's
    `expert_imbalance` times as many. With an expert capacity f every expert holds ceil(f T k / E) rows from each rank
    that sends to it, and all ranks are alike: ETP E ceil(f T k / E).

    plan: scalar or array (n,); tokens: T that enter the layer on one rank. Returns counts.
    Source: Megatron-LM, core/transformer/moe/moe_utils.py (get_capacity) and token_dispatcher.py.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.examples import MIXTRAL
    >>> [float(rows) for rows in routed_rows(Plan(dp=8, ep=8), MIXTRAL, MIXTRAL.model.layer_kinds[0], tokens=4096)]
    [8192.0, 8192.0]
    """
    experts, capacity = routed_experts(kind), inputs.job.expert_capacity
    if capacity is None:
        mean = 1.0 * plan.etp * tokens * experts.active
        return Rows(mean, mean * hottest_over_mean(plan, inputs, kind))
    padded = 1.0 * plan.etp * experts.count * np.ceil(capacity * tokens * experts.active / experts.count)
    return Rows(padded, padded)


def hottest_over_mean(plan: Layout, inputs: Inputs, kind: LayerKind) -> Floats:
    """Tokens of the busiest rank's experts over the mean: the job's imbalance, as far as there are tokens for it.

    A token visits at most min(k, E / ep) experts of one rank, so that no rank has more than ep min(k, E / ep) / k times
    the mean; with an expert capacity all have the same. plan: scalar or array (n,). Returns a share. Source:
    `expert_imbalance` of the job; by definition.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.examples import MIXTRAL
    >>> float(hottest_over_mean(Plan(dp=8, ep=8), MIXTRAL, MIXTRAL.model.layer_kinds[0]))
    1.0
    """
    experts = routed_experts(kind)
    if inputs.job.expert_capacity is not None:
        return 1.0 + 0.0 * np.asarray(plan.ep)
    most = plan.ep * np.minimum(experts.active, experts.count / plan.ep) / experts.active
    return np.minimum(inputs.job.expert_imbalance, most)


def missed_share(candidates: int, in_block: Numbers, active: int) -> Floats:
    """Share of tokens of which no expert lies in a block: C(c - x, k) / C(c, k), drawn without replacement.

    candidates: experts c that a token may choose; in_block: x of them, scalar or array (n,); active: k that it
    visits. Returns a share. Source: by definition.

    >>> round(float(missed_share(256, 128, 8)), 5)
    0.00349
    """
    share: Floats = 1.0
    for drawn in range(min(active, candidates)):
        share = share * np.maximum(candidates - in_block - drawn, 0) / (candidates - drawn)
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
    in_block, group = experts.count / blocks, experts.count // experts.groups
    chosen, spanned = min(experts.active_groups, experts.active), in_block / group
    entered = 1.0 - missed_share(experts.groups, np.maximum(spanned, 1.0), chosen)
    others = missed_share(chosen * (group - 1), in_block, experts.active - chosen)
    limited = entered * (1.0 - (1.0 - np.minimum(spanned, 1.0)) * others)
    share: Floats = np.minimum(limited, 1.0 - missed_share(experts.count, in_block, experts.active))
    return blocks * share

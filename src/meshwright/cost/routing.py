"""Routing: how many routed tokens the experts of one rank compute, and how many ranks or nodes one token reaches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, Ints, Numbers, ceiling, larger, root, smaller
from meshwright.cost.deviates import expected_largest
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

    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> routed_experts(MIXTRAL.model.layer_kinds[0]).count
    8
    """
    if not isinstance(kind.feed_forward, Experts):
        raise NotModelled(f"layers of kind {kind.name!r} hold no experts to route tokens to")
    return kind.feed_forward


def routed_rows(plan: Layout, inputs: Inputs, kind: LayerKind, tokens: Numbers) -> Rows:
    """Rows that the experts of one rank compute for one micro-batch of one layer.

    ETP ranks gather the tokens of each other: the mean is ETP T k, whatever ep is. The busiest rank has
    `hottest_over_mean` times as many. With an expert capacity f every expert holds ceil(f T k / E) rows from each rank
    that sends to it, and all ranks are alike: ETP E ceil(f T k / E).

    plan: scalar or array (n,); tokens: T that enter the layer on one rank. Returns counts.
    Source: Megatron-LM, core/transformer/moe/moe_utils.py (get_capacity) and token_dispatcher.py.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> [round(float(rows)) for rows in routed_rows(Plan(dp=8, ep=8), MIXTRAL, MIXTRAL.model.layer_kinds[0], 4096)]
    [8192, 10850]
    """
    experts, capacity = routed_experts(kind), inputs.expert_capacity
    if capacity is None:
        mean = 1.0 * plan.etp * tokens * experts.active
        return Rows(mean, mean * hottest_over_mean(plan, inputs, kind, tokens))
    padded = 1.0 * plan.etp * experts.count * ceiling(capacity * tokens * experts.active / experts.count)
    return Rows(padded, padded)


def hottest_over_mean(plan: Layout, inputs: Inputs, kind: LayerKind, tokens: Numbers) -> Floats:
    """Tokens of the busiest rank's experts over the mean, in one layer and micro-batch.

    `busiest_over_mean` of EP blocks of E / EP experts; with an expert capacity all have the same.
    plan: scalar or array (n,); tokens: T that enter the layer on one rank, a count. Returns a share, 1 or more. Source:
    sums of independent loads. A trained model's 8 ranks of 16 experts had 1.112 in the mean of 100 steps; 1.08 comes
    out.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> kind = MIXTRAL.model.layer_kinds[0]
    >>> [round(float(hottest_over_mean(Plan(dp=8, ep=ep), MIXTRAL, kind, tokens=4096)), 2) for ep in (1, 2, 4, 8)]
    [1.0, 1.07, 1.17, 1.32]
    """
    return busiest_over_mean(plan.ep, routed_experts(kind), inputs, 1.0 * plan.etp * plan.ep * tokens)


def busiest_expert_rows(plan: Layout, inputs: Inputs, kind: LayerKind, tokens: Numbers) -> Floats:
    """Rows of the expert that most tokens choose, in one layer and micro-batch.

    EP ETP T k / E times `busiest_over_mean` of E blocks of one expert; with an expert capacity all have the same.
    plan: scalar or array (n,); tokens: T that enter the layer on one rank, a count. Returns a count. Source: as
    `hottest_over_mean`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> kind = MIXTRAL.model.layer_kinds[0]
    >>> [round(float(busiest_expert_rows(Plan(dp=8, ep=ep), MIXTRAL, kind, tokens=4096))) for ep in (1, 8)]
    [1359, 10850]
    """
    experts = routed_experts(kind)
    mean = routed_rows(plan, inputs, kind, tokens).mean * plan.ep / experts.count
    return mean * busiest_over_mean(experts.count, experts, inputs, 1.0 * plan.etp * plan.ep * tokens)


def busiest_over_mean(blocks: Ints, experts: Experts, inputs: Inputs, tokens: Numbers) -> Floats:
    """Tokens of the busiest of equal blocks of experts over the mean, in one layer and micro-batch.

    The job's `expert_imbalance`; else 1 + z(B) sqrt(v^2 / x + B / (T k)): of B blocks with x = E / B experts each,
    whose tokens have the standard deviation v over their mean (`expert_spread`), and chance makes the rest; z is the
    expected largest of B normal values. As a token visits at most min(k, x) experts of one block, none has more than
    B min(k, x) / k times the mean; with an expert capacity all have the same.

    blocks: B, a count; tokens: T that choose among all of them, a count; both scalar or array (n,). Returns a share, 1
    or more. Source: sums of independent loads; what v is and who measured it stands in specs/catalog/routing.toml.
    """
    if inputs.expert_capacity is not None:
        return 1.0 + 0.0 * np.asarray(blocks)
    per_block = experts.count / blocks
    most = blocks * smaller(experts.active, per_block) / experts.active
    if inputs.job.expert_imbalance is not None:
        return smaller(inputs.job.expert_imbalance, most)
    rows = larger(tokens * experts.active / blocks, 1.0)
    spread = root(inputs.expert_spread**2 / per_block + 1.0 / rows)
    return smaller(1.0 + expected_largest(blocks) * spread, most)


def missed_share(candidates: int, in_block: Numbers, active: int) -> Floats:
    """Share of tokens of which no expert lies in a block: C(c - x, k) / C(c, k), drawn without replacement.

    candidates: experts c that a token may choose; in_block: x of them, scalar or array (n,); active: k that it
    visits. Returns a share. Source: by definition.

    >>> round(float(missed_share(256, 128, 8)), 5)
    0.00349
    """
    share: Floats = 1.0
    for drawn in range(min(active, candidates)):
        share = share * larger(candidates - in_block - drawn, 0) / (candidates - drawn)
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
    entered = 1.0 - missed_share(experts.groups, larger(spanned, 1.0), chosen)
    others = missed_share(chosen * (group - 1), in_block, experts.active - chosen)
    limited = entered * (1.0 - (1.0 - smaller(spanned, 1.0)) * others)
    share: Floats = smaller(limited, 1.0 - missed_share(experts.count, in_block, experts.active))
    return blocks * share


def fused_copies(plan: Layout, kind: LayerKind, tokens: Numbers) -> Floats:
    """How often one rank hands a token to a rank, itself among them: T R, as all ranks that split an expert take it.

    plan: scalar or array (n,); tokens: T on one rank. Returns a count. Source: `reached_blocks`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> float(fused_copies(Plan(dp=8, ep=8), MIXTRAL.model.layer_kinds[0], tokens=4096)) / 4096
    2.0
    """
    return 1.0 * tokens * plan.etp * reached_blocks(routed_experts(kind), plan.ep)

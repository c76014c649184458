"""Expert rows: how many routed tokens the experts of one rank compute, on average and on the busiest rank."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, Numbers
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
    """The mixture of experts of a kind; raises `NotModelled` for a dense feed-forward block."""
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
    the mean; with an expert capacity all have the same. plan: scalar or array (n,). Returns a share.
    """
    experts = routed_experts(kind)
    if inputs.job.expert_capacity is not None:
        return 1.0 + 0.0 * np.asarray(plan.ep)
    most = plan.ep * np.minimum(experts.active, experts.count / plan.ep) / experts.active
    return np.minimum(inputs.job.expert_imbalance, most)

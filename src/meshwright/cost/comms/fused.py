"""Fused exchange of tokens (DeepEP, HybridEP): a token goes once to each node and there once to each rank it visits."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Numbers
from meshwright.cost.comms.collectives import link_bandwidth
from meshwright.cost.comms.exchange import Message
from meshwright.cost.comms.group import axis_group
from meshwright.cost.comms.routing import reached_blocks
from meshwright.cost.comms.traffic import Traffic
from meshwright.cost.expert_rows import hottest_over_mean, routed_experts
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


def fused_traffic(plan: Layout, inputs: Inputs, kind: LayerKind, tokens: Numbers, width: Numbers) -> Traffic:
    """What one rank sends in one dispatch, on average.

    A token of h elements reaches R ranks on N nodes, as `reached_blocks` expects; all ranks that split an expert take
    it. Of n ranks, m in a node, T N (n - m) / n copies leave the node, and T R (m - 1) / m go on inside one.

    plan: scalar or array (n,); tokens: T on one rank; width: bytes of one element. Returns bytes.
    Source: deepseek-ai/DeepEP@0297fc80, docs/legacy.md.
    """
    experts, group = routed_experts(kind), axis_group("ep_etp", plan, inputs)
    members, blocks = group.members, group.blocks
    ranks = plan.etp * reached_blocks(experts, plan.ep)
    holders = np.minimum(blocks[0], plan.ep)
    nodes = blocks[0] / holders * reached_blocks(experts, holders)
    size = 1.0 * tokens * inputs.model.hidden_size * width
    across = tuple(size * nodes * (group.ranks - each) / group.ranks for each in members[:-1])
    return Traffic(size * ranks * (members[0] - 1) / members[0], across)


def fused_time(plan: Layout, inputs: Inputs, kind: LayerKind, tokens: Numbers, traffic: Traffic) -> Floats:
    """Seconds of one dispatch, or of the combine that takes the same way back.

    In one domain T = t0 + tokens t_token + w / (e B). Over several, T = t1 + max(tokens t_token + w / (f B), w_i / (e_i
    B_i)): w bytes inside the domain, w_i beyond it at every level i crossed, B the bandwidths per rank, and shares and
    times of the accelerator's `expert_exchange`. The busiest rank receives its share more.

    plan: scalar or array (n,); tokens: on one rank, count; traffic: of `fused_traffic`, bytes. Returns seconds. Error
    on held-out measurements: 4 % median, 11 % p90 inside a node of 8, 14 % median over 2 nodes and 1 % over 4
    (constants' sources).
    """
    cluster, group = inputs.cluster, axis_group("ep_etp", plan, inputs)
    constants, blocks = cluster.accelerator.kernels.expert_exchange, group.blocks
    busiest = hottest_over_mean(plan, inputs, kind)
    sending, link = tokens * constants.token_s, link_bandwidth(group.members[0], cluster)
    alone = constants.latency_s + sending + busiest * traffic.inside / (constants.link_efficiency * link)
    beside = sending + busiest * traffic.inside / (constants.forward_efficiency * link)
    for inner, level in enumerate(cluster.levels[1:]):
        crossing = busiest * traffic.across[inner] / (constants.network_efficiency * level.effective_bandwidth)
        beside = np.where(np.greater(blocks[inner], 1), np.maximum(beside, crossing), beside)
    time = np.where(np.equal(blocks[0], 1), alone, constants.network_latency_s + beside)
    return np.where(np.greater(group.ranks, 1) & np.greater(tokens, 0), time, 0.0)


def fused_message(
    operation: str, content: str, plan: Layout, inputs: Inputs, kind: LayerKind, tokens: Numbers, width: Numbers
) -> Message:
    """One dispatch or combine of the tokens of one layer and micro-batch; its bytes are what one rank sends.

    operation: dispatch or combine; content: what it carries; plan: scalar or array (n,); tokens: on one rank, count;
    width: bytes of one element. Returns bytes and seconds.
    """
    traffic = fused_traffic(plan, inputs, kind, tokens, width)
    seconds = fused_time(plan, inputs, kind, tokens, traffic)
    sent = traffic.inside + sum(traffic.across)
    return Message("ep_etp", operation, content, bytes=sent, seconds=seconds, traffic=traffic)

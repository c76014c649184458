"""Exchanged: the bytes that one rank sends when a layer's tokens go to their experts, by the links that they cross."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats
from meshwright.cost.comms.collectives import sent_bytes
from meshwright.cost.comms.fused import fused_traffic
from meshwright.cost.comms.group import Group, expert_group, expert_set_group, expert_tensor_group
from meshwright.cost.comms.traffic import Traffic, all_to_all_traffic
from meshwright.cost.expert_rows import routed_rows
from meshwright.cost.shard import residual_tokens
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


def exchange_traffic(plan: Layout, inputs: Inputs, kind: LayerKind) -> Traffic:
    """What one rank sends on average in one dispatch of one layer and micro-batch in forward.

    A combine sends as many elements back, of 2 bytes each. By the runtime's dispatcher, as `expert_exchange_time`
    prices it: an all-to-all over ep with an all-gather over etp, an all-gather over both, or one copy of a token for
    every node and rank that it visits.
    plan: scalar or array (n,). Returns bytes.
    """
    tokens, hidden, width = residual_tokens(plan, inputs), inputs.model.hidden_size, inputs.dispatch_bytes[0]
    if inputs.runtime.communication.dispatcher == "fused":
        return fused_traffic(plan, inputs, kind, tokens, width)
    if inputs.runtime.communication.dispatcher == "all_gather":
        whole = expert_set_group(plan, inputs)
        gathered = 1.0 * width * whole.ranks * tokens * hidden
        return ring_traffic(sent_bytes("all_gather", gathered, whole.ranks), whole)
    gathered = 1.0 * width * hidden * routed_rows(plan, inputs, kind, tokens).mean
    permuted = all_to_all_traffic(gathered / plan.etp, expert_group(plan, inputs))
    slices = ring_traffic(sent_bytes("all_gather", gathered, plan.etp), expert_tensor_group(plan, inputs))
    across = tuple(one + other for one, other in zip(permuted.across, slices.across, strict=True))
    return Traffic(permuted.inside + slices.inside, across)


def ring_traffic(size: Floats, group: Group) -> Traffic:
    """Where the bytes that each rank of a ring sends on go: of m ranks that share a block, one sends beyond it.

    size: bytes of one rank, scalar or array (n,); group: where the ranks stand. Returns bytes, the mean of its ranks.
    """
    shares = zip(group.members[:-1], group.blocks[:-1], strict=True)
    across = tuple(np.where(np.greater(blocks, 1), size / members, 0.0) for members, blocks in shares)
    return Traffic(size - (across[0] if across else 0.0), across)

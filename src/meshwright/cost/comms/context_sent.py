"""The bytes that one rank sends when context-parallel ranks exchange, by the links that they cross."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import BoolColumn
from meshwright.cost.comms.collectives import sent_bytes
from meshwright.cost.comms.context import context_bytes
from meshwright.cost.comms.exchanged import ring_traffic
from meshwright.cost.comms.group import context_group, head_exchange_group
from meshwright.cost.comms.traffic import Traffic, all_to_all_traffic
from meshwright.cost.tree import combined
from meshwright.layout.plan import ContextExchange
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


class ContextTraffic(NamedTuple):
    """What one rank sends for one layer and micro-batch."""

    forward: Traffic
    backward: Traffic


def context_traffic(plan: Layout, inputs: Inputs, kind: LayerKind) -> ContextTraffic:
    """What one rank sends for one layer and micro-batch, by the plan's exchange, as `context_time` prices it.

    An all-gather forward; in backward another one and a reduce-scatter. Otherwise the messages of the ring and the
    all-to-alls among the ranks that exchange heads. plan: scalar or array (n,). Returns bytes.
    """
    sizes, whole = context_bytes(plan, inputs, kind), context_group(plan, inputs)
    gathers = np.equal(plan.context_exchange, ContextExchange.ALL_GATHER)
    gathered = ring_traffic(sent_bytes("all_gather", sizes.gathered, plan.cp), whole)
    swapped = all_to_all_traffic(sizes.exchanged, head_exchange_group(plan, inputs))
    forward, backward = (
        combined(np.add, ring_traffic(size, whole), swapped) for size in (sizes.ring_forward, sizes.ring_backward)
    )
    twice = combined(lambda size: 2 * size, gathered)
    return ContextTraffic(_either(gathers, gathered, forward), _either(gathers, twice, backward))


def _either(gathers: BoolColumn, gathered: Traffic, others: Traffic) -> Traffic:
    return combined(lambda one, other: np.where(gathers, one, other), gathered, others)

"""What ranks tell each other of their tokens before these go to their experts."""

from __future__ import annotations

from meshwright.cost.comms.exchange import Message, communicator
from meshwright.cost.routing import routed_experts
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind

COUNTS = "counts of tokens"
COUNT_BYTES = 8
"""Of how many tokens go to one expert, in int64."""


def count_messages(plan: Layout, inputs: Inputs, kind: LayerKind) -> tuple[Message, ...]:
    """What tells the ranks, ahead of an all-to-all, how many tokens each of them sends to every expert.

    E counts of 8 bytes a rank, which all ranks gather or each sends to the rank of the expert, as the runtime does;
    none for another dispatcher, nor with an expert capacity, which pads.

    plan: scalar or array (n,). Returns bytes and seconds. Source: Megatron-LM, core/transformer/moe/token_dispatcher.py
    (MoEAlltoAllTokenDispatcher.preprocess); torchtitan 0.3.0, models/common/token_dispatcher.py.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> (counts,) = count_messages(Plan(dp=8, ep=8), MIXTRAL, MIXTRAL.model.layer_kinds[0])
    >>> counts.operation, float(counts.bytes)  # of 8 ranks for 8 experts
    ('all_gather', 512.0)
    """
    exchanged, size = inputs.runtime.communication.exchanged_counts, 1.0 * COUNT_BYTES * routed_experts(kind).count
    if exchanged == "none" or inputs.dispatcher != "all_to_all" or inputs.expert_capacity is not None:
        return ()
    if exchanged == "all_to_all":
        return (communicator("ep", plan, inputs).message("all_to_all", COUNTS, size),)
    return (communicator("ep_etp", plan, inputs).message("all_gather", COUNTS, size * plan.ep * plan.etp),)

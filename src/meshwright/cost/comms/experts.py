"""Expert parallelism: bringing the tokens of a layer to their experts and the results back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, Numbers
from meshwright.cost.comms.all_to_all import all_to_all_time
from meshwright.cost.comms.collectives import collective_time
from meshwright.cost.comms.fused import fused_time
from meshwright.cost.comms.group import expert_group, expert_set_group, expert_tensor_group
from meshwright.cost.comms.overlap import exposed_time
from meshwright.cost.compute.layer import LayerTime
from meshwright.cost.element import HALF_BYTES
from meshwright.cost.expert_rows import routed_rows
from meshwright.cost.repeated import repeated_parts
from meshwright.cost.shard import residual_tokens
from meshwright.layout.plan import Recompute
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


class Exchange(NamedTuple):
    """Seconds of one exchange of the tokens of one layer and micro-batch; each field scalar or array (n,)."""

    dispatch: Floats
    """Tokens to their experts."""
    combine: Floats
    """Results back to their tokens."""


class ExchangeTime(NamedTuple):
    """Exposed seconds of the exchanges of one layer and micro-batch; each field scalar or array (n,)."""

    forward: Floats
    backward: Floats
    """With what recomputation sends again."""


def exposed_exchange_time(plan: Layout, inputs: Inputs, kind: LayerKind, layer: LayerTime) -> ExchangeTime:
    """Exposed seconds of bringing tokens to their experts and back, in both directions; nothing for a dense layer.

    Dispatch and combine once forward and once backward, beside the opposite pass of another micro-batch where the
    runtime overlaps them; recomputation of whole layers or of the whole mixture repeats the forward ones. A dispatch
    carries `Inputs.dispatch_bytes` an element, a combine 2. Quantising is priced as ahead of the products, so that what
    a quantised dispatch saves there (T rows instead of T k) is left out.
    plan: scalar or array (n,); layer: its compute, for the windows. Returns seconds.
    Source: Megatron-LM, --overlap-moe-expert-parallel-comm; DeepSeek-V3, arXiv:2412.19437, section 3.3.3.
    """
    if not kind.is_moe:
        return ExchangeTime(0.0, 0.0)
    tokens, share = residual_tokens(plan, inputs), inputs.runtime.overlap.expert
    there, back = (sum(expert_exchange_time(plan, inputs, kind, tokens, width)) for width in inputs.dispatch_bytes)
    forward = exposed_time(there, layer.backward.total, share, 0.0, inputs)
    backward = exposed_time(back, layer.forward.total, share, 0.0, inputs)
    again = np.equal(plan.recompute, Recompute.FULL) + repeated_parts(plan, kind).experts
    return ExchangeTime(forward, backward + again * forward)


def expert_exchange_time(plan: Layout, inputs: Inputs, kind: LayerKind, tokens: Numbers, width: Numbers) -> Exchange:
    """Seconds that one layer of experts takes to exchange the tokens of one micro-batch in forward.

    By the runtime's dispatcher: `all_to_all_exchange`, `all_gather_exchange` or `fused_time`. What is combined has
    2-byte elements whatever is dispatched. Backward takes the same ways with the gradients: a combine for the dispatch
    and a dispatch for the combine.

    plan: scalar or array (n,); tokens: T that enter the layer on one rank, b s / (c t) with sequence parallelism;
    width: bytes of one dispatched element, with its share of scales. Returns seconds.
    """
    if inputs.runtime.communication.dispatcher == "all_gather":
        return all_gather_exchange(plan, inputs, tokens, width)
    if inputs.runtime.communication.dispatcher == "all_to_all":
        return all_to_all_exchange(plan, inputs, kind, tokens, width)
    dispatch = fused_time(plan, inputs, kind, tokens, width)
    return Exchange(dispatch, fused_time(plan, inputs, kind, tokens, HALF_BYTES))


def all_to_all_exchange(plan: Layout, inputs: Inputs, kind: LayerKind, tokens: Numbers, width: Numbers) -> Exchange:
    """Seconds of permuting tokens to their experts: an all-to-all over ep, then an all-gather over etp; and back.

    A rank holds T k h elements for the all-to-all, of which (EP - 1) / EP leave it, and ETP times as many after the
    all-gather; the busiest rank, or a capacity, changes both as `routed_rows` says.

    plan: scalar or array (n,); tokens: T on one rank; width: bytes of one dispatched element. Returns seconds.
    Source: Megatron-LM, core/transformer/moe/token_dispatcher.py (MoEAlltoAllTokenDispatcher).
    """
    cluster, hidden = inputs.cluster, inputs.model.hidden_size
    gathered = hidden * routed_rows(plan, inputs, kind, tokens).hottest
    permuted, experts, slices = gathered / plan.etp, expert_group(plan, inputs), expert_tensor_group(plan, inputs)
    dispatch = all_to_all_time(permuted * width, experts, cluster)
    dispatch = dispatch + collective_time("all_gather", gathered * width, slices, cluster)
    combine = all_to_all_time(permuted * HALF_BYTES, experts, cluster)
    combine = combine + collective_time("reduce_scatter", gathered * HALF_BYTES, slices, cluster)
    return Exchange(dispatch, combine)


def all_gather_exchange(plan: Layout, inputs: Inputs, tokens: Numbers, width: Numbers) -> Exchange:
    """Seconds of showing every token to every rank: an all-gather over ep and etp together, and a reduce-scatter back.

    A rank receives the (EP ETP - 1) T h elements of the others, however many experts a token visits.

    plan: scalar or array (n,); tokens: T on one rank; width: bytes of one dispatched element. Returns seconds.
    Source: Megatron-LM, core/transformer/moe/token_dispatcher.py (MoEAllGatherTokenDispatcher).
    """
    group = expert_set_group(plan, inputs)
    gathered = 1.0 * group.ranks * tokens * inputs.model.hidden_size
    return Exchange(
        collective_time("all_gather", gathered * width, group, inputs.cluster),
        collective_time("reduce_scatter", gathered * HALF_BYTES, group, inputs.cluster),
    )

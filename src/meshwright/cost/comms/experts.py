"""Expert parallelism: bringing the tokens of a layer to their experts and the results back."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Floats, Numbers, larger, smaller, some, where
from meshwright.cost.batch_overlap import overlap_share, overlaps_micro_batches, unpaired_share
from meshwright.cost.comms.collectives import operation_time
from meshwright.cost.comms.exchange import Communicator, Exchange, Message, communicator
from meshwright.cost.comms.expert_counts import count_messages
from meshwright.cost.comms.group import Traffic, axis_group
from meshwright.cost.comms.sends import link_bandwidth
from meshwright.cost.compute.layer import LayerTime
from meshwright.cost.repeated import repeated_parts
from meshwright.cost.routing import fused_copies, hottest_over_mean, reached_blocks, routed_experts, routed_rows
from meshwright.cost.shard import routed_tokens
from meshwright.layout.plans import Layout
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.kernels import ExpertExchangeConstants, Operation
from meshwright.specs.model import LayerKind
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES

CHUNK_TOKENS = 64
"""Of the combines that `combined_token_s` was measured of, by which the time for a token falls in proportion."""
TOKENS = "tokens"
RESULTS = "results of experts"
SCORES = "scores of tokens"


class TokenMessages(NamedTuple):
    """What the ranks of one layer of experts send each other for one micro-batch."""

    dispatch: tuple[Message, ...]
    """Tokens to their experts."""
    combine: tuple[Message, ...]
    """Results back to their tokens."""


def expert_exchanges(plan: Layout, inputs: Inputs, kind: LayerKind, layer: LayerTime) -> tuple[Exchange, ...]:
    """Exchanges that bring tokens to their experts and back, in both directions; none for a dense layer.

    Dispatch and combine once forward and once backward, beside the opposite pass of another micro-batch where runtime
    and plan overlap them (`overlaps_micro_batches`) and there is one (`unpaired_share`). Recomputation of whole layers
    or of the whole mixture repeats the forward ones, and that by products where the runtime does (`repeats_exchanges`),
    the combine as the runtime's `recomputes_combine` has it.
    A dispatch carries `Inputs.dispatch_bytes` an element, a combine 2, and `count_messages` go ahead of them in
    forward. Quantising is priced as ahead of the products, so that what a quantised dispatch saves there (T rows
    instead of T k) is left out.
    plan: scalar or array (n,); layer: its compute, for the windows, seconds. Returns bytes and seconds.
    Source: Megatron-LM, --overlap-moe-expert-parallel-comm; DeepSeek-V3, arXiv:2412.19437, section 3.3.3.

    >>> from meshwright.cost.compute.layer import layer_time
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> plan, kind = Plan(dp=8, ep=8), MIXTRAL.model.layer_kinds[0]
    >>> exchanges = expert_exchanges(plan, MIXTRAL, kind, layer_time(plan, MIXTRAL, kind))
    >>> [(each.phase, float(each.times), len(each.messages)) for each in exchanges]
    [('forward', 1.0, 6), ('recompute', 0.0, 6), ('backward', 1.0, 5)]
    """
    if not kind.is_moe:
        return ()
    tokens = routed_tokens(plan, inputs)
    share = overlaps_micro_batches(plan, inputs, kind) * overlap_share(inputs)
    of_width = {width: token_messages(plan, inputs, kind, tokens, width) for width in {*inputs.dispatch_bytes}}
    there, back = (of_width[width] for width in inputs.dispatch_bytes)
    again = (plan.recompute == Recompute.FULL) + repeated_parts(plan, kind).experts
    if inputs.runtime.activations.exchanges_again(kind.attention):
        again = again + (plan.recompute == Recompute.SELECTIVE)
    sent = *count_messages(plan, inputs, kind), *there.dispatch
    sent_again = sent if inputs.runtime.activations.recomputes_combine == "none" else (*sent, *there.combine)
    beside = Exchange(
        "ep",
        "forward",
        (*sent, *there.combine),
        window=layer.backward.total,
        share=share,
        unpaired=unpaired_share(plan) if some(share) else 0.0,
    )
    return (
        beside,
        beside._replace(phase="recompute", messages=sent_again, times=again),
        beside._replace(phase="backward", messages=(*back.dispatch, *back.combine), window=layer.forward.total),
    )


def token_messages(plan: Layout, inputs: Inputs, kind: LayerKind, tokens: Numbers, width: Numbers) -> TokenMessages:
    """What one layer of experts exchanges of the tokens of one micro-batch in forward, by the runtime's dispatcher.

    What is combined has 2-byte elements whatever is dispatched. Backward takes the same ways with the gradients: a
    combine for the dispatch and a dispatch for the combine.

    plan: scalar or array (n,); tokens: T that enter the layer on one rank, b s / (c t) with sequence parallelism;
    width: bytes of one dispatched element, with its share of scales. Returns bytes, the mean of the ranks, and seconds,
    of the busiest. Source: Megatron-LM, core/transformer/moe/token_dispatcher.py.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> kind = MIXTRAL.model.layer_kinds[0]
    >>> messages = token_messages(Plan(dp=8, ep=8), MIXTRAL, kind, tokens=4096, width=2)
    >>> [each.operation for each in (*messages.dispatch, *messages.combine)]
    ['all_to_all', 'all_gather', 'all_to_all', 'all_to_all', 'reduce_scatter']
    """
    if inputs.dispatcher == "all_gather":
        return all_gather_messages(plan, inputs, tokens, width)
    if inputs.dispatcher == "all_to_all":
        return all_to_all_messages(plan, inputs, kind, tokens, width)
    return TokenMessages(
        dispatch=(fused_message("dispatch", TOKENS, plan, inputs, kind, tokens, width),),
        combine=(fused_message("combine", RESULTS, plan, inputs, kind, tokens, HALF_BYTES),),
    )


def all_to_all_messages(
    plan: Layout, inputs: Inputs, kind: LayerKind, tokens: Numbers, width: Numbers
) -> TokenMessages:
    """Permuting tokens to their experts: an all-to-all over ep, then an all-gather over etp; and back.

    A rank holds T k h elements for the all-to-all, of which (EP - 1) / EP leave it, and ETP times as many after the
    all-gather; the busiest rank, or a capacity, changes both as `routed_rows` says. Where the runtime sends the scores
    too, T k of 4 bytes each go to the experts by one more all-to-all.

    plan: scalar or array (n,); tokens: T on one rank, count; width: bytes of one dispatched element. Returns bytes and
    seconds. Source: Megatron-LM, core/transformer/moe/token_dispatcher.py (MoEAlltoAllTokenDispatcher).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> kind = MIXTRAL.model.layer_kinds[0]
    >>> messages = all_to_all_messages(Plan(dp=8, ep=8), MIXTRAL, kind, tokens=4096, width=2)
    >>> [float(each.bytes) for each in messages.dispatch]  # 2 bytes of 4096 tokens, 2 experts and 4096 elements
    [67108864.0, 67108864.0, 32768.0]
    """
    gathered = inputs.model.hidden_size * routed_rows(plan, inputs, kind, tokens).mean
    experts, slices = communicator("ep", plan, inputs), communicator("etp", plan, inputs)
    busiest, permuted = hottest_over_mean(plan, inputs, kind, tokens), gathered / plan.etp
    scores = FP32_BYTES * permuted / inputs.model.hidden_size
    sent = (_of_busiest(experts, "all_to_all", SCORES, scores, busiest),)
    return TokenMessages(
        dispatch=(
            _of_busiest(experts, "all_to_all", TOKENS, permuted * width, busiest),
            _of_busiest(slices, "all_gather", TOKENS, gathered * width, busiest),
            *(sent if inputs.runtime.communication.exchanges_scores else ()),
        ),
        combine=(
            _of_busiest(experts, "all_to_all", RESULTS, permuted * HALF_BYTES, busiest),
            _of_busiest(slices, "reduce_scatter", RESULTS, gathered * HALF_BYTES, busiest),
        ),
    )


def _of_busiest(ranks: Communicator, operation: Operation, content: str, size: Numbers, busiest: Numbers) -> Message:
    """A message of `size` bytes on the mean of the ranks, with the seconds of the busiest one."""
    seconds = operation_time(operation, size * busiest, ranks.group, ranks.cluster)
    return Message(ranks.axis, operation, content, bytes=size, seconds=seconds)


def all_gather_messages(plan: Layout, inputs: Inputs, tokens: Numbers, width: Numbers) -> TokenMessages:
    """Showing every token to every rank: an all-gather over ep and etp together, and a reduce-scatter back.

    A rank receives the (EP ETP - 1) T h elements of the others, however many experts a token visits.

    plan: scalar or array (n,); tokens: T on one rank, count; width: bytes of one dispatched element. Returns bytes and
    seconds. Source: Megatron-LM, core/transformer/moe/token_dispatcher.py (MoEAllGatherTokenDispatcher).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> messages = all_gather_messages(Plan(dp=8, ep=8), MIXTRAL, tokens=4096, width=2)
    >>> float(messages.dispatch[0].bytes) / (8 * 4096 * 4096)  # bytes an element of 8 ranks' tokens
    2.0
    """
    ranks = communicator("ep_etp", plan, inputs)
    gathered = 1.0 * ranks.group.ranks * tokens * inputs.model.hidden_size
    return TokenMessages(
        dispatch=(ranks.message("all_gather", TOKENS, gathered * width),),
        combine=(ranks.message("reduce_scatter", RESULTS, gathered * HALF_BYTES),),
    )


def fused_traffic(plan: Layout, inputs: Inputs, kind: LayerKind, tokens: Numbers, width: Numbers) -> Traffic:
    """What one rank sends in one dispatch, on average.

    A token of h elements reaches R ranks (`fused_copies`) on N nodes, as `reached_blocks` expects. Of n ranks, m in a
    node, T N (n - m) / n copies leave the node, and T R (m - 1) / m go on inside one.

    plan: scalar or array (n,); tokens: T on one rank; width: bytes of one element. Returns bytes.
    Source: deepseek-ai/DeepEP@0297fc80, docs/legacy.md.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> kind = MIXTRAL.model.layer_kinds[0]
    >>> traffic = fused_traffic(Plan(dp=8, ep=8), MIXTRAL, kind, tokens=4096, width=2)
    >>> round(float(traffic.inside) / (4096 * 4096 * 2), 3)  # 7 / 8 of 2 ranks a token
    1.75
    """
    experts, group = routed_experts(kind), axis_group("ep_etp", plan, inputs)
    members, blocks = group.members, group.blocks
    holders = smaller(blocks[0], plan.ep)
    nodes = blocks[0] / holders * reached_blocks(experts, holders)
    size = 1.0 * inputs.model.hidden_size * width
    across = tuple(size * tokens * nodes * (group.ranks - each) / group.ranks for each in members[:-1])
    return Traffic(size * fused_copies(plan, kind, tokens) * (members[0] - 1) / members[0], across)


def fused_time(
    operation: str, plan: Layout, inputs: Inputs, kind: LayerKind, tokens: Numbers, traffic: Traffic
) -> Floats:
    """Seconds of one dispatch, or of the combine that takes the same way back.

    In one domain T = t0 + tokens t_token + w / (e B), and a combine of chunks of c tokens at least t0 + tokens t_token
    + (64 / c) N t_combined / p. Over several, T = t1 + max(tokens t_token + w / (f B), w_i / (e_i B_i)): w bytes inside
    the domain, w_i beyond it at every level i crossed, B the bandwidths per rank, N copies of `fused_copies`, c and p
    the runtime's chunks and multiprocessors, shares and times of `exchange_constants`. The busiest rank receives its
    share more.

    operation: dispatch or combine; plan: scalar or array (n,); tokens: on one rank, count; traffic: of `fused_traffic`,
    bytes. Returns seconds. Error on held-out measurements: 4 % median, 11 % p90 inside a node of 8, 14 % median over 2
    nodes and 1 % over 4 (constants' sources).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> plan, kind = Plan(dp=8, ep=8), MIXTRAL.model.layer_kinds[0]
    >>> traffic = fused_traffic(plan, MIXTRAL, kind, tokens=4096, width=2)
    >>> times = [float(fused_time("dispatch", plan, MIXTRAL, kind, tokens, traffic)) for tokens in (0, 4096, 8192)]
    >>> times[0], times[1] < times[2] < 2 * times[1]
    (0.0, True)
    """
    cluster, group = inputs.cluster, axis_group("ep_etp", plan, inputs)
    constants, blocks = exchange_constants(inputs), group.blocks
    busiest = hottest_over_mean(plan, inputs, kind, tokens)
    sending, link = tokens * constants.token_s, link_bandwidth(group.members[0], cluster)
    linked = traffic.inside / (constants.link_efficiency * link)
    if operation == "combine" and constants.combined_token_s:
        communication = inputs.runtime.communication
        chunks = CHUNK_TOKENS / communication.fused_chunk_tokens
        each = chunks * constants.combined_token_s / communication.fused_multiprocessors
        linked = larger(linked, each * fused_copies(plan, kind, tokens))
    alone = constants.latency_s + sending + busiest * linked
    forwarding = sending + busiest * traffic.inside / (constants.forward_efficiency * link)
    for inner, level in enumerate(cluster.levels[1:]):
        crossing = busiest * traffic.across[inner] / (constants.network_efficiency * level.effective_bandwidth)
        forwarding = where(blocks[inner] > 1, larger(forwarding, crossing), forwarding)
    time = where(blocks[0] == 1, alone, constants.network_latency_s + forwarding)
    return where((group.ranks > 1) & (tokens > 0), time, 0.0)


def exchange_constants(inputs: Inputs) -> ExpertExchangeConstants:
    """The accelerator's constants of the kernels that the runtime's fused dispatcher runs.

    Returns shares, seconds. Source: the accelerator's kernel table.

    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> exchange_constants(MIXTRAL) == MIXTRAL.cluster.accelerator.kernels.expert_exchange
    True
    """
    kernels, hybrid = inputs.cluster.accelerator.kernels, inputs.runtime.communication.fused_kernels == "hybrid_ep"
    return kernels.hybrid_exchange if hybrid and kernels.hybrid_exchange else kernels.expert_exchange


def fused_message(
    operation: str, content: str, plan: Layout, inputs: Inputs, kind: LayerKind, tokens: Numbers, width: Numbers
) -> Message:
    """One dispatch or combine of the tokens of one layer and micro-batch; its bytes are what one rank sends.

    operation: dispatch or combine; content: what it carries; plan: scalar or array (n,); tokens: on one rank, count;
    width: bytes of one element. Returns bytes and seconds. Source: `fused_traffic`, `fused_time`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> kind = MIXTRAL.model.layer_kinds[0]
    >>> message = fused_message("dispatch", "tokens", Plan(dp=8, ep=8), MIXTRAL, kind, tokens=4096, width=2)
    >>> round(float(message.bytes) / (4096 * 4096 * 2), 3)  # 7 / 8 of 2 ranks a token
    1.75
    """
    traffic = fused_traffic(plan, inputs, kind, tokens, width)
    seconds = fused_time(operation, plan, inputs, kind, tokens, traffic)
    sent = traffic.inside + sum(traffic.across)
    return Message("ep_etp", operation, content, bytes=sent, seconds=seconds, traffic=traffic)

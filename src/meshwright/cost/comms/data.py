"""Data parallelism: summing the gradients and, with ZeRO, gathering the updated parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, Ints, Numbers, larger, smaller, some, where
from meshwright.cost.comms.exchange import Exchange, Message, communicator, joined, repeated, total_seconds
from meshwright.cost.shard import vocabulary_rows
from meshwright.layout.groups import sharding_ranks
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import HALF_BYTES

GRADIENTS = "gradients"
WEIGHTS = "weights"


class ShardMessages(NamedTuple):
    """What ranks that share weights in shards send each other of some of them."""

    gather: tuple[Message, ...]
    """All-gather of the weights."""
    scatter: tuple[Message, ...]
    """Reduce-scatter of the gradients, and their all-reduce over replicas."""

    def joined(self) -> ShardMessages:
        """One message each that takes as long."""
        return ShardMessages(gather=joined(self.gather), scatter=joined(self.scatter))


class DataExchange(NamedTuple):
    """What data parallelism exchanges of one stage; each number scalar or array (n,)."""

    reduce: tuple[Message, ...]
    """All gradients once."""
    gather: tuple[Message, ...]
    """All parameters once."""
    last_reduced: Floats
    """Seconds of the bucket or chunk of gradients that goes last, which nothing hides."""
    first_gathered: Floats
    """Seconds of the one of parameters that goes first, likewise."""
    passes: Floats
    """Passes of one micro-batch that either may run beside."""
    earlier: Floats
    """Passes of one micro-batch by which the stage ends its backward before the first one does."""

    def joined(self) -> DataExchange:
        """The same with one message each that takes as long."""
        return self._replace(reduce=joined(self.reduce), gather=joined(self.gather))


def data_exchange(
    plan: Layout,
    inputs: Inputs,
    parameters: Numbers,
    stage: Ints,
    experts: Numbers = 0,
    ends: Numbers = 0,
    matrices: Ints = 1,
) -> DataExchange:
    """What one stage's gradients and parameters take, where weights are not gathered for each layer.

    ZeRO 0: one all-reduce of the gradients; from ZeRO 1 on a reduce-scatter of the gradients and an all-gather of the
    parameters as they are stored, in some runtimes a broadcast from every rank that has updated some (`broadcasts`).
    A runtime that sums whole gradients has the all-reduce in place of the reduce-scatter. With sharding groups the
    shards of the gradients are else summed over their replicas. With one chunk a rank they go in buckets of
    max(40e6, 1e6 n) parameters at least, each of which ends with a whole weight, so that they are no more than the
    weights; and a later stage ends its backward earlier by the passes of the stages before it.
    Interleaved, each of v chunks goes whole as soon as the pp micro-batches of its last group are done, beside the
    passes of the other chunks: a window of pp (v - 1) / v passes.

    plan: scalar or array (n,); parameters: that are trained, on the rank, without routed experts; stage: 0 first;
    experts: parameters of routed experts on the rank, summed over fewer ranks; ends: of `parameters`, those that are
    gathered in 2 bytes whatever the recipe, of embedding, head and adapters; matrices: in how many weights they are;
    counts, scalar or array (n,). Returns bytes, seconds and counts. Source: Megatron-LM, distributed_data_parallel.py
    and param_and_grad_buffer.py; torch 2.13, csrc/distributed/c10d/reducer.cpp (compute_bucket_assignment_by_size).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> exchange = data_exchange(Plan(dp=8, zero=1), LLAMA, parameters=1e9, stage=0, matrices=226)
    >>> [(each.operation, float(each.times)) for each in (*exchange.reduce, *exchange.gather)]
    [('all_reduce', 0.0), ('reduce_scatter', 25.0), ('all_reduce', 25.0), ('all_gather', 25.0)]
    """
    runtime, ranks = inputs.runtime, communicator("dp", plan, inputs)
    interleaved, sharded = plan.vpp > 1, plan.zero > 0
    # Buckets of the gradients, or one piece for each chunk.
    bucket = larger(runtime.sharding.gradient_bucket, runtime.sharding.gradient_bucket_per_rank * ranks.group.ranks)
    pieces = where(interleaved, plan.vpp, larger(smaller(np.ceil(parameters / bucket), matrices), 1.0))
    # One all-reduce of each piece, or shards of it; whichever a plan has not goes 0 times.
    scatters = sharded & (not runtime.sharding.sums_whole_gradients)
    whole: Numbers = where(scatters, 0, pieces)
    summed = [ranks.message("all_reduce", GRADIENTS, _gradient_bytes(parameters / pieces, inputs), whole)]
    if some(experts):
        size = _gradient_bytes(experts / pieces, inputs)
        summed.append(communicator("edp", plan, inputs).message("all_reduce", GRADIENTS, size, whole))
    each = parameters / pieces
    shards = shard_messages(plan, inputs, each, experts / pieces, ends / pieces, adapters=each)
    reduce = (*summed, *repeated(shards.scatter, where(scatters, pieces, 0)))
    gather = _gathered_again(plan, inputs, shards.gather, parameters, matrices, pieces)
    return DataExchange(
        reduce=reduce,
        gather=gather,
        last_reduced=total_seconds(reduce) / pieces,
        first_gathered=total_seconds(gather) / pieces,
        passes=where(interleaved, plan.pp * (plan.vpp - 1) / plan.vpp, 1.0),
        earlier=where(interleaved, 0.0, 1.0 * stage),
    )


def _gathered_again(
    plan: Layout, inputs: Inputs, gather: tuple[Message, ...], parameters: Numbers, matrices: Ints, pieces: Numbers
) -> tuple[Message, ...]:
    """What brings updated weights to every rank. gather: of one piece; others as of `data_exchange`."""
    times = where(plan.zero > 0, pieces, 0)
    if not inputs.runtime.sharding.broadcasts_weights:
        return repeated(gather, times)
    first, *routed = gather
    turns = where(plan.zero == 1, broadcasts(plan, matrices), 0)
    size = 1.0 * inputs.gathered_bytes * parameters / larger(turns, 1)
    each = communicator("dp_shard", plan, inputs).message("broadcast", WEIGHTS, size)
    whole = repeated((first,), where(turns > 0, 0, times))
    return (*repeated((each,), turns), *whole, *repeated(routed, times))


def broadcasts(plan: Layout, matrices: Ints) -> Ints:
    """Ranks of a sharding group that have updated weights to broadcast, where weights are dealt to ranks whole.

    min(n, k) of n ranks and k weights: with more ranks than weights the others have none.
    plan: scalar or array (n,); matrices: k, count. Returns a count. Source: InternEvo, internlm/core/communication/
    utils.py (ParamAsyncBcastHandler: the next rank as soon as one has its share); norms and biases go with the others.

    >>> from meshwright.layout.plan import Plan
    >>> [int(broadcasts(Plan(dp=dp, zero=1), matrices=162)) for dp in (8, 1024)]
    [8, 162]
    """
    return smaller(sharding_ranks(plan), matrices)


def earlier_reductions(plan: Layout) -> Floats:
    """Reductions of gradients in a step before that of the last micro-batch: m - 1 with ZeRO 2, else none.

    plan: scalar or array (n,). Returns a count. Source: Rajbhandari et al., arXiv:1910.02054, section 7.2.

    >>> from meshwright.layout.plan import Plan
    >>> [float(earlier_reductions(Plan(zero=zero, num_microbatches=8))) for zero in (0, 2)]
    [0.0, 7.0]
    """
    return where(plan.zero == 2, plan.num_microbatches - 1.0, 0.0)


def data_exchanges(
    exchange: DataExchange, inputs: Inputs, forward: Floats, backward: Floats, reductions: Floats
) -> tuple[Exchange, ...]:
    """Exchanges per step of one stage's gradients and parameters, where weights are not gathered for each layer.

    Gradients go beside the backward of the last micro-batch and parameters beside the forward of the first; gradients
    also after each micro-batch before the last one that `earlier_reductions` says.

    exchange: of `data_exchange`; forward, backward: compute of one micro-batch on the stage, seconds; reductions:
    before the last, counts; scalar or array (n,). Returns bytes and seconds.
    Source: Megatron-LM, distributed_data_parallel.py and schedules.py (enable_grad_sync, param_sync_func).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> exchange = data_exchange(Plan(dp=8, zero=1), LLAMA, parameters=1e9, stage=0)
    >>> _, last, gather = data_exchanges(exchange, LLAMA, forward=0.1, backward=0.2, reductions=0)
    >>> float(last.window), float(gather.window)  # seconds that may hide them
    (0.2, 0.1)
    """
    reduce, gather, last, first, passes, earlier = exchange
    share = inputs.runtime.overlap.data_parallel
    before = Exchange("dp", "step", reduce, times=reductions, window=backward, share=share, unhidden=last)
    return (
        before,
        before._replace(times=1, window=passes * backward, slack=earlier * backward),
        Exchange("dp", "step", gather, window=passes * forward, share=share, unhidden=first, slack=earlier * forward),
    )


def shard_messages(
    plan: Layout,
    inputs: Inputs,
    parameters: Numbers,
    experts: Numbers = 0,
    ends: Numbers = 0,
    adapters: Numbers = 0,
) -> ShardMessages:
    """One reduce-scatter of the gradients of some parameters, and one all-gather of their weights.

    Over a sharding group; with replicas of it 1/n of the gradients is then summed over these. Weights are gathered in 2
    bytes, or those of layers as the recipe says where they are stored in quantised form alone.
    plan: scalar or array (n,); parameters: on the rank before data parallelism, without routed experts; experts: those
    of routed experts, which fewer ranks hold alike; ends: of `parameters`, those of embedding and head; adapters: of
    `parameters`, those of adapters, whose gradients are the only ones where weights are frozen; counts. Returns bytes
    and seconds. Source: Zhao et al., arXiv:2304.11277, sections 3 and 3.2.2 (hybrid sharding).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> messages = shard_messages(Plan(dp=8, zero=3), LLAMA, parameters=1e9)
    >>> [(each.operation, float(each.bytes)) for each in (*messages.gather, *messages.scatter)]
    [('all_gather', 2000000000.0), ('reduce_scatter', 4000000000.0), ('all_reduce', 500000000.0)]
    """
    messages = _shard_messages("dp", plan, inputs, parameters, ends)
    if some(experts):
        routed = _shard_messages("edp", plan, inputs, experts, 0)
        messages = ShardMessages(messages.gather + routed.gather, messages.scatter + routed.scatter)
    if inputs.freezes_weights:
        trained = _shard_messages("dp", plan, inputs, adapters, 0).scatter
        messages = messages._replace(scatter=repeated(trained, where(adapters > 0, 1, 0)))
    return messages


def _shard_messages(axis: str, plan: Layout, inputs: Inputs, parameters: Numbers, ends: Numbers) -> ShardMessages:
    shards, replicas = (communicator(f"{axis}_{part}", plan, inputs) for part in ("shard", "replicate"))
    gradients = _gradient_bytes(parameters, inputs)
    weights = inputs.gathered_bytes * (parameters - ends) + 1.0 * HALF_BYTES * ends
    scatter = (
        shards.message("reduce_scatter", GRADIENTS, gradients),
        replicas.message("all_reduce", GRADIENTS, gradients / shards.group.ranks),
    )
    return ShardMessages(gather=(shards.message("all_gather", WEIGHTS, weights),), scatter=scatter)


def _gradient_bytes(parameters: Numbers, inputs: Inputs) -> Floats:
    return 1.0 * inputs.summed_bytes * parameters


def shares_embedding(inputs: Inputs) -> bool:
    """Whether the first and the last stage both hold the embedding: the head is tied to it, or multi-token prediction
    embeds tokens. Returns a truth. Source: `tied_embedding_exchange`.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> shares_embedding(LLAMA)
    False
    """
    return inputs.model.tied_embeddings or inputs.mtp_layers > 0


def tied_embedding_exchange(plan: Layout, inputs: Inputs) -> Exchange:
    """The sum of the gradient of embeddings that the first and the last stage share, once a step.

    One all-reduce of the gradient of a rank's rows between the two ranks, where they share it (`shares_embedding`);
    nothing where one rank holds both ends, or weights are frozen. plan: scalar or array (n,).
    Returns bytes and seconds.
    Source: Megatron-LM, finalize_model_grads.py, _allreduce_word_embedding_grads.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> (message,) = tied_embedding_exchange(Plan(pp=2), LLAMA).messages
    >>> float(message.bytes)  # its head is its own
    0.0
    """
    shard = vocabulary_rows(plan, inputs).embedding * inputs.model.hidden_size
    size = 1.0 * inputs.gradient_bytes * shard * (shares_embedding(inputs) and not inputs.freezes_weights)
    message = communicator("embedding", plan, inputs).message("all_reduce", GRADIENTS, size)
    return Exchange("dp", "step", (message,))

"""Data parallelism: summing the gradients and, with ZeRO, gathering the updated parameters."""

from __future__ import annotations

import operator
from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, Ints, Numbers
from meshwright.cost.comms.collectives import collective_time
from meshwright.cost.comms.group import Holders, expert_holders, holders
from meshwright.cost.comms.group import group as group_of
from meshwright.cost.comms.overlap import exposed_time
from meshwright.cost.element import HALF_BYTES
from meshwright.cost.shard import vocabulary_shard
from meshwright.cost.tree import combined
from meshwright.layout.groups import stride
from meshwright.layout.plans import Layout
from meshwright.layout.stages import ends_apart
from meshwright.specs.inputs import Inputs


class DataExchange(NamedTuple):
    """What data parallelism exchanges of one stage; each field scalar or array (n,)."""

    pieces: Numbers
    """Buckets or chunks that go one by one."""
    reduced: Floats
    """Seconds of all gradients once."""
    gathered: Floats
    """Seconds of all parameters once."""
    passes: Floats
    """Passes of one micro-batch that either may run beside."""
    earlier: Ints
    """Passes of one micro-batch by which the stage ends its backward before the first one does."""


def data_exchange(
    plan: Layout, inputs: Inputs, parameters: Numbers, stage: Ints, experts: Numbers = 0, ends: Numbers = 0
) -> DataExchange:
    """What one stage's gradients and parameters take, where weights are not gathered for each layer.

    ZeRO 0: one all-reduce of the gradients; from ZeRO 1 on a reduce-scatter of the gradients and an all-gather of the
    parameters as they are stored. A runtime that sums whole gradients has the all-reduce in place of the
    reduce-scatter. With sharding groups the shards of the gradients are else summed over their replicas. With one chunk
    a rank they go in buckets of max(40e6, 1e6 n) parameters, and a later stage ends its backward earlier by the passes
    of the stages before it. Interleaved, each of v chunks goes whole as soon as the pp micro-batches of its last group
    are done, beside the passes of the other chunks: a window of pp (v - 1) / v passes.

    plan: scalar or array (n,); parameters: on the rank, without routed experts; stage: 0 first; experts: parameters of
    routed experts on the rank, summed over fewer ranks; ends: of `parameters`, those of embedding and head; scalar or
    array (n,). Returns seconds and counts.
    Source: Megatron-LM, distributed_data_parallel.py.
    """
    runtime, held = inputs.runtime, holders(plan, inputs)
    interleaved, sharded = np.greater(plan.vpp, 1), np.greater(plan.zero, 0)
    bucket = np.maximum(runtime.sharding.gradient_bucket, runtime.sharding.gradient_bucket_per_rank * held.all.ranks)
    pieces = np.where(interleaved, plan.vpp, np.maximum(np.ceil(parameters / bucket), 1.0))
    summed = sum_time(parameters / pieces, held, inputs)
    scattered, collected = shard_times(parameters / pieces, held, inputs, ends / pieces)
    if np.any(experts):
        alike = expert_holders(plan, inputs)
        summed = summed + sum_time(experts / pieces, alike, inputs)
        scattered, collected = combined(
            operator.add, (scattered, collected), shard_times(experts / pieces, alike, inputs)
        )
    return DataExchange(
        pieces,
        pieces * np.where(sharded & (not runtime.sharding.sums_whole_gradients), scattered, summed),
        pieces * np.where(sharded, collected, 0.0),
        np.where(interleaved, plan.pp * (plan.vpp - 1) / plan.vpp, 1.0),
        np.where(interleaved, 0.0, stage),
    )


def earlier_reductions(plan: Layout) -> Ints:
    """Reductions of gradients in a step before that of the last micro-batch: m - 1 with ZeRO 2, else none.

    plan: scalar or array (n,). Returns a count. Source: Rajbhandari et al., arXiv:1910.02054, section 7.2.
    """
    return np.where(np.equal(plan.zero, 2), plan.num_microbatches - 1.0, 0.0)


def exposed_data_time(
    exchange: DataExchange, inputs: Inputs, forward: Floats, backward: Floats, reductions: Ints
) -> Floats:
    """Exposed seconds per step of one stage's gradients and parameters, where weights are not gathered for each layer.

    Gradients go beside the backward of the last micro-batch and parameters beside the forward of the first; gradients
    also after each micro-batch before the last one that `earlier_reductions` says.

    exchange: of `data_exchange`; forward, backward: compute of one micro-batch on the stage, seconds; reductions:
    before the last; scalar or array (n,). Returns seconds.
    Source: Megatron-LM, distributed_data_parallel.py and schedules.py (enable_grad_sync, param_sync_func).
    """
    pieces, reduced, gathered, passes, earlier = exchange
    share = inputs.runtime.overlap.data_parallel
    exposed: Floats = reductions * exposed_time(reduced, backward, share, reduced / pieces, inputs)
    for time, one_pass in ((reduced, backward), (gathered, forward)):
        late = exposed_time(time, passes * one_pass, share, time / pieces, inputs)
        exposed = exposed + np.maximum(late - earlier * one_pass, 0.0)
    return exposed


def sum_time(parameters: Numbers, holding: Holders, inputs: Inputs) -> Floats:
    """Seconds of one all-reduce of the gradients of some parameters over all ranks that hold them.

    parameters: count, scalar or array (n,); holding: the ranks. Returns seconds.
    """
    return collective_time("all_reduce", 1.0 * inputs.gradient_bytes * parameters, holding.all, inputs.cluster)


def shard_times(parameters: Numbers, holding: Holders, inputs: Inputs, ends: Numbers = 0) -> tuple[Floats, Floats]:
    """Seconds of one reduce-scatter of the gradients of some parameters, and of one all-gather of their weights.

    Over a sharding group; with replicas of it 1/n of the gradients is then summed over these. Weights are gathered in 2
    bytes, or those of layers as the recipe says where they are stored in quantised form alone.
    parameters: count, scalar or array (n,); holding: the ranks; ends: of them, those of embedding and head. Returns
    seconds. Source: Zhao et al., arXiv:2304.11277, sections 3 and 3.2.2 (hybrid sharding).
    """
    gradients, cluster = 1.0 * inputs.gradient_bytes * parameters, inputs.cluster
    scattered = collective_time("reduce_scatter", gradients, holding.shards, cluster)
    if np.any(np.greater(holding.replicas.ranks, 1)):
        scattered = scattered + collective_time(
            "all_reduce", gradients / holding.shards.ranks, holding.replicas, cluster
        )
    weights = inputs.gathered_bytes * (parameters - ends) + 1.0 * HALF_BYTES * ends
    return scattered, collective_time("all_gather", weights, holding.shards, cluster)


def tied_embedding_time(plan: Layout, inputs: Inputs) -> Floats:
    """Seconds per step of summing the gradient of embeddings that the first and the last stage share.

    One all-reduce of the vocabulary shard's gradient between the two ranks, where the head is tied or multi-token
    prediction embeds tokens on the last stage; nothing where one rank holds both ends. plan: scalar or array (n,).
    Returns seconds.
    Source: Megatron-LM, finalize_model_grads.py, _allreduce_word_embedding_grads.
    """
    shard = vocabulary_shard(plan, inputs) * inputs.model.hidden_size
    distance = stride(plan, "pp", inputs.runtime.plans.rank_order) * np.maximum(plan.pp - 1, 1)
    ends = group_of(np.where(ends_apart(plan), 2, 1), distance, inputs.cluster)
    size = 1.0 * inputs.gradient_bytes * shard * (inputs.model.tied_embeddings or inputs.mtp_layers > 0)
    return collective_time("all_reduce", size, ends, inputs.cluster)

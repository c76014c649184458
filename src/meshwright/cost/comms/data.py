"""Data parallelism: summing the gradients and, with ZeRO, gathering the updated parameters."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Ints, Numbers
from meshwright.cost.comms.collectives import collective_time
from meshwright.cost.comms.group import (
    data_group,
    expert_data_group,
    expert_replica_group,
    expert_sharding_group,
    replica_group,
    sharding_group,
)
from meshwright.cost.comms.group import group as group_of
from meshwright.cost.comms.overlap import exposed_time
from meshwright.cost.element import HALF_BYTES
from meshwright.cost.shard import vocabulary_shard
from meshwright.layout.groups import expert_sharding_ranks, sharding_ranks, stride
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs


def exposed_data_time(
    plan: Layout,
    inputs: Inputs,
    parameters: Numbers,
    forward: Floats,
    backward: Floats,
    stage: Ints,
    experts: Numbers = 0,
) -> Floats:
    """Exposed seconds per step of one stage's gradients and parameters, where weights are not gathered for each layer.

    ZeRO 0: one all-reduce of the gradients; ZeRO 1: a reduce-scatter of the gradients and an all-gather of the 2-byte
    parameters, once per step; ZeRO 2: the reduce-scatter after every micro-batch. With sharding groups the shards of
    the gradients are then summed over their replicas. With one chunk a rank they go in buckets of max(40e6, 1e6 n)
    parameters, gradients beside the backward of the last micro-batch and parameters beside the forward of the first,
    and a later stage ends its
    backward earlier by the passes of the stages before it. Interleaved, each of v chunks goes whole as soon as the pp
    micro-batches of its last group are done, beside the passes of the other chunks: a window of pp (v - 1) / v passes.

    plan: scalar or array (n,); parameters: on the rank, without routed experts; forward, backward: compute of one
    micro-batch on the stage, seconds; stage: 0 first; experts: parameters of routed experts on the rank, summed over
    fewer ranks; scalar or array (n,). Returns seconds.
    Source: Megatron-LM, distributed_data_parallel.py and schedules.py (enable_grad_sync, param_sync_func).
    """
    runtime, cluster, group = inputs.runtime, inputs.cluster, data_group(plan, inputs)
    interleaved = np.greater(plan.vpp, 1)
    bucket = np.maximum(runtime.gradient_bucket, runtime.gradient_bucket_per_rank * group.ranks)
    pieces = np.where(interleaved, plan.vpp, np.maximum(np.ceil(parameters / bucket), 1.0))
    gradients, weights = 1.0 * inputs.gradient_bytes * parameters, 1.0 * HALF_BYTES * parameters
    summed = pieces * collective_time("all_reduce", gradients / pieces, group, cluster)
    shards = sharding_group(plan, inputs)
    scattered = pieces * collective_time("reduce_scatter", gradients / pieces, shards, cluster)
    scattered = scattered + pieces * replicas_time(plan, inputs, gradients / pieces)
    collected = pieces * collective_time("all_gather", weights / pieces, shards, cluster)
    alike, sharded = expert_data_group(plan, inputs), np.greater(plan.zero, 0)
    routed, fetched = 1.0 * inputs.gradient_bytes * experts, 1.0 * HALF_BYTES * experts
    summed = summed + pieces * collective_time("all_reduce", routed / pieces, alike, cluster)
    shards = expert_sharding_group(plan, inputs)
    scattered = scattered + pieces * collective_time("reduce_scatter", routed / pieces, shards, cluster)
    scattered = scattered + pieces * expert_replicas_time(plan, inputs, routed / pieces)
    collected = collected + pieces * collective_time("all_gather", fetched / pieces, shards, cluster)
    reduced, gathered = np.where(sharded, scattered, summed), np.where(sharded, collected, 0.0)
    every = np.where(np.equal(plan.zero, 2), plan.num_microbatches - 1.0, 0.0)
    passes = np.where(interleaved, plan.pp * (plan.vpp - 1) / plan.vpp, 1.0)
    earlier = np.where(interleaved, 0.0, stage)
    exposed: Floats = every * exposed_time(reduced, backward, runtime.overlap.data_parallel, reduced / pieces, inputs)
    for time, one_pass in ((reduced, backward), (gathered, forward)):
        late = exposed_time(time, passes * one_pass, runtime.overlap.data_parallel, time / pieces, inputs)
        exposed = exposed + np.maximum(late - earlier * one_pass, 0.0)
    return exposed


def replicas_time(plan: Layout, inputs: Inputs, gradients: Numbers) -> Floats:
    """Seconds of summing the shard that a sharding group has reduced over its replicas: an all-reduce of 1/n of it.

    plan: scalar or array (n,); gradients: bytes before the reduce-scatter. Returns seconds.
    Source: Zhao et al., arXiv:2304.11277, section 3.2.2 (hybrid sharding).
    """
    shard = gradients / sharding_ranks(plan)
    return collective_time("all_reduce", shard, replica_group(plan, inputs), inputs.cluster)


def expert_replicas_time(plan: Layout, inputs: Inputs, gradients: Numbers) -> Floats:
    """Seconds of summing the shard of routed experts over its replicas, as `replicas_time` does for other weights.

    plan: scalar or array (n,); gradients: bytes before the reduce-scatter. Returns seconds.
    """
    shard = gradients / expert_sharding_ranks(plan)
    return collective_time("all_reduce", shard, expert_replica_group(plan, inputs), inputs.cluster)


def tied_embedding_time(plan: Layout, inputs: Inputs) -> Floats:
    """Seconds per step of summing the gradient of tied embeddings over the first and the last stage.

    One all-reduce of the vocabulary shard's gradient between the two ranks; nothing without tied embeddings or
    pipeline. plan: scalar or array (n,). Returns seconds.
    Source: Megatron-LM, finalize_model_grads.py, _allreduce_word_embedding_grads.
    """
    shard = vocabulary_shard(plan, inputs) * inputs.model.hidden_size
    distance = stride(plan, "pp", inputs.runtime.rank_order) * np.maximum(plan.pp - 1, 1)
    ends = group_of(np.minimum(plan.pp, 2), distance, inputs.cluster)
    size = 1.0 * inputs.gradient_bytes * shard * inputs.model.tied_embeddings
    return collective_time("all_reduce", size, ends, inputs.cluster)

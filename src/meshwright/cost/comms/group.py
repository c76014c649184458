"""Group: an axis laid over the levels of links of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from meshwright.arrays import Ints
from meshwright.layout.groups import (
    context_split,
    expert_data_ranks,
    expert_sharding_ranks,
    expert_stride,
    placement,
    sharding_ranks,
    stride,
)
from meshwright.layout.plans import Layout
from meshwright.layout.stages import ends_apart
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs


class Group(NamedTuple):
    """The communicators of one axis; each field scalar or array (n,)."""

    ranks: Ints
    members: tuple[Ints, ...]
    """Per level: ranks of the group in the block where it has the fewest."""
    blocks: tuple[Ints, ...]
    """Per level: blocks that the widest group touches."""


def group(ranks: Ints, distance: Ints, cluster: Cluster) -> Group:
    """The placement of groups of `ranks` members, `distance` ranks apart, on every level of links."""
    placements = [placement(ranks, distance, level.size, cluster.num_gpus) for level in cluster.levels]
    return Group(ranks, tuple(each.members_per_block for each in placements), tuple(each.blocks for each in placements))


def tensor_group(plan: Layout, inputs: Inputs) -> Group:
    """Ranks that split one layer. plan: scalar or array (n,)."""
    return group(plan.tp, stride(plan, "tp", inputs.runtime.plans.rank_order), inputs.cluster)


def context_group(plan: Layout, inputs: Inputs) -> Group:
    """Ranks that share one sequence. plan: scalar or array (n,)."""
    return group(plan.cp, stride(plan, "cp", inputs.runtime.plans.rank_order), inputs.cluster)


def data_group(plan: Layout, inputs: Inputs) -> Group:
    """Ranks that sum one gradient: data and context parallel together (Megatron-LM's dp-cp group).

    plan: scalar or array (n,).
    """
    distance = stride(plan, "cp", inputs.runtime.plans.rank_order)
    return group(plan.dp * plan.cp, distance, inputs.cluster)


def head_exchange_group(plan: Layout, inputs: Inputs) -> Group:
    """Context-parallel ranks that exchange sequence for heads by an all-to-all. plan: scalar or array (n,)."""
    distance = stride(plan, "cp", inputs.runtime.plans.rank_order)
    return group(context_split(plan, inputs).heads, distance, inputs.cluster)


def sharding_group(plan: Layout, inputs: Inputs) -> Group:
    """Ranks over which ZeRO divides: consecutive slices of the data-parallel ranks.

    plan: scalar or array (n,). Source: Megatron-LM, parallel_state.py (num_distributed_optimizer_instances);
    torchtitan, parallel_dims.py (dp_shard is faster than dp_replicate).
    """
    return group(sharding_ranks(plan), stride(plan, "cp", inputs.runtime.plans.rank_order), inputs.cluster)


def replica_group(plan: Layout, inputs: Inputs) -> Group:
    """Ranks that hold the same shard, one in each sharding group. plan: scalar or array (n,)."""
    distance = stride(plan, "cp", inputs.runtime.plans.rank_order) * sharding_ranks(plan)
    return group(plan.dp_replicate, distance, inputs.cluster)


def pipeline_group(plan: Layout, inputs: Inputs) -> Group:
    """Ranks that hold the stages of one pipeline. plan: scalar or array (n,)."""
    return group(plan.pp, stride(plan, "pp", inputs.runtime.plans.rank_order), inputs.cluster)


def expert_group(plan: Layout, inputs: Inputs) -> Group:
    """Ranks that hold different experts of one layer. plan: scalar or array (n,)."""
    return group(plan.ep, expert_stride(plan, "ep", inputs.runtime.plans.rank_order), inputs.cluster)


def expert_tensor_group(plan: Layout, inputs: Inputs) -> Group:
    """Ranks that split one expert. plan: scalar or array (n,)."""
    return group(plan.etp, expert_stride(plan, "tp", inputs.runtime.plans.rank_order), inputs.cluster)


def expert_set_group(plan: Layout, inputs: Inputs) -> Group:
    """Ranks that together hold every expert of one layer once: expert and expert-tensor parallel.

    plan: scalar or array (n,). The two are neighbours in every rank order that is catalogued.
    Source: Megatron-LM, parallel_state.py (get_expert_tensor_and_model_parallel_group).
    """
    order = inputs.runtime.plans.rank_order
    faster = min("tp", "ep", key=order.index)
    return group(plan.etp * plan.ep, expert_stride(plan, faster, order), inputs.cluster)


def expert_sharding_group(plan: Layout, inputs: Inputs) -> Group:
    """Ranks over which ZeRO divides the routed experts: slices of those that hold the same ones.

    plan: scalar or array (n,). Source: Megatron-LM, parallel_state.py (intra partial expert data parallel group).
    """
    distance = expert_stride(plan, "dp", inputs.runtime.plans.rank_order)
    return group(expert_sharding_ranks(plan), distance, inputs.cluster)


def expert_replica_group(plan: Layout, inputs: Inputs) -> Group:
    """Ranks that hold the same shard of the same experts, one in each sharding group. plan: scalar or array (n,)."""
    ranks = expert_sharding_ranks(plan)
    distance = expert_stride(plan, "dp", inputs.runtime.plans.rank_order) * ranks
    return group(expert_data_ranks(plan) // ranks, distance, inputs.cluster)


def expert_data_group(plan: Layout, inputs: Inputs) -> Group:
    """Ranks that hold the same experts and sum their gradients. plan: scalar or array (n,)."""
    return group(expert_data_ranks(plan), expert_stride(plan, "dp", inputs.runtime.plans.rank_order), inputs.cluster)


def embedding_group(plan: Layout, inputs: Inputs) -> Group:
    """The first and the last stage of a pipeline, which share embeddings. plan: scalar or array (n,)."""
    distance = stride(plan, "pp", inputs.runtime.plans.rank_order) * np.maximum(plan.pp - 1, 1)
    return group(np.where(ends_apart(plan), 2, 1), distance, inputs.cluster)


GROUPS: dict[str, Callable[[Layout, Inputs], Group]] = {
    "tp": tensor_group,
    "cp": context_group,
    "cp_heads": head_exchange_group,
    "pp": pipeline_group,
    "embedding": embedding_group,
    "dp": data_group,
    "dp_shard": sharding_group,
    "dp_replicate": replica_group,
    "ep": expert_group,
    "etp": expert_tensor_group,
    "ep_etp": expert_set_group,
    "edp": expert_data_group,
    "edp_shard": expert_sharding_group,
    "edp_replicate": expert_replica_group,
}
"""The groups of ranks that exchange messages, by the name of their axis; those of experts with an e."""

"""Group: an axis laid over the levels of links of a cluster."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Ints
from meshwright.layout.groups import placement, stride
from meshwright.layout.plans import Layout
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
    return group(plan.tp, stride(plan, "tp", inputs.runtime.rank_order), inputs.cluster)


def data_group(plan: Layout, inputs: Inputs) -> Group:
    """Ranks that sum one gradient: data and context parallel together (Megatron-LM's dp-cp group).

    plan: scalar or array (n,).
    """
    distance = stride(plan, "cp", inputs.runtime.rank_order)
    return group(plan.dp * plan.cp, distance, inputs.cluster)


def pipeline_group(plan: Layout, inputs: Inputs) -> Group:
    """Ranks that hold the stages of one pipeline. plan: scalar or array (n,)."""
    return group(plan.pp, stride(plan, "pp", inputs.runtime.rank_order), inputs.cluster)

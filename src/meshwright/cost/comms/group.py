"""Group: an axis laid over the levels of links of a cluster, and the bytes that one of its ranks sends over each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from meshwright.arrays import Floats, Ints, Numbers, larger, where
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
from meshwright.specs.kernels import Operation

Priced = Operation | Literal["broadcast", "send"]
"""Every operation that has a price; the first ones are measured inside a domain."""


class Group(NamedTuple):
    """The communicators of one axis; each field scalar or array (n,)."""

    ranks: Ints
    members: tuple[Ints, ...]
    """Per level: ranks of the group in the block where it has the fewest."""
    blocks: tuple[Ints, ...]
    """Per level: blocks that the widest group touches."""


def group(ranks: Ints, distance: Ints, cluster: Cluster) -> Group:
    """The placement of groups of `ranks` members, `distance` ranks apart, on every level of links.

    ranks, distance: counts, scalar or array (n,). Returns counts. Source: `placement`.

    >>> from meshwright.specs.reading.examples import TWO_NODES
    >>> group(4, 4, TWO_NODES)
    Group(ranks=4, members=(2, 4), blocks=(2, 1))
    """
    placed = [placement(ranks, distance, level.size, cluster.num_gpus) for level in cluster.levels]
    return Group(ranks, *zip(*placed, strict=True))


_Column = Callable[[Layout, Inputs], Ints]


def _along(axis: str, strides: Callable[..., Ints] = stride) -> _Column:
    """Distance between neighbours along an axis of the rank order."""
    return lambda plan, inputs: strides(plan, axis, inputs.runtime.plans.rank_order)


def _set_distance(plan: Layout, inputs: Inputs) -> Ints:
    """Of ep and etp together: they are neighbours in every rank order that is catalogued."""
    order = inputs.runtime.plans.rank_order
    return expert_stride(plan, min("tp", "ep", key=order.index), order)


AXES: dict[str, tuple[_Column, _Column]] = {
    "tp": (lambda plan, _: plan.tp, _along("tp")),
    "cp": (lambda plan, _: plan.cp, _along("cp")),
    "cp_heads": (lambda plan, inputs: context_split(plan, inputs).heads, _along("cp")),
    "pp": (lambda plan, _: plan.pp, _along("pp")),
    "embedding": (
        lambda plan, _: where(ends_apart(plan), 2, 1),
        lambda plan, inputs: _along("pp")(plan, inputs) * larger(plan.pp - 1, 1),
    ),
    "dp": (lambda plan, _: plan.dp * plan.cp, _along("cp")),
    "dp_shard": (lambda plan, _: sharding_ranks(plan), _along("cp")),
    "dp_replicate": (
        lambda plan, _: plan.dp_replicate,
        lambda plan, inputs: _along("cp")(plan, inputs) * sharding_ranks(plan),
    ),
    "ep": (lambda plan, _: plan.ep, _along("ep", expert_stride)),
    "etp": (lambda plan, _: plan.etp, _along("tp", expert_stride)),
    "ep_etp": (lambda plan, _: plan.etp * plan.ep, _set_distance),
    "edp": (lambda plan, _: expert_data_ranks(plan), _along("dp", expert_stride)),
    "edp_shard": (lambda plan, _: expert_sharding_ranks(plan), _along("dp", expert_stride)),
    "edp_replicate": (
        lambda plan, _: expert_data_ranks(plan) // expert_sharding_ranks(plan),
        lambda plan, inputs: _along("dp", expert_stride)(plan, inputs) * expert_sharding_ranks(plan),
    ),
}
"""How many ranks an axis joins, and how far apart neighbours are.

tp splits layers; cp sequences, cp_heads among the ranks that swap heads; pp holds the stages of one pipeline, embedding
the first and the last of them, which share embeddings. dp, with cp, sums one gradient (Megatron-LM's dp-cp group):
dp_shard are consecutive slices of it over which ZeRO divides, dp_replicate hold the same shard. ep holds different
experts of one layer, etp splits one, ep_etp holds every expert once; edp holds the same experts, edp_shard and
edp_replicate as above.
"""


def axis_group(axis: str, plan: Layout, inputs: Inputs) -> Group:
    """The ranks of one axis of a plan, and where they stand.

    axis: a key of `AXES`; plan: scalar or array (n,). Returns counts. Source: Megatron-LM, parallel_state.py (groups of
    `RankGenerator`, num_distributed_optimizer_instances, get_expert_tensor_and_model_parallel_group); torchtitan,
    parallel_dims.py (dp_shard is faster than dp_replicate).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> axis_group("dp", Plan(tp=2, dp=4), LLAMA)
    Group(ranks=4, members=(4,), blocks=(1,))
    """
    ranks, distance = AXES[axis]
    return group(ranks(plan, inputs), distance(plan, inputs), inputs.cluster)


class Traffic(NamedTuple):
    """Bytes that one rank sends to others; each field scalar or array (n,)."""

    inside: Floats
    """Over the links of its own scale-up domain."""
    across: tuple[Floats, ...]
    """Over each level beyond it, innermost first."""


def sent_bytes(operation: Priced, buffer: Numbers, ranks: Ints) -> Floats:
    """Bytes that one rank of a ring sends: w = 2(n-1)/n of the buffer for an all-reduce, (n-1)/n for the others.

    buffer: the full tensor (gathered output, whole input), bytes; ranks: n; scalar or array (n,). Returns bytes.
    Source: Thakur et al., 2005; the definition of nccl-tests' bus bandwidth.

    >>> float(sent_bytes("all_reduce", 8.0, 4))
    12.0
    """
    share = buffer * (ranks - 1) / ranks
    return 2.0 * share if operation == "all_reduce" else share


def operation_traffic(operation: Priced, size: Numbers, group: Group) -> Traffic:
    """What one rank sends in one operation, by `all_to_all_traffic` or `ring_traffic`; of a broadcast all ranks but the
    last one pass the buffer on.

    size: bytes of the buffer, scalar or array (n,). Returns bytes, the mean of the group's ranks. Source: `sent_bytes`.

    >>> from meshwright.specs.reading.examples import TWO_NODES
    >>> four = group(4, 1, TWO_NODES)
    >>> [float(operation_traffic(name, 8.0, four).inside) for name in ("all_gather", "all_to_all", "send")]
    [6.0, 6.0, 8.0]
    """
    if operation == "all_to_all":
        return all_to_all_traffic(size, group)
    return ring_traffic(size if operation == "send" else sent_bytes(operation, size, group.ranks), group)


def all_to_all_traffic(buffer: Numbers, group: Group) -> Traffic:
    """What one rank sends in an all-to-all: an equal part of its buffer to each rank, the one for itself staying.

    With n ranks, m of which share a block: (m - 1) / n of the buffer inside the domain and (n - m) / n beyond a block.
    group: where the ranks stand; buffer: bytes of one rank, scalar or array (n,). Returns bytes. Source: by definition.

    >>> from meshwright.specs.reading.examples import TWO_NODES
    >>> all_to_all_traffic(16.0, group(16, 1, TWO_NODES))
    Traffic(inside=7.0, across=(8.0,))
    """
    ranks, members = group.ranks, group.members
    return Traffic(buffer * (members[0] - 1) / ranks, tuple(buffer * (ranks - each) / ranks for each in members[:-1]))


def ring_traffic(size: Numbers, group: Group) -> Traffic:
    """Where the bytes that each rank of a ring sends on go: of m ranks that share a block, one sends beyond it.

    size: bytes of one rank, scalar or array (n,); group: where the ranks stand. Returns bytes, the mean of its ranks.
    Source: NCCL's ring visits the ranks of a block one after the other.

    >>> from meshwright.specs.reading.examples import TWO_NODES
    >>> traffic = ring_traffic(8.0, group(16, 1, TWO_NODES))
    >>> float(traffic.inside), [float(level) for level in traffic.across]
    (7.0, [1.0])
    """
    shares = zip(group.members[:-1], group.blocks[:-1], strict=True)
    across = tuple(where(blocks > 1, size / members, 0.0) for members, blocks in shares)
    return Traffic(size - (across[0] if across else 0.0), across)

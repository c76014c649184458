"""Time of one collective, by where its ranks stand."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, Ints, Numbers, larger, root, smaller, some, where
from meshwright.cost.comms.group import Group, Priced, all_to_all_traffic, sent_bytes
from meshwright.cost.comms.sends import link_bandwidth, message_time
from meshwright.specs.cluster import Cluster
from meshwright.specs.kernels import Operation

SMALL_MESSAGE_BYTES = 1e3
LARGE_MESSAGE_BYTES = 1e9


def operation_time(operation: Priced, size: Numbers, group: Group, cluster: Cluster) -> Floats:
    """Seconds of one operation over a group, if nothing runs beside it.

    size: bytes of the buffer, scalar or array (n,). Returns seconds. Source: `all_to_all_time`, `broadcast_time`,
    `message_time`, `collective_time`.

    >>> from meshwright.cost.comms.group import group
    >>> from meshwright.specs.reading.examples import TWO_NODES
    >>> round(float(operation_time("send", 1e9, group(2, 8, TWO_NODES), TWO_NODES)), 4)  # 1 GB to the next node
    0.0274
    """
    if operation == "all_to_all":
        return all_to_all_time(size, group, cluster)
    if operation == "broadcast":
        return broadcast_time(size, group, cluster)
    if operation == "send":
        return message_time(size, group, cluster)
    return collective_time(operation, size, group, cluster)


def collective_time(operation: Operation, buffer: Numbers, group: Group, cluster: Cluster) -> Floats:
    """Seconds of one collective over a group.

    Inside one scale-up domain T = alpha + gamma sqrt(w / 1 kB) + w / B with measured constants. Across domains a ring
    takes T = hops + gamma sqrt(w / 1 kB) + w / B, B the least of the domain's bandwidth and, for each level crossed,
    the share of its bandwidth per rank that large messages reach (0.973) times the members that share a block below it
    (an all-reduce over 2 or 3 domains gains 2 or 4/3 by reducing inside them first); one hop costs its level's latency.
    An all-reduce takes a tree of fewer hops and a share of its own where that is shorter. A group of one rank takes no
    time.

    buffer: bytes of the full tensor, scalar or array (n,). Returns seconds.
    Source: fitted to 3.3k measured collectives (nccl-tests tables of 12 systems). Published error on held-out sizes:
    4.4 % median, 14 % p90 inside a node; between nodes 5 % for buffers of gigabytes, about 20 % at 30 to 300 MB, where
    fabrics differ twofold.

    >>> from meshwright.cost.comms.group import group
    >>> from meshwright.specs.reading.examples import TWO_NODES
    >>> [round(float(collective_time("all_reduce", 1e9, group(n, 1, TWO_NODES), TWO_NODES)), 4) for n in (8, 16)]
    [0.0039, 0.0045]
    >>> float(collective_time("all_reduce", 1e9, group(1, 1, TWO_NODES), TWO_NODES))
    0.0
    """
    sent = sent_bytes(operation, buffer, group.ranks)
    if not some(sent):
        return sent
    ramp = root(sent / SMALL_MESSAGE_BYTES)
    times = (each.latency + each.root * ramp + sent / each.bandwidth for each in _curves(operation, group, cluster))
    return where(sent > 0, reduce(smaller, times), 0.0)


def reached_bandwidths(cluster: Cluster) -> tuple[float, ...]:
    """Bandwidth of one rank, one direction, that large collectives reach over each level of links.

    Inside a domain w / T of an all-gather of 1 GB over all of its ranks; beyond it the share of the bandwidth per rank
    that large messages reach. Returns bytes/s, innermost first. Source: `collective_time`.

    >>> from meshwright.specs.reading.examples import TWO_NODES
    >>> [round(bandwidth / 1e9) for bandwidth in reached_bandwidths(TWO_NODES)]  # of 450 and 50 GB/s
    [344, 49]
    """
    ranks = min(cluster.levels[0].size, cluster.num_gpus)
    inside = Group(ranks, (ranks,) * len(cluster.levels), (1,) * len(cluster.levels))
    time = float(collective_time("all_gather", LARGE_MESSAGE_BYTES, inside, cluster))
    first = float(sent_bytes("all_gather", LARGE_MESSAGE_BYTES, ranks)) / time if time else cluster.levels[0].bandwidth
    share = cluster.library.network_efficiency
    return first, *(share * level.effective_bandwidth for level in cluster.levels[1:])


def all_to_all_time(buffer: Numbers, group: Group, cluster: Cluster) -> Floats:
    """Seconds of one all-to-all over a group, wherever its ranks stand.

    Inside one scale-up domain the measured form of `collective_time`. Across domains the part that stays inside goes
    beside the part that leaves, and the longer counts: for every level crossed T = t0 + p gamma sqrt(s / 1 kB) +
    p s / (e B), s the bytes for each of p ranks beyond the block and B the level's bandwidth per rank, as all ranks of
    a node send at once over the adapters that they share. Every rank gets a message of its own, with its own ramp.

    buffer: bytes that one rank sends to all and itself, scalar or array (n,). Returns seconds.
    Source: nccl-tests and rccl-tests, alltoall, with their mean error: 2 to 32 nodes of 8 H100 over EFA, 32 MB to 2 GB
    (crazyguitar/aws-gpu-communication-benchmark@a77f70db), 17 %, 5 % with the library `nccl-efa`; 2 nodes of 8 MI355X,
    1 MB to 17 GB, 5 %; 8 nodes of 8 H800, 8 MB (NVIDIA/nccl issue 1531), 9 %.

    >>> from meshwright.cost.comms.group import group
    >>> from meshwright.specs.reading.examples import TWO_NODES
    >>> [round(float(all_to_all_time(1e9, group(n, 1, TWO_NODES), TWO_NODES)), 4) for n in (8, 16)]
    [0.0027, 0.0106]
    """
    members, blocks, library = group.members, group.blocks, cluster.library
    inside = Group(members[0], (members[0],) * len(members), (1,) * len(blocks))
    time = collective_time("all_to_all", buffer * members[0] / group.ranks, inside, cluster)
    # Every level that the group crosses, beside what stays inside: the longest counts.
    for inner, level in enumerate(cluster.levels[1:]):
        leaving = all_to_all_traffic(buffer, group).across[inner]
        own = root(buffer / group.ranks / SMALL_MESSAGE_BYTES)
        ramp = library.all_to_all.root_s * (group.ranks - members[inner]) * own
        sending = leaving / (library.network_efficiency * level.effective_bandwidth)
        crossing = library.base_latency_s + level.latency_s + ramp + sending
        time = where((blocks[inner] > 1) & (leaving > 0), larger(time, crossing), time)
    return time


def broadcast_time(buffer: Numbers, group: Group, cluster: Cluster) -> Floats:
    """Seconds of one broadcast over a group, along a ring.

    Inside one scale-up domain as an all-gather in which a rank sends as much. Across domains T = t0 + n l +
    gamma sqrt(w / 1 kB) + w / B: the last of n ranks starts n hops after the first, each with the latency l of the
    highest level that the ring crosses, because a chunk must be there before it is passed on.

    buffer: bytes, scalar or array (n,). Returns seconds. Source: NVIDIA/nccl@5067397c, src/graph/tuning.cc (broadcasts
    know the ring alone; "nsteps*lat" with the network's latency where channels differ, "waiting for proper chunk
    modeling"); held against published runs of InternEvo, whose steps on 256 to 1024 GPUs it explains.

    >>> from meshwright.cost.comms.group import group
    >>> from meshwright.specs.reading.examples import TWO_NODES
    >>> [round(float(broadcast_time(1e8, group(n, 1, TWO_NODES), TWO_NODES)) * 1e3, 2) for n in (8, 16)]  # ms
    [0.34, 0.61]
    """
    gathered = buffer * group.ranks / larger(group.ranks - 1, 1)
    inside = collective_time("all_gather", gathered, group, cluster)
    hop: Floats = 0.0 * np.asarray(group.ranks)
    for inner, level in enumerate(cluster.levels[1:]):
        hop = where(group.blocks[inner] > 1, larger(hop, level.latency_s), hop)
    ramp = cluster.library.network_root_s * root(buffer / SMALL_MESSAGE_BYTES)
    bandwidth = _curves("all_gather", group, cluster)[0].bandwidth
    across = cluster.library.base_latency_s + group.ranks * hop + ramp + buffer / bandwidth
    return where((group.blocks[0] > 1) & (buffer > 0), across, inside)


class _Curve(NamedTuple):
    """T = latency + root sqrt(w / 1 kB) + w / bandwidth, of the w bytes that one rank sends; scalar or array (n,)."""

    latency: Floats
    root: Floats
    bandwidth: Floats


def _curves(operation: Operation, group: Group, cluster: Cluster) -> tuple[_Curve, ...]:
    """Of the algorithms of one collective, of which the fastest is taken: inside one scale-up domain as measured,
    across several a ring, for an all-reduce a tree as well.
    """
    inside, leaves = _domain_curve(operation, group.members[0], cluster), group.blocks[0] > 1
    if not some(leaves):
        return (inside,)
    library, ring = cluster.library, _ring_latency(group, cluster)
    ways = [((2 if operation == "all_reduce" else 1) * ring, library.network_efficiency)]
    if operation == "all_reduce":
        ways.append((_tree_latency(group, cluster), library.tree_efficiency))
    return tuple(
        _Curve(
            where(leaves, library.base_latency_s + hops, inside.latency),
            where(leaves, library.network_root_s, inside.root),
            where(leaves, _network_bandwidth(operation, inside.bandwidth, share, group, cluster), inside.bandwidth),
        )
        for hops, share in ways
    )


def _domain_curve(operation: Operation, ranks: Ints, cluster: Cluster) -> _Curve:
    measured = cluster.accelerator.kernels.measured_collectives.get(operation)
    if measured is None:
        passes, library = 2 if operation == "all_reduce" else 1, cluster.library
        latency = library.base_latency_s + passes * (ranks - 1) * cluster.levels[0].latency_s
        return _Curve(latency, 0.0, library.link_efficiency * link_bandwidth(ranks, cluster))
    return _Curve(*measured.of_group(ranks))


def _network_bandwidth(operation: Operation, inside: Floats, share: float, group: Group, cluster: Cluster) -> Floats:
    """The least of the domain's and of every level's that is crossed.

    inside: of the group's members in a domain; share: of a level's that large messages reach.
    """
    bandwidth: Floats = where(group.members[0] > 1, inside, np.inf)
    # What all-reduces over two or three domains gain by reducing inside them first.
    gain: Floats = 1.0
    if operation == "all_reduce":
        domains = where(group.members[0] > 1, group.blocks[0], 1)
        gain = where(domains == 2, 2.0, where(domains == 3, 4 / 3, 1.0))
    for inner, level in enumerate(cluster.levels[1:]):
        reached = share * gain * level.effective_bandwidth
        shared = reached * group.members[inner]
        bandwidth = where(group.blocks[inner] > 1, smaller(bandwidth, shared), bandwidth)
    return bandwidth


def _ring_latency(group: Group, cluster: Cluster) -> Floats:
    """Of the hops of one pass around a ring."""
    ring: Floats = (group.ranks - group.blocks[0]) * cluster.levels[0].latency_s
    for inner, level in enumerate(cluster.levels[1:]):
        ring = ring + larger(group.blocks[inner] - group.blocks[inner + 1], 0) * level.latency_s
    return ring


def _tree_latency(group: Group, cluster: Cluster) -> Floats:
    """Of the hops up a tree and down again; a chain inside a domain."""
    tree: Floats = 2 * (group.members[0] - 1) * cluster.levels[0].latency_s
    for inner, level in enumerate(cluster.levels[1:]):
        halvings = np.log2(larger(group.blocks[inner] / group.blocks[inner + 1], 1.0))
        tree = tree + 2 * halvings * level.latency_s
    return tree

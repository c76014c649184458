"""Time of messages from one rank to another, by where they stand."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import FloatColumn, Floats, Ints, Numbers, larger, where
from meshwright.cost.comms.group import Group
from meshwright.specs.cluster import Cluster


def hop_times(size: Numbers, cluster: Cluster) -> tuple[Floats, ...]:
    """Seconds of one message between two ranks, for every level of links that may be the highest between them.

    T = hop latency + bytes / (efficiency * bandwidth per rank). size: bytes, scalar or array (n,). Returns seconds.
    Source: measured send-receive on H100, inside (348 GB/s) and between nodes (36 GB/s of 50, 17 us).

    >>> from meshwright.specs.reading.examples import TWO_NODES
    >>> [round(1e9 / time / 1e9) for time in hop_times(1e9, TWO_NODES)]  # GB/s inside and between nodes
    [346, 36]
    """
    inside: Floats = cluster.levels[0].latency_s + size / (
        cluster.library.message_link_efficiency * link_bandwidth(2, cluster)
    )
    share = cluster.library.message_network_efficiency
    network = (size / (share * level.effective_bandwidth) for level in cluster.levels[1:])
    across = (level.latency_s + sent for level, sent in zip(cluster.levels[1:], network, strict=True))
    return inside, *across


def message_time(size: Numbers, group: Group, cluster: Cluster) -> Floats:
    """Seconds of one message between neighbours of a group, over the slowest link that any pair crosses.

    size: bytes, scalar or array (n,). Returns seconds. Source: `hop_times`.

    >>> from meshwright.cost.comms.group import group
    >>> from meshwright.specs.reading.examples import TWO_NODES
    >>> [round(float(message_time(1e6, group(2, distance, TWO_NODES), TWO_NODES)) * 1e6) for distance in (1, 8)]  # us
    [6, 41]
    """
    time, *across = hop_times(size, cluster)
    for inner, crossing in enumerate(across):
        time = where(group.blocks[inner] > 1, crossing, time)
    return where((group.ranks > 1) & (size > 0), time, 0.0)


def opposite_message_time(size: Numbers, group: Group, cluster: Cluster) -> Floats:
    """Seconds of one message to the other neighbour of the rank whose `message_time` it is: over the slowest link that
    a rank of the group crosses on both sides, because it is alone in its block.

    size: bytes, scalar or array (n,). Returns seconds. Source: `hop_times`.

    >>> from meshwright.cost.comms.group import group
    >>> from meshwright.specs.reading.examples import TWO_NODES
    >>> inside, across = (opposite_message_time(1e6, group(2, distance, TWO_NODES), TWO_NODES) for distance in (4, 8))
    >>> bool(across > 5 * inside)  # NVLink and a network card
    True
    """
    time, *across = hop_times(size, cluster)
    for inner, crossing in enumerate(across):
        time = where((group.blocks[inner] > 1) & (group.members[inner] == 1), crossing, time)
    return where((group.ranks > 1) & (size > 0), time, 0.0)


def line_time(size: Numbers, group: Group, cluster: Cluster) -> Floats:
    """Seconds of a message that goes from the first rank of a group to the last, from neighbour to neighbour.

    size: bytes, scalar or array (n,). Returns seconds. Source: `hop_times`, each link as often as it is crossed.

    >>> from meshwright.cost.comms.group import group
    >>> from meshwright.specs.reading.examples import TWO_NODES
    >>> inside, across = hop_times(1e6, TWO_NODES)
    >>> bool(line_time(1e6, group(4, 4, TWO_NODES), TWO_NODES) == 2 * inside + across)
    True
    """
    inside, *across = hop_times(size, cluster)
    time = (group.ranks - group.blocks[0]) * inside
    for inner, crossing in enumerate(across):
        outer = group.blocks[inner + 1] if inner + 1 < len(across) else 1
        time = time + larger(group.blocks[inner] - outer, 0) * crossing
    return where((group.ranks > 1) & (size > 0), time, 0.0)


def link_bandwidth(ranks: Ints, cluster: Cluster) -> Floats:
    """Bandwidth of one rank towards `ranks - 1` others of its domain: all of it behind a switch, in a full mesh the
    links to those others alone.

    ranks: scalar or array (n,). Returns bytes/s. Source: `scale_up_mesh` of the accelerator.

    >>> from meshwright.specs.reading.examples import TWO_NODES
    >>> float(link_bandwidth(4, TWO_NODES))
    450000000000.0
    """
    accelerator, bandwidth = cluster.accelerator, cluster.levels[0].bandwidth
    if not accelerator.scale_up_mesh:
        return bandwidth + 0.0 * ranks
    neighbours = max(accelerator.scale_up_domain - 1, 1)
    share: FloatColumn = np.clip(np.asarray(ranks) - 1, 1, neighbours) / neighbours
    return bandwidth * share

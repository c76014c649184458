"""All-to-all: every rank sends an equal part of its buffer to every other."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import Floats, Numbers
from meshwright.cost.comms.collectives import SMALL_MESSAGE_BYTES, collective_time
from meshwright.cost.comms.group import Group
from meshwright.cost.comms.traffic import all_to_all_traffic
from meshwright.specs.cluster import Cluster


def all_to_all_time(buffer: Numbers, group: Group, cluster: Cluster) -> Floats:
    """Seconds of one all-to-all over a group, wherever its ranks stand.

    Inside one scale-up domain the measured form of `collective_time`. Across domains the part that stays inside goes
    beside the part that leaves, and the longer counts: for every level crossed T = t0 + gamma sqrt(w / 1 kB) +
    w / (0.973 B), w the bytes that leave the block and B the level's bandwidth per rank, as all ranks of a node send at
    once over the adapters that they share; t0 grows with the ranks of other domains.

    buffer: bytes that one rank sends to all and itself, scalar or array (n,). Returns seconds.
    Source: RCCL all-to-all over 2 nodes of 8 MI355X with 50 GB/s each: 48.5 GB/s leave a rank; within 10 % from 4 MB
    to 17 GB. Four nodes of another site reach 39 GB/s.
    """
    members, blocks, library = group.members, group.blocks, cluster.library
    inside = Group(members[0], (members[0],) * len(members), (1,) * len(blocks))
    time = collective_time("all_to_all", buffer * members[0] / group.ranks, inside, cluster)
    for inner, level in enumerate(cluster.levels[1:]):
        leaving = all_to_all_traffic(buffer, group).across[inner]
        latency = library.base_latency_s + level.latency_s + library.all_to_all.rank_s * (group.ranks - members[0])
        ramp = library.network_root_s * np.sqrt(leaving / SMALL_MESSAGE_BYTES)
        crossing = latency + ramp + leaving / (library.network_efficiency * level.effective_bandwidth)
        time = np.where(np.greater(blocks[inner], 1) & np.greater(leaving, 0), np.maximum(time, crossing), time)
    return time

"""Placed: where the ranks of one group stand, and which link they exchange over."""

from __future__ import annotations

from collections.abc import Iterable

from meshwright.cost.comms.group import Group
from meshwright.cost.messages import MessageRow
from meshwright.specs.cluster import Cluster, Level
from meshwright.units import format_bandwidth, format_bytes


def link_of(group: Group, cluster: Cluster) -> Level:
    """The outermost level of links that a group of one plan crosses."""
    crossed = [level for level, blocks in zip(cluster.levels[1:], group.blocks, strict=False) if blocks > 1]
    return crossed[-1] if crossed else cluster.levels[0]


def placement_words(name: str, group: Group, cluster: Cluster) -> str:
    """An axis of one plan: `ep 8 inside one node, over nvlink` or `ep 32 across 4 nodes, 8 ranks in each, ...`."""
    if group.ranks == 1:
        return f"{name} 1"
    domain, link = cluster.levels[0], link_of(group, cluster)
    room = "node" if domain.size == cluster.gpus_per_node else f"{domain.name} domain"
    over = f"over {link.name} ({format_bandwidth(link.effective_bandwidth)})"
    if group.blocks[0] == 1:
        return f"{name} {group.ranks} inside one {room}, {over}"
    members = f"{group.members[0]} rank{'s' if group.members[0] > 1 else ''} in each"
    return f"{name} {group.ranks} across {group.blocks[0]} {room}s, {members}, {over}"


def sent_over(rows: Iterable[MessageRow], cluster: Cluster) -> dict[str, float]:
    """Bytes that one rank of one plan sends in one step over each level of links, innermost first."""
    sent = dict.fromkeys((level.name for level in cluster.levels), 0.0)
    for row in rows:
        for name, size in zip(sent, (row.traffic.inside, *row.traffic.across), strict=True):
            sent[name] += row.times * float(size)
    return sent


def sent_words(sent: dict[str, float]) -> str:
    """Bytes over every link that carries some: `112.0 MiB over nvlink, 16.0 MiB over fabric`."""
    return ", ".join(f"{format_bytes(size)} over {name}" for name, size in sent.items() if size) or "nothing"

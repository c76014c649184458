"""Links: where the ranks of every axis stand, and which links they exchange over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from meshwright.cost.comms.group import Group, axis_group
from meshwright.cost.estimate import Estimate
from meshwright.cost.messages import MessageRow
from meshwright.layout.plan import Plan
from meshwright.specs.cluster import Cluster, Level
from meshwright.specs.inputs import Inputs
from meshwright.units import format_bandwidth, format_bytes


class AxisPlacement(NamedTuple):
    """The groups of one axis over the links."""

    axis: str
    ranks: int
    domains: int
    """Scale-up domains that the widest group touches."""
    ranks_per_domain: int
    link: str
    """The outermost links that a group crosses."""
    exposed_s: float | None
    """Seconds of a step that wait for it; None where another axis holds them."""


def placement_of(axis: str, plan: Plan, inputs: Inputs, exposed_s: float | None = None) -> AxisPlacement:
    """Where the groups of one axis of a plan stand; axis: as `axis_group` names it."""
    group = axis_group(axis, plan, inputs)
    called = {"edp": "experts' dp", "dp": "dp" if plan.cp == 1 else "dp x cp"}.get(axis, axis)
    link = link_of(group, inputs.cluster).name
    return AxisPlacement(
        axis=called,
        ranks=int(group.ranks),
        domains=int(group.blocks[0]),
        ranks_per_domain=int(group.members[0]),
        link=link,
        exposed_s=exposed_s,
    )


def axes(estimate: Estimate, inputs: Inputs) -> list[AxisPlacement]:
    """The axes of a plan that join two or more ranks, with what a step waits for."""
    exposed = {axis: getattr(estimate.time, f"exposed_{axis}_s") for axis in ("tp", "cp", "dp", "pp")}
    if inputs.model.is_moe:
        exposed |= {"ep": estimate.time.exposed_ep_s, "etp": None, "edp": None}
    placements = (placement_of(axis, estimate.plan, inputs, seconds) for axis, seconds in exposed.items())
    return [placement for placement in placements if placement.ranks > 1]


def link_of(group: Group, cluster: Cluster) -> Level:
    """The outermost level of links that a group of one plan crosses."""
    crossed = [level for level, blocks in zip(cluster.levels[1:], group.blocks, strict=False) if blocks > 1]
    return crossed[-1] if crossed else cluster.levels[0]


def placement_words(placement: AxisPlacement, cluster: Cluster) -> str:
    """An axis of one plan: `ep 8 inside one node, over nvlink` or `ep 32 across 4 nodes, 8 ranks in each, ...`."""
    name = f"{placement.axis} {placement.ranks}"
    if placement.ranks == 1:
        return name
    domain, link = cluster.levels[0], next(level for level in cluster.levels if level.name == placement.link)
    room = "node" if domain.size == cluster.gpus_per_node else f"{domain.name} domain"
    over = f"over {link.name} ({format_bandwidth(link.effective_bandwidth)})"
    if placement.domains == 1:
        return f"{name} inside one {room}, {over}"
    each = placement.ranks_per_domain
    return f"{name} across {placement.domains} {room}s, {each} rank{'s' if each > 1 else ''} in each, {over}"


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

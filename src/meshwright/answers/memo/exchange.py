"""Exchange: one line of the table of what ranks send to each other."""

from __future__ import annotations

from dataclasses import dataclass

from meshwright.answers.placed import link_of
from meshwright.cost.comms.group import Group
from meshwright.specs.cluster import Level
from meshwright.specs.inputs import Inputs


@dataclass(frozen=True)
class Exchange:
    """What one axis exchanges in one pass, seen from a rank of the stage that sets the pace."""

    axis: str
    what: str
    """As `forward: 2 all-gather, 2 reduce-scatter`."""
    ranks: int
    domains: int
    """Scale-up domains that the group touches."""
    link: Level
    """The outermost that it crosses."""
    sent_bytes: float
    """By one rank each time."""
    times: float
    """A step."""
    seconds: float
    """A step, if nothing ran beside it."""
    exposed_s: float
    """Of these, what the step waits for."""


def exchange(
    axis: str,
    what: str,
    group: Group,
    inputs: Inputs,
    sent_bytes: float,
    times: float,
    seconds: float,
    exposed_s: float,
) -> Exchange:
    """A line for a group of one plan."""
    domains, link = int(group.blocks[0]), link_of(group, inputs.cluster)
    return Exchange(axis, what, int(group.ranks), domains, link, sent_bytes, times, seconds, exposed_s)

"""Traffic: the bytes that one rank of a group sends, by the level of links that they cross."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Floats, Numbers
from meshwright.cost.comms.group import Group


class Traffic(NamedTuple):
    """Bytes that one rank sends to others; each field scalar or array (n,)."""

    inside: Floats
    """Over the links of its own scale-up domain."""
    across: tuple[Floats, ...]
    """Over each level beyond it, innermost first."""


def all_to_all_traffic(buffer: Numbers, group: Group) -> Traffic:
    """What one rank sends in an all-to-all: an equal part of its buffer to each rank, the one for itself staying.

    With n ranks, m of which share a block: (m - 1) / n of the buffer inside the domain and (n - m) / n beyond a block.
    group: where the ranks stand; buffer: bytes of one rank, scalar or array (n,). Returns bytes.
    """
    ranks, members = group.ranks, group.members
    return Traffic(buffer * (members[0] - 1) / ranks, tuple(buffer * (ranks - each) / ranks for each in members[:-1]))

"""Traffic: the bytes that one rank of a group sends, by the level of links that they cross."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from meshwright.arrays import Floats, Ints, Numbers
from meshwright.cost.comms.group import Group
from meshwright.specs.kernels import Operation


class Traffic(NamedTuple):
    """Bytes that one rank sends to others; each field scalar or array (n,)."""

    inside: Floats
    """Over the links of its own scale-up domain."""
    across: tuple[Floats, ...]
    """Over each level beyond it, innermost first."""


def sent_bytes(operation: Operation, buffer: Numbers, ranks: Ints) -> Floats:
    """Bytes that one rank of a ring sends: w = 2(n-1)/n of the buffer for an all-reduce, (n-1)/n for the others.

    buffer: the full tensor (gathered output, whole input), bytes; ranks: n; scalar or array (n,). Returns bytes.
    Source: Thakur et al., 2005; the definition of nccl-tests' bus bandwidth.

    >>> float(sent_bytes("all_reduce", 8.0, 4))
    12.0
    """
    return buffer * (ranks - 1) / ranks * (2.0 if operation == "all_reduce" else 1.0)


def operation_traffic(operation: Operation | Literal["send"], size: Numbers, group: Group) -> Traffic:
    """What one rank sends in one operation, by `all_to_all_traffic` or `ring_traffic`.

    size: bytes of the buffer, scalar or array (n,). Returns bytes, the mean of the group's ranks.
    """
    if operation == "all_to_all":
        return all_to_all_traffic(size, group)
    return ring_traffic(size if operation == "send" else sent_bytes(operation, size, group.ranks), group)


def all_to_all_traffic(buffer: Numbers, group: Group) -> Traffic:
    """What one rank sends in an all-to-all: an equal part of its buffer to each rank, the one for itself staying.

    With n ranks, m of which share a block: (m - 1) / n of the buffer inside the domain and (n - m) / n beyond a block.
    group: where the ranks stand; buffer: bytes of one rank, scalar or array (n,). Returns bytes.
    """
    ranks, members = group.ranks, group.members
    return Traffic(buffer * (members[0] - 1) / ranks, tuple(buffer * (ranks - each) / ranks for each in members[:-1]))


def ring_traffic(size: Numbers, group: Group) -> Traffic:
    """Where the bytes that each rank of a ring sends on go: of m ranks that share a block, one sends beyond it.

    size: bytes of one rank, scalar or array (n,); group: where the ranks stand. Returns bytes, the mean of its ranks.
    """
    shares = zip(group.members[:-1], group.blocks[:-1], strict=True)
    across = tuple(np.where(np.greater(blocks, 1), size / members, 0.0) for members, blocks in shares)
    return Traffic(size - (across[0] if across else 0.0), across)

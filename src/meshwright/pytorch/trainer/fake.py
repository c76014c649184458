"""A fake world: one process that stands for one rank of as many as a plan asks for; collectives answer at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore


@contextmanager
def fake_world(rank: int, size: int) -> Iterator[None]:
    """Process groups of a world in which only this rank exists."""
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)
    try:
        yield
    finally:
        dist.destroy_process_group()

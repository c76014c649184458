"""Placement: every block of the model lies on one rank, or on two with two copies."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.layout.plan import Plan
from meshwright.layout.stages import ends_apart
from meshwright.schedules.records import Schedule, blocks, copies
from orders import CHUNKS, every_schedule


@every_schedule
@pytest.mark.parametrize("stages", [2, 3, 4, 8])
def test_every_block_lies_on_as_many_ranks_as_there_are_copies(schedule: Schedule, stages: int) -> None:
    chunks = CHUNKS[schedule]
    held = blocks(schedule, stages, chunks)
    assert held.shape == (chunks * copies(schedule), stages)
    assert np.bincount(held.ravel()).tolist() == [copies(schedule)] * stages * chunks


def test_a_v_and_a_single_rank_have_both_ends_together() -> None:
    assert ends_apart(Plan(pp=2))
    assert not ends_apart(Plan())
    assert not ends_apart(Plan(pp=2, vpp=2, schedule=Schedule.DUALPIPE_V))

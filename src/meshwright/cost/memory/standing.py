"""Standing: which chunks of a rank stand gathered, where weights stay gathered after a backward."""

from __future__ import annotations

import numpy as np

from meshwright.distinct import distinct_rows, gathered
from meshwright.layout.microbatches import microbatch_group
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages
from meshwright.schedules.gathered import ChunksLeft, Standing, chunks_left
from meshwright.schedules.records import Schedule

ONE_CHUNK = ChunksLeft(0, Standing(0, 0), 0, 1, Standing(0, 1), Standing(0, 1), 1)
"""It stands after its backward."""


def standing_chunks(plans: Plans, stages: Stages) -> ChunksLeft:
    """What `chunks_left` says of every stage; each shape (r,).

    plans: pipelines, shape (p,); stages: theirs.
    """
    columns = plans.schedule, plans.pp, plans.vpp, plans.num_microbatches, microbatch_group(plans)
    several = (plans.vpp > 1) & (plans.zero == 3)
    distinct, index = distinct_rows(*(np.where(several, column, 1)[stages.plan] for column in columns), stages.stage)
    asked = [_of_rank(*(int(value) for value in row)) for row in zip(*distinct, strict=True)]
    return gathered(_columns(asked), index)


def _of_rank(
    schedule: int, stages: int, chunks: int, micro_batches: int, microbatch_group: int, rank: int
) -> ChunksLeft:
    if chunks == 1:
        return ONE_CHUNK
    return chunks_left(Schedule(schedule), stages, chunks, micro_batches, microbatch_group)[rank]


def _columns(rows: list[ChunksLeft]) -> ChunksLeft:
    """The same as columns."""
    numbers = np.array([np.hstack(row) for row in rows], dtype=np.int64).reshape(-1, len(np.hstack(ONE_CHUNK))).T
    forward, *in_flight, at_loss, behind, others, own, most, itself, backwards = numbers
    return ChunksLeft(
        forward, Standing(*in_flight), at_loss, behind, Standing(others, own), Standing(most, itself), backwards
    )

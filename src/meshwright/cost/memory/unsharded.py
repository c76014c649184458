"""Unsharded: which chunks of every stage are gathered meanwhile."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import IntColumn
from meshwright.distinct import distinct_rows, gathered
from meshwright.layout.groups import sharding_ranks
from meshwright.layout.microbatches import microbatch_group
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages
from meshwright.schedules.gathered import UnshardedChunks, unsharded_chunks
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule


def stage_chunks(plans: Plans, stages: Stages) -> UnshardedChunks[IntColumn]:
    """What `unsharded_chunks` says of every stage; each shape (r,), counts.

    plans: pipelines, shape (p,); stages: theirs. Returns counts. Source: `unsharded_chunks`.
    """
    resharded, alone = plans.zero == 3, sharding_ranks(plans) == 1
    shapes = plans.schedule, plans.pp, plans.num_microbatches, plans.vpp, microbatch_group(plans)
    columns = 1 * resharded, 1 * alone, *shapes
    # Pipelines with several chunks that reshard them, or put them together when they work; all others share the answer
    # of one chunk.
    several = (plans.vpp > 1) & (resharded | alone)
    distinct, index = distinct_rows(
        *(np.where(several, column, 1).take(stages.plan) for column in columns), stages.stage
    )
    rows = []
    for again, one, schedule, pp, count, vpp, group, rank in (map(int, row) for row in zip(*distinct, strict=True)):
        pipeline = PipelineShape(stages=pp, micro_batches=count, chunks=vpp, microbatch_group=group)
        ranks = unsharded_chunks(Schedule(schedule), pipeline, resharded=bool(again), alone=bool(one))
        rows.append(ranks[rank if vpp > 1 else 0])
    return gathered(UnshardedChunks(*np.array(rows, dtype=np.int64).reshape(-1, len(UnshardedChunks._fields)).T), index)

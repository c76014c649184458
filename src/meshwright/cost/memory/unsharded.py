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
    alone = 1 * (sharding_ranks(plans) == 1)
    columns = alone, plans.schedule, plans.pp, plans.num_microbatches, plans.vpp, microbatch_group(plans)
    # Pipelines with several chunks that reshard them; all others share the answer of one chunk.
    several = (plans.vpp > 1) & (plans.zero == 3)
    distinct, index = distinct_rows(*(np.where(several, column, 1)[stages.plan] for column in columns), stages.stage)
    rows = []
    for one, schedule, pp, micro_batches, vpp, group, rank in (map(int, row) for row in zip(*distinct, strict=True)):
        pipeline = PipelineShape(stages=pp, micro_batches=micro_batches, chunks=vpp, microbatch_group=group)
        rows.append(unsharded_chunks(Schedule(schedule), pipeline, alone=bool(one))[rank if vpp > 1 else 0])
    return gathered(UnshardedChunks(*np.array(rows, dtype=np.int64).reshape(-1, len(UnshardedChunks._fields)).T), index)

"""Micro-batches of a plan's pipeline: the groups in which its chunks take turns, and how many fill it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from meshwright.arrays import Ints, larger, where
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout, Plans
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import by_code, grouped

_PEAK = by_code(lambda record: record.peak_micro_batches or 0)
"""Micro-batches for each stage that fill a pipeline; 0: all."""


def filling(plans: Plans) -> Plans:
    """The plans with as many micro-batches, in as large groups, as tell how full their pipelines get: beyond
    `peak_micro_batches` for each stage of their schedule, or one group of them, no more are in flight.
    """
    group = np.where(grouped(plans.schedule), microbatch_group(plans), 1)
    peak = _PEAK[plans.schedule]
    most = np.where(peak > 0, peak * plans.pp, plans.num_microbatches)
    enough = np.minimum(plans.num_microbatches, np.maximum(most, group))
    return replace(plans, num_microbatches=enough, microbatch_group=np.minimum(group, enough))


def pipeline_shape(plan: Plan) -> PipelineShape:
    """The counts on which a plan's schedule depends."""
    group = int(microbatch_group(plan))
    return PipelineShape(stages=plan.pp, micro_batches=plan.num_microbatches, chunks=plan.vpp, microbatch_group=group)


def microbatch_group(plan: Layout) -> Ints:
    """Micro-batches that a chunk of an interleaved schedule works on before the next one does: what the plan says, or
    m / max(floor(m / pp), 1), which is pp where pp divides m.

    plan: scalar or columns of shape (n,). Returns a count. Source: torch.distributed.pipelining, schedules.py,
    ScheduleInterleaved1F1B; Megatron-LM, --microbatch-group-size-per-virtual-pipeline-stage, which is pp unless told.
    """
    rounds = larger(plan.num_microbatches // plan.pp, 1)
    return where(plan.microbatch_group > 0, plan.microbatch_group, plan.num_microbatches // rounds)


def group_sizes(stages: int, micro_batches: int) -> Iterator[int]:
    """Sizes of groups in which interleaving can work, smallest first: pp or more micro-batches in each, the last one
    too.

    stages: pp; micro_batches: m; counts. None where m < pp. Source: Megatron-LM, schedules.py,
    forward_backward_pipelining_with_interleaving, its checks of microbatch_group_size_per_vp_stage.
    """
    return (size for size in range(stages, micro_batches + 1) if not 0 < micro_batches % size < stages)

"""Micro-batching: how busy the stages of a pipeline are with more or fewer micro-batches, and with none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from meshwright.answers.explain.trace import play_pipeline
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.layout.microbatches import group_sizes
from meshwright.layout.plan import Plan
from meshwright.schedules.action import Timeline
from meshwright.specs.inputs import Inputs

DRAWN = 2
"""Micro-batches in a picture, over the stages."""
COUNTS = (1, 2, 4, 8, 16, 32)
"""Micro-batches in the table, over the stages."""


@dataclass(frozen=True)
class Bubble:
    """The plan with another number of micro-batches, and the batch that it takes."""

    micro_batches: int
    global_batch: int
    equal_stages: float
    """The bubble of the textbook, (p - 1) / (v m + p - 1), idle over the step."""
    estimate: Estimate

    @property
    def bubble(self) -> float:
        """Idle over the step, as priced."""
        return bubble_share(self.estimate)

    @property
    def mfu(self) -> float:
        """Model FLOPs over the peak."""
        return self.estimate.mfu


@dataclass(frozen=True)
class MicroBatching:
    """The pipeline of one plan; of a plan without one, nothing."""

    stages: int
    chunks: int
    naive_busy: float
    """Share of the time that a stage works where the layers are split and nothing else: 1 / p."""
    bubbles: tuple[Bubble, ...]
    chosen: Timeline
    """The order of the plan, of few micro-batches."""
    drawn: int
    """Micro-batches in it."""


def micro_batching(estimate: Estimate, inputs: Inputs) -> MicroBatching | None:
    """What micro-batches do for a priced plan; None where it has no pipeline."""
    plan = estimate.plan
    if plan.pp == 1:
        return None
    drawn = _drawn(plan)
    few = replace(plan, num_microbatches=drawn, microbatch_group=0)
    return MicroBatching(
        stages=plan.pp,
        chunks=plan.vpp,
        naive_busy=1 / plan.pp,
        bubbles=tuple(_bubbles(plan, inputs)),
        chosen=play_pipeline(few, inputs).timeline,
        drawn=drawn,
    )


def bubble_share(estimate: Estimate) -> float:
    """The bubble of a priced plan over its step."""
    return float(estimate.time.bubble_s / estimate.step_time_s)


def idle_share(timeline: Timeline) -> float:
    """Of all ranks' time, from the first action to the last, what none of theirs takes."""
    busy = sum(event.end_s - event.start_s for events in timeline.events for event in events)
    return 1 - busy / (len(timeline.events) * timeline.makespan_s)


def _drawn(plan: Plan) -> int:
    """Few micro-batches, as many as the schedule takes."""
    most = min(DRAWN * plan.pp, plan.num_microbatches)
    if not plan.schedule.record.grouped:
        return most
    return most if next(group_sizes(plan.pp, most), 0) else plan.num_microbatches


def _bubbles(plan: Plan, inputs: Inputs) -> Iterator[Bubble]:
    counts = sorted({each * plan.pp for each in COUNTS} | {plan.num_microbatches})
    for count in counts:
        batch = count * plan.dp * plan.micro_batch
        job = inputs.job.replace(global_batch=batch, assumptions=())
        other = plan if count == plan.num_microbatches else replace(plan, num_microbatches=count, microbatch_group=0)
        equal_stages = (plan.pp - 1) / (plan.vpp * count + plan.pp - 1)
        yield Bubble(count, batch, equal_stages, estimate_each([other], inputs.replace(job=job))[0])

"""Runs: plans whose micro-batches take as long and keep as much, however data parallelism divides states."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from meshwright.arrays import IntColumn
from meshwright.cost.shapes import Pipelines, Shapes
from meshwright.distinct import distinct_rows, first_rows
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages


class Runs(NamedTuple):
    """The distinct runs of many plans."""

    plans: Plans
    """One plan of each, shape (k,)."""
    stages: Stages
    """Their stages, shape (s,)."""
    pipelines: Pipelines
    """Of these plans and stages."""
    shapes: Shapes
    """Of one micro-batch of these plans."""
    of_plan: IntColumn
    """For every plan its run, shape (n,)."""
    of_stage: IntColumn
    """For every stage of every plan its like among those of the runs, shape (r,)."""

    @classmethod
    def of(cls, plans: Plans, stages: Stages, pipelines: Pipelines, shapes: Shapes) -> Self:
        """Those of plans: what tells them apart is which stages they have, how many ranks hold the same, the shape of a
        micro-batch and the number of these, here as the sequences of a step, which mostly are as many in all plans.
        plans: shape (n,); stages: theirs, shape (r,).
        """
        if len(plans) == 1:
            return cls(plans, stages, pipelines, shapes, np.zeros(1, dtype=np.int64), np.arange(len(stages.plan)))
        _, kind = first_rows(pipelines.alike[pipelines.stages.start], pipelines.plans.dp)
        first, of_plan = first_rows(kind.take(pipelines.of_plan), shapes.of_plan, plans.global_batch)
        own, its_stages = pipelines.of_plans(first)
        # From a stage of a plan to its like, as many rows for all stages of the plan.
        offset = its_stages.start.take(of_plan) - stages.start
        return cls(
            plans=plans.some(first),
            stages=its_stages,
            pipelines=own,
            shapes=Shapes(shapes.plans, shapes.of_plan[first]),
            of_plan=of_plan,
            of_stage=np.arange(len(stages.plan)) + offset.take(stages.plan),
        )

    def some(self, rows: IntColumn) -> Runs:
        """Those of the chosen stages of plans, with the stages that these are like alone. rows: shape (c,)."""
        (own,), of_stage = distinct_rows(self.of_stage.take(rows))
        pipelines = self.pipelines._replace(of_stage=self.pipelines.of_stage.take(own))
        return self._replace(stages=self.stages.some(own), pipelines=pipelines, of_stage=of_stage)

"""Footprint: the memory of many plans, and which of them fit; what a search asks before it asks how fast they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from meshwright.arrays import BoolColumn, FloatColumn, IntColumn, keep_freed_memory
from meshwright.cost.memory.components import Components
from meshwright.cost.memory.fit import Bounds, fit_probability, verdict
from meshwright.cost.memory.stage import StageMemory, stage_memory, stage_steps
from meshwright.cost.memory.stage_parameters import StageParameters, stage_parameters
from meshwright.cost.memory.timeline import MemoryEvent
from meshwright.cost.runs import Runs
from meshwright.cost.shapes import Pipelines, Shapes, distinct_shapes, pipelines_of
from meshwright.cost.unit import SHAPE, micro_batch_shapes
from meshwright.distinct import distinct_rows, gathered
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages
from meshwright.specs.inputs import Inputs
from meshwright.specs.routing import expert_spread


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanTable:
    """Many plans, and what of them is alike; columns of shape (n,) per plan and (r,) per stage."""

    inputs: Inputs
    plans: Plans
    stages: Stages
    """With the layers of multi-token prediction."""
    pipelines: Pipelines
    shapes: Shapes
    """Of one micro-batch."""
    runs: Runs

    @classmethod
    def of(cls, plans: Plans, pipelines: Pipelines, stages: Stages, inputs: Inputs) -> Self:
        """Plans whose stages are given, with the layers of multi-token prediction among them."""
        alone = len(plans) == 1
        shapes = distinct_shapes(plans, SHAPE) if alone else micro_batch_shapes(plans, inputs, pipelines)
        runs = Runs.of(plans, stages, pipelines, shapes)
        return cls(inputs=inputs, plans=plans, stages=stages, pipelines=pipelines, shapes=shapes, runs=runs)


@dataclass(frozen=True, eq=False, kw_only=True)
class Footprints(PlanTable):
    """What many plans hold; columns of shape (n,) per plan and (r,) per stage."""

    held: StageMemory
    """What each stage holds, shape (r,)."""
    worst: IntColumn
    """Row of the stage with the most memory, shape (n,)."""
    known_routing: FloatColumn | None = None
    """`worst_routing`, where it has been priced before."""

    @classmethod
    def of(cls, plans: Plans, pipelines: Pipelines, stages: Stages, inputs: Inputs) -> Self:
        """What plans hold whose stages are given, with the layers of multi-token prediction among them."""
        table = PlanTable.of(plans, pipelines, stages, inputs)
        held = stage_memory(stages, pipelines, table.runs, plans, inputs)
        return cls(**vars(table), held=held, worst=first_largest(held.device, stages))

    @cached_property
    def held_parameters(self) -> StageParameters:
        """On one rank of every distinct stage as far as weights go, counts."""
        distinct, known = self.pipelines.weights, self.held.steps.weights
        return known.parameters if known else stage_parameters(distinct.each, distinct.stages, self.inputs)

    @cached_property
    def parameters(self) -> StageParameters:
        """On one rank of every stage of the pipelines, counts."""
        return gathered(self.held_parameters, self.pipelines.weights.of_stage)

    @property
    def memory(self) -> Components[FloatColumn]:
        """Bytes of each stage, shape (r,)."""
        return self.held.components

    @property
    def peak_moment(self) -> IntColumn:
        """The moment of each stage's step at which that is, as codes of `Moment`, shape (r,)."""
        return self.held.moment

    def routing_bytes(self, stages: IntColumn) -> FloatColumn:
        """What the chosen stages need more where experts are as unequal as in one of ten training runs; 0 where the job
        says how unequal they are. stages: rows, shape (k,).
        """
        more: FloatColumn = np.zeros(len(stages))
        if not self.inputs.routes_as_usual:
            return more
        dealt = np.flatnonzero(self.plans.ep.take(self.stages.plan.take(stages)) > 1)
        if not len(dealt):
            return more
        rows, unequal = stages.take(dealt), self.inputs.with_expert_spread(expert_spread().most)
        pipelines = self.pipelines._replace(of_stage=self.pipelines.of_stage.take(rows))
        own, runs = self.stages.some(rows), self.runs.some(rows)
        steps = stage_steps(own, pipelines, runs, self.plans, unequal, self.held.steps)
        more[dealt] = steps.reserved(unequal) - self.held.reserved.take(rows)
        return more

    @cached_property
    def worst_routing(self) -> FloatColumn:
        """The same of the worst stage, shape (n,)."""
        return self.routing_bytes(self.worst) if self.known_routing is None else self.known_routing

    @cached_property
    def worst_memory(self) -> Components[FloatColumn]:
        """Bytes of the worst stage, shape (n,)."""
        return self.held.take(self.worst).components

    @cached_property
    def bounds(self) -> Bounds:
        """What the worst stage holds in eight of ten runs, bytes, shape (n,)."""
        return Bounds.of(self.worst_memory, self.inputs, self.worst_routing)

    @cached_property
    def verdict(self) -> IntColumn:
        """Codes of `Verdict` for the worst stage, shape (n,)."""
        return verdict(self.bounds, self.inputs)

    @cached_property
    def probability(self) -> FloatColumn:
        """That the worst stage fits, a share, shape (n,)."""
        return fit_probability(self.bounds, self.inputs.cluster.accelerator.visible_memory_bytes)

    def take(self, chosen: BoolColumn) -> Footprints:
        """Those of the chosen plans, by mask."""
        index = np.flatnonzero(chosen)
        pipelines, stages = self.pipelines.of_plans(index)
        *_, rows = self.stages.rows_of(index)
        plans, ((own,), of_plan) = self.plans.some(index), distinct_rows(self.shapes.of_plan[index])
        shapes = Shapes(self.shapes.plans.some(own), of_plan)
        return Footprints(
            inputs=self.inputs,
            plans=plans,
            stages=stages,
            pipelines=pipelines,
            shapes=shapes,
            runs=Runs.of(plans, stages, pipelines, shapes),
            held=self.held.take(rows),
            worst=stages.start + (self.worst - self.stages.start)[index],
            known_routing=self.worst_routing[index],
        )

    def __len__(self) -> int:
        return len(self.worst)


def footprints_of(plans: Plans, inputs: Inputs, *, keep_all_stages: bool = False) -> Footprints:
    """The memory of every stage of legal plans.

    keep_all_stages: False leaves out stages that another one exceeds in everything; the worst ones are the same. plans:
    shape (n,). Returns bytes. Source: `stage_memory`.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> footprints = footprints_of(Plans.of([Plan(tp=2, pp=4, num_microbatches=8)]), LLAMA, keep_all_stages=True)
    >>> bool(footprints.memory.activations[0] > footprints.memory.activations[2])  # 4 micro-batches in flight, and 2
    True
    """
    keep_freed_memory()
    pipelines, stages = pipelines_of(plans, inputs, keep_all_stages=keep_all_stages)
    return Footprints.of(plans, pipelines, stages, inputs)


def step_events(plan: Plan, inputs: Inputs, stage: int = 0) -> list[MemoryEvent]:
    """What one rank of a stage allocates and releases in the course of a step, beside the states that it stores.

    A legal plan's highest moment is where `allocated` of an event is the most; `str` of an event is a line in GiB.
    stage: the pipeline rank, 0 first. Returns events in order, bytes. Source: `stage_steps`.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> events = step_events(Plan(tp=8, num_microbatches=64), LLAMA)
    >>> max(events, key=lambda event: event.allocated).allocated > 0
    True
    """
    plans = Plans.of([plan])
    pipelines, stages = pipelines_of(plans, inputs, keep_all_stages=True)
    runs = Runs.of(plans, stages, pipelines, micro_batch_shapes(plans, inputs, pipelines))
    return stage_steps(stages, pipelines, runs, plans, inputs).events(stage)


def first_largest(values: FloatColumn, stages: Stages) -> IntColumn:
    """For every plan, the first of its rows that holds the largest value. values: shape (r,).

    Returns rows, shape (n,). Source: by definition.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> stages = footprints_of(Plans.of([Plan(pp=2), Plan(pp=4)]), LLAMA, keep_all_stages=True).stages
    >>> first_largest(np.array([1.0, 2.0, 5.0, 7.0, 7.0, 6.0]), stages).tolist()
    [1, 3]
    """
    if len(stages.start) == 1:
        return np.array([values.argmax()])
    largest = stages.largest(values)
    found = np.flatnonzero(values == largest.take(stages.plan))
    if len(found) == len(largest):
        return found
    # Where several rows hold the largest value of their plan the first one is written last.
    rows, last_first = np.empty_like(stages.start), found[::-1]
    rows[stages.plan.take(last_first)] = last_first
    return rows

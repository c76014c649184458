"""Shapes and pipelines: evaluate what depends on a few fields of a plan once for every distinct choice of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from meshwright.arrays import IntColumn
from meshwright.distinct import distinct_rows, first_rows, gathered
from meshwright.layout.microbatches import filling
from meshwright.layout.plan import Plan
from meshwright.layout.plans import COLUMNS, Layout, Plans, of_rows
from meshwright.layout.stages import Stages, signature_stages
from meshwright.specs.inputs import Inputs

Answer = TypeVar("Answer", bound=tuple[Any, ...])


class Shapes(NamedTuple):
    """The distinct combinations of some fields that many plans have."""

    plans: Plans
    """One of each, shape (k,); of many plans with all other fields at their defaults."""
    of_plan: IntColumn
    """For every plan the row of its own, shape (n,)."""


def distinct_shapes(plans: Plans, fields: Iterable[str]) -> Shapes:
    """The distinct combinations of the given fields of plans. fields: their names.

    Returns plans of the distinct combinations, and the index of each plan among them, shape (n,).

    >>> from meshwright.layout.plan import Plan
    >>> shapes = distinct_shapes(Plans.of([Plan(tp=2), Plan(tp=4), Plan(tp=2)]), ["tp"])
    >>> shapes.plans.tp.tolist(), shapes.of_plan.tolist()
    ([2, 4], [0, 1, 0])
    """
    if len(plans) == 1:
        return Shapes(plans, np.zeros(1, dtype=np.int64))
    names = tuple(fields)
    columns, index = distinct_rows(*(getattr(plans, name) for name in names))
    return Shapes(Plans.filled(dict(zip(names, columns, strict=True)), plans.chunkings), index)


def on_shapes(function: Callable[[Layout], Answer], plan: Layout, *fields: str) -> Answer:
    """`function(plan)`, of many plans evaluated once for every distinct combination of the given fields.

    function: reads no other field of a plan, and returns a tuple, which may nest, of scalars or arrays (n,); plan:
    scalar or array (n,); fields: their names. Returns what the function returns, in its units. Source: the distinct
    rows of the columns that a function reads (`distinct_rows`).

    >>> plans = Plans.of([Plan(tp=2), Plan(tp=4), Plan(tp=2)])
    >>> on_shapes(lambda plan: (10 * plan.tp,), plans, "tp")[0].tolist()
    [20, 40, 20]
    """
    one = plan if isinstance(plan, Plan) else alone(plan)
    if isinstance(one, Plan):
        return function(one)
    shapes = distinct_shapes(one, fields)
    return gathered(function(alone(shapes.plans)), shapes.of_plan)


def alone(plans: Plans) -> Layout:
    """Of one plan in a table, the plan itself, whose formulas take numbers and not columns of one row; else the table.

    plans: shape (n,). Returns a plan or plans; what is asked of them is scalar or array (n,). Source: by definition.

    >>> alone(Plans.of([Plan(tp=2)])).tp
    2
    """
    return plans.alone()


OF_ONE_MICRO_BATCH = {"sp", "context_exchange", "micro_batch", "recompute", "recompute_modules"}
"""Fields that change what a stage does with one micro-batch, and nothing of which weights it holds."""
PIPELINE = tuple(name for name in COLUMNS if name not in OF_ONE_MICRO_BATCH)
OF_THE_SPLIT = {
    "num_microbatches",
    "embedding_as_layer",
    "head_as_layer",
    "first_stage_layers",
    "last_stage_layers",
    "chunk_layers",
    "microbatch_group",
    "recompute_layers",
    "schedule",
}
"""Fields that say which layers and ends stand on a stage, and when they work."""
WEIGHTS = tuple(name for name in PIPELINE if name not in OF_THE_SPLIT)
"""Those that say, beside the layers and ends of a stage, which weights a rank holds and whom it shares them with."""


class Weights(NamedTuple):
    """The distinct stages of pipelines as far as weights, states and their exchange go."""

    plans: Plans
    """Of each, with the fields of `WEIGHTS`; shape (w,)."""
    stages: Stages
    """One of each plan, shape (w,)."""
    of_stage: IntColumn
    """For every stage of the pipelines its like among these, shape (q,)."""
    each: Layout
    """The plans, or the one that all of them are: with its numbers a formula takes less time than with columns."""

    @classmethod
    def of(cls, plans: Plans, each: Layout, stages: Stages) -> Self:
        """Those of pipelines; plans: shape (p,); each: the same, or the one that all of them are; stages: theirs, shape
        (q,), of one plan told apart by their place alone.
        """
        row: IntColumn = np.arange(len(stages.plan))
        index = row
        if len(plans) > 1:
            degrees = (getattr(plans, name).take(stages.plan) for name in WEIGHTS)
            row, index = first_rows(*degrees, *stages.layers.T, stages.stage, stages.embedding * 1, stages.head * 1)
        rows = stages.plan[row]
        return cls(plans.some(rows), stages.apart(row), index, of_rows(each, rows))


class Pipelines(NamedTuple):
    """The distinct pipelines of many plans; weights, states and their exchange are alike in all plans of one."""

    plans: Plans
    """One plan of each with the fields of `PIPELINE`, as many micro-batches as `filling` leaves; shape (p,)."""
    stages: Stages
    """Their stages, shape (q,)."""
    of_plan: IntColumn
    """For every plan its pipeline, shape (n,)."""
    of_stage: IntColumn
    """For every stage of every plan its like among `stages`, shape (r,)."""
    alike: IntColumn
    """For every one of `stages` a number that those share which hold the same and stand in the same place of pipelines
    as deep, shape (q,)."""
    weights: Weights
    """Of their stages."""
    each: Layout
    """The plans, or the one that all of them are."""

    def of_plans(self, index: IntColumn) -> tuple[Pipelines, Stages]:
        """Those of the chosen plans, and all their stages."""
        of_plan = self.of_plan.take(index)
        stages, of_stage = self.stages.spread(of_plan)
        return self._replace(of_plan=of_plan, of_stage=of_stage), stages

    @property
    def of_weights(self) -> IntColumn:
        """For every stage of every plan its like among `weights`, shape (r,)."""
        return self.weights.of_stage.take(self.of_stage)


def pipelines_of(plans: Plans, inputs: Inputs, *, keep_all_stages: bool) -> tuple[Pipelines, Stages]:
    """The distinct pipelines of plans, and the stages of all plans.

    keep_all_stages: False leaves out stages that another one exceeds in every count. plans: shape (n,). Returns
    pipelines and stages, one row a stage. Source: `signature_stages`.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> _, stages = pipelines_of(Plans.of([Plan(pp=2), Plan(pp=4)]), LLAMA, keep_all_stages=True)
    >>> stages.layers[:, 0].tolist(), stages.plan.tolist()
    ([16, 16, 8, 8, 8, 8], [0, 0, 1, 1, 1, 1])
    """
    distinct, of_plan = distinct_shapes(filling(plans), PIPELINE)
    stages, alike = signature_stages(inputs, distinct, keep_all=keep_all_stages)
    stages, each = _with_prediction(stages, inputs), alone(distinct)
    of_plans, of_stage = stages.spread(of_plan)
    pipelines = Pipelines(
        plans=distinct,
        stages=stages,
        of_plan=of_plan,
        of_stage=of_stage,
        alike=alike,
        weights=Weights.of(distinct, each, stages),
        each=each,
    )
    return pipelines, of_plans


def _with_prediction(stages: Stages, inputs: Inputs) -> Stages:
    """The stages with the layers of multi-token prediction on those of the head, in their last chunk.

    A last chunk works backward as soon as it has worked forward: it keeps one micro-batch.
    Source: Megatron-LM, multi_token_prediction.py, get_mtp_num_layers_to_build.
    """
    if not inputs.mtp_layers:
        return stages
    added = np.zeros_like(stages.layers)
    added[:, inputs.model.layer_pattern[-1]] = inputs.mtp_layers * stages.head
    columns = {field.name: getattr(stages, field.name) for field in fields(Stages)}
    more = {name: columns[name] + added for name in ("layers", "in_flight_layers")}
    return Stages(**columns | more)

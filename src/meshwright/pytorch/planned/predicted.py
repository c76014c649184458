"""Predicted: what the planner says that one rank holds, allocates and sends, in the terms of `Observed`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from meshwright.cost.memory.components import Components
from meshwright.cost.memory.units import Units, stage_units
from meshwright.cost.messages import MessageRow, pass_messages
from meshwright.cost.step import estimate_plans
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.layout.splits import layers_of_blocks
from meshwright.schedules.records import blocks
from meshwright.specs.inputs import Inputs

DISPATCHER = "all_to_all"
"""How the trainer sends tokens to their experts, whatever the runtime does."""


@dataclass(frozen=True)
class PredictedStage:
    """One pipeline stage; bytes and counts."""

    stage: int
    layers: tuple[int, ...]
    """Of each kind."""
    chunks: tuple[tuple[int, ...], ...]
    """Those of each of its chunks."""
    embedding: bool
    head: bool
    in_flight_micro_batches: int
    in_flight_chunks: int
    whole: Units
    """Parameters on the rank before they are sharded."""
    stored: Units
    memory: Components
    messages: tuple[MessageRow, ...]
    """Of the passes, in one step."""

    @property
    def allocated(self) -> float:
        """Bytes at the peak, without library workspaces."""
        return float(self.memory.allocated - self.memory.workspaces)


def predicted_stages(plan: Plan, inputs: Inputs) -> list[PredictedStage]:
    """Every stage of one plan, first one first."""
    priced = estimate_plans(Plans.of([plan]), inputs, keep_all_stages=True)
    trained = replace(priced, inputs=inputs.replace(runtime=inputs.runtime.replace(dispatcher=DISPATCHER)))
    stages = priced.stages
    whole, stored = stage_units(priced.plans, stages, inputs)
    chunks = layers_of_blocks(inputs, plan)[blocks(plan.schedule, plan.pp, plan.vpp)]
    return [
        PredictedStage(
            stage=int(stages.stage[row]),
            layers=tuple(int(count) for count in stages.layers[row]),
            chunks=tuple(tuple(int(count) for count in chunk) for chunk in chunks[:, int(stages.stage[row])]),
            embedding=bool(stages.embedding[row]),
            head=bool(stages.head[row]),
            in_flight_micro_batches=int(stages.in_flight_micro_batches[row]),
            in_flight_chunks=int(stages.in_flight_chunks[row]),
            whole=_row(whole, row),
            stored=_row(stored, row),
            memory=priced.memory.rows(np.array(row)),
            messages=pass_messages(trained, row),
        )
        for row in range(len(stages.stage))
    ]


def _row(units: Units, row: int) -> Units:
    return Units(*(column[row] for column in units))

"""Predicted: what the planner says that one rank holds, allocates and sends, in the terms of `Observed`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from meshwright.arrays import FloatColumn
from meshwright.cost.estimate import Estimates, StageEstimate
from meshwright.cost.memory.stage_parameters import Units, parted_embedding, stage_units
from meshwright.cost.messages import MessageRow, pass_messages
from meshwright.cost.step import estimate_plans
from meshwright.layout.groups import sharding_ranks
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.layout.splits import layers_of_blocks
from meshwright.schedules.records import blocks
from meshwright.specs.inputs import Inputs

DISPATCHER = "all_to_all"
"""How the trainer sends tokens to their experts, whatever the runtime does."""


@dataclass(frozen=True)
class PredictedStage(StageEstimate):
    """One pipeline stage as it is priced, with what else PyTorch shows of it; bytes and counts."""

    chunks: tuple[tuple[int, ...], ...]
    """Layers of each kind of each of its chunks."""
    in_flight_chunks: int
    whole_parameters: float
    """On the rank, before they are sharded."""
    stored_parameters: float
    trained_parameters: float
    """Of these."""
    reduced_parameters: float
    """Whose gradients the rank has in the end: also of a tied embedding that is parted from the head."""
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
    whole, stored = stage_units(priced.plans, priced.stages, inputs)
    updated, twice = stored.trained(inputs), _reduced_twice(priced, stored)
    _, parted = parted_embedding(priced.plans, priced.stages, inputs)
    chunks = layers_of_blocks(inputs, plan)[blocks(plan.schedule, plan.pp, plan.vpp)]
    return [
        PredictedStage(
            **vars(estimate),
            chunks=tuple(map(tuple, chunks[:, estimate.stage].tolist())),
            in_flight_chunks=int(priced.stages.in_flight_chunks[row]),
            whole_parameters=float(whole.all[row]),
            stored_parameters=float(stored.all[row]),
            trained_parameters=float(updated[row]),
            reduced_parameters=float(updated[row] + (parted[row] + twice[row]) * (not inputs.freezes_weights)),
            messages=pass_messages(trained, row),
        )
        for row, estimate in enumerate(priced[0].stages)
    ]


def _reduced_twice(priced: Estimates, stored: Units) -> FloatColumn:
    """As `UnitStep.reduced_twice` at the end of the step of the only plan of `priced`, without the norm itself."""
    inputs, plan, stages = priced.inputs, priced.plans[0], priced.stages
    kept, again = stored.head, stages.in_flight_chunks < plan.num_microbatches * plan.vpp
    if plan.pp == 1:
        kept, again = stored.ends, stages.head & (inputs.model.tied_embeddings and plan.tp == 1)
    norm = -(-inputs.model.hidden_size // sharding_ranks(plan))
    twice: FloatColumn = np.where(again, np.maximum(kept - norm, 0.0), 0.0)
    return twice * (inputs.runtime.entropy.sequence_pieces > 1)

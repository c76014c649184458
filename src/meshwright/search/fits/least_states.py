"""Least states: the least memory that any layout of a model needs, so that too small clusters are not searched."""

from __future__ import annotations

import numpy as np

from meshwright.cost.footprint import footprints_of
from meshwright.cost.memory.fit import Verdict, bounds, verdict
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs


def whole_states(inputs: Inputs) -> float:
    """Bytes of weights, gradients and optimizer states that no layout of the runtime undercuts over all its ranks:
    those of one rank that holds the whole model, by the ZeRO stage and the micro-batches that keep least.
    """
    stages, counts = inputs.runtime.plans.zero_stages, {1, inputs.job.global_batch}
    alone = Plans.of(Plan(zero=stage, num_microbatches=count) for stage in stages for count in counts)
    return float(np.min(footprints_of(alone, inputs).worst_memory.states))


def states_fit(inputs: Inputs, accelerators: int | None = None) -> bool:
    """Whether states alone, divided evenly over all accelerators, are safe; where not, no plan is. They are whole on
    every accelerator where the runtime divides none.

    accelerators: a count; None: those of the question.
    """
    share = whole_states(inputs) / (accelerators or inputs.cluster.num_gpus if divides_states(inputs) else 1)
    return bool(verdict(bounds(share, share, 0.0, inputs), inputs) == Verdict.SAFE)


def divides_states(inputs: Inputs) -> bool:
    """Whether some plan of the runtime has ranks that hold different states."""
    plans, ranks_of_experts = inputs.runtime.plans, inputs.runtime.plans.expert_parallel and inputs.model.is_moe
    return plans.tensor_parallel or plans.pipeline_parallel or ranks_of_experts or any(plans.zero_stages)


def least_nodes(inputs: Inputs, most: int) -> int | None:
    """The fewest nodes over which states alone are safe; None where `most` are too few."""
    low, high, ranks = 0, most, inputs.cluster.gpus_per_node
    if not states_fit(inputs, most * ranks):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if states_fit(inputs, middle * ranks) else (middle, high)
    return high

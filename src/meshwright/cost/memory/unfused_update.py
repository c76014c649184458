"""The update of an optimizer that is not fused, as allocations beside what a rank keeps from step to step."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import FloatColumn
from meshwright.cost.memory.timeline import NAMED_LOGITS, MemoryTimeline, Moment
from meshwright.cost.memory.unit_step import UnitStep

TENSORS_OF_A_WEIGHT = 2
"""Where weights are updated one after the other: the root of a second moment, and its quotient."""


def unfused_update(line: MemoryTimeline, step: UnitStep) -> None:
    """Adam operator by operator, when nothing of the backward pass is left: gradients, and further moments.

    It takes the root of every second moment that the rank owns before it divides by any, and before torch 2.1 adds
    epsilon to all of them in a second list; frozen weights have none. One weight after the other needs two tensors of
    the largest weight, which is taken to be one of the ends. Gradients are those that the rank owns, twice where it
    keeps them so, and beside the buckets of DDP where they are copied into these. Nothing is added where the update is
    fused, or the host's.
    line: the step until then; step: of every stage, shape (r,). Source: torch 2.13 optim/adam.py, _multi_tensor_adam
    (`exp_avg_sq_sqrt = torch._foreach_sqrt(...)`) and _single_tensor_adam; torch 2.0.1 optim/adamw.py L564-566
    (`denom = torch._foreach_add(exp_avg_sq_sqrt, eps)`, which 2.1 does in place).
    """
    storage = step.inputs.runtime.storage
    if storage.fused_update or storage.offloads_weights:
        return
    sharded = step.plans.zero > 1
    copies = 1 + (~sharded & (storage.gradient_buckets == "copies"))
    trained = step.stored.trained(step.inputs)
    gradients = copies * trained + sharded * step.reduced_twice
    line.free_all()
    line.allocate("logits", NAMED_LOGITS, step.named_logits)
    line.allocate("gradients", "of the step", step.weight_bytes * gradients)
    line.allocate("temporaries", "roots of second moments", storage.moment_bytes * _roots(step, trained))
    line.at(Moment.OPTIMIZER_STEP)


def _roots(step: UnitStep, trained: FloatColumn) -> FloatColumn:
    """Elements of all lists that the update has at once, or of the tensors of one weight."""
    lists, largest = step.inputs.runtime.storage.update_lists, np.maximum(step.stored.embedding, step.stored.head)
    return lists * trained if lists else TENSORS_OF_A_WEIGHT * np.minimum(largest, trained)

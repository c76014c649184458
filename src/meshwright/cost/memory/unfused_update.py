"""The update of an optimizer that is not fused, as allocations beside what a rank keeps from step to step."""

from __future__ import annotations

from meshwright.cost.memory.timeline import MemoryTimeline, Moment
from meshwright.cost.memory.unit_step import UnitStep


def unfused_update(line: MemoryTimeline, step: UnitStep) -> None:
    """Adam operator by operator, when nothing of the backward pass is left: gradients, and one more moment.

    It takes the root of every second moment that the rank owns before it divides by any; frozen weights have none.
    Gradients are those that the rank owns, twice where it keeps them so, and beside the buckets of DDP where they are
    copied into these. Nothing is added where the update is fused, or the host's.
    line: the step until then; step: of every stage, shape (r,). Source: torch 2.13 optim/adam.py, _multi_tensor_adam
    (`exp_avg_sq_sqrt = torch._foreach_sqrt(...)`).
    """
    storage = step.inputs.runtime.storage
    if storage.fused_update or storage.offloads_weights:
        return
    sharded = step.plans.zero > 1
    copies = 1 + (~sharded & (storage.gradient_buckets == "copies"))
    trained = step.stored.trained(step.inputs)
    gradients = copies * trained + sharded * step.reduced_twice
    line.free_all()
    line.allocate("gradients", "of the step", step.weight_bytes * gradients)
    line.allocate("temporaries", "roots of second moments", storage.moment_bytes * trained)
    line.at(Moment.OPTIMIZER_STEP)

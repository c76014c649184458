"""Budget: the memory of a model before and after its weights, states and activations are split."""

from __future__ import annotations

from dataclasses import dataclass, replace

from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import FULLY_SHARDED, Plan
from meshwright.schedules.records import Schedule
from meshwright.search.find import best_where
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.scale import with_gpus


@dataclass(frozen=True)
class Budgets:
    """The same model in several layouts; each estimate is of the worst stage."""

    one: Estimate
    """All of it on one accelerator."""
    replicated: Estimate
    """A copy on every accelerator: data parallelism alone."""
    chosen: Estimate
    without_zero: Estimate | None
    """The chosen plan with states that data-parallel ranks do not divide; None where it divides none."""
    without_recompute: Estimate | None
    """The chosen plan keeping every activation; None where it does."""
    fully_sharded: Estimate | None
    """The chosen plan if it divides weights, gradients and states over all ranks without a pipeline (ZeRO 3), else the
    best that does; None where the runtime has none."""


def budgets(estimate: Estimate, inputs: Inputs) -> Budgets:
    """The memory of a priced plan beside what it would be without its splits; layouts that gather no weights have them
    on the device.
    """
    plan, whole = estimate.plan, inputs
    if inputs.runtime.storage.offloads_weights:
        whole = inputs.replace(runtime=inputs.runtime.replace(offloaded="nothing"))
    alone = whole.replace(cluster=with_gpus(inputs.cluster, 1))
    return Budgets(
        one=one_plan(replicated(alone, plan.micro_batch), alone),
        replicated=one_plan(replicated(whole, plan.micro_batch), whole),
        chosen=estimate,
        without_zero=one_plan(replace(plan, zero=0, dp_replicate=1), whole) if _divides(plan) else None,
        without_recompute=one_plan(replace(plan, recompute=Recompute.NONE, recompute_layers=0), inputs)
        if plan.recompute
        else None,
        fully_sharded=estimate
        if plan.zero == FULLY_SHARDED and plan.pp == 1
        else best_where(inputs, lambda plans: (plans.zero == FULLY_SHARDED) & (plans.pp == 1)),
    )


def replicated(inputs: Inputs, micro_batch: int) -> Plan:
    """A whole copy of the model on every accelerator, and as many micro-batches as the batch leaves each."""
    ranks = inputs.cluster.num_gpus
    count = max(inputs.job.global_batch // (ranks * micro_batch), 1)
    return Plan(dp=ranks, micro_batch=micro_batch, num_microbatches=count, schedule=Schedule.ONE_F_ONE_B)


def one_plan(plan: Plan, inputs: Inputs) -> Estimate:
    """The estimate of one plan, legal or not."""
    return estimate_each([plan], inputs)[0]


def _divides(plan: Plan) -> bool:
    return plan.zero in (1, 2) and plan.dp * plan.cp > 1

"""Ask: the two questions of the planner, from Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from meshwright.answers.public.plans import PlanAnswer
from meshwright.answers.unfit.nothing_fits import nothing_fits
from meshwright.arguments import checked
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput
from meshwright.layout.legality import require_legal
from meshwright.layout.plan import Plan
from meshwright.search.find import Progress, find
from meshwright.specs.constraints import Constraints
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import ClusterSource, ModelSource, read_inputs
from meshwright.specs.runtime import Runtime


@checked
def plan(
    model: ModelSource,
    cluster: ClusterSource,
    job: Job,
    *,
    runtime: Runtime | str | None = None,
    constraints: Constraints | None = None,
    top: int = 5,
    progress: Progress | None = None,
) -> PlanAnswer:
    """The best plans for a job: every legal plan priced, those that fit ranked by step time.

    model: a `Model`, a path to a config.json or a catalogue name; cluster: a `Cluster`, a short form such as
    `8x8:h100`, a catalogue name or a TOML path; runtime: None: megatron-core, or megatron-bridge for adapters;
    constraints: which plans may be chosen; top: how many plans to return; progress: told (considered, in all).
    Raises `InvalidInput` for a wrong question and `NothingFits`, with what would, when no plan fits.

    >>> result = plan("llama-3.1-8b", "1x8:h100", Job(sequence_length=8192, global_batch=64))
    >>> result.best[0].verdict.name
    'SAFE'
    """
    if top < 1:
        raise InvalidInput(f"top is {top}; ask for 1 plan or more")
    result = find(read_inputs(model, cluster, job, runtime, constraints), top=top, progress=progress)
    if not result.best:
        raise nothing_fits(result)
    return PlanAnswer(**vars(result))


@overload
def estimate(
    model: ModelSource, cluster: ClusterSource, job: Job, plan: Plan, *, runtime: Runtime | str | None = ...
) -> Estimate:
    """What one plan costs."""


@overload
def estimate(
    model: ModelSource, cluster: ClusterSource, job: Job, plan: Sequence[Plan], *, runtime: Runtime | str | None = ...
) -> tuple[Estimate, ...]:
    """What each of several plans costs."""


@checked
def estimate(
    model: ModelSource,
    cluster: ClusterSource,
    job: Job,
    plan: Plan | Sequence[Plan],
    *,
    runtime: Runtime | str | None = None,
) -> Estimate | tuple[Estimate, ...]:
    """What a plan costs, stage by stage, or what each of several does, priced at once; see `plan` for the arguments.

    Raises `IllegalPlan` with every rule that the runtime would refuse it for.

    >>> layout = Plan(tp=8, sp=True, num_microbatches=64)
    >>> round(estimate("llama-3.1-8b", "1x8:h100", Job(sequence_length=8192, global_batch=64), layout).mfu, 2)
    0.32
    """
    inputs = read_inputs(model, cluster, job, runtime)
    plans = [plan] if isinstance(plan, Plan) else [*plan]
    for each in plans:
        require_legal(each, inputs)
    estimates = estimate_each(plans, inputs) if plans else ()
    return estimates[0] if isinstance(plan, Plan) else tuple(estimates)

"""Scaling: the same job from few accelerators to many, with one batch for all and with one that grows with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import EVEN
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput
from meshwright.layout.legality import faults
from meshwright.layout.plan import Plan
from meshwright.search.changes.changed_plans import changed_plans
from meshwright.specs.inputs import Inputs
from meshwright.specs.scale import with_gpus


@dataclass(frozen=True)
class Point:
    """The layout on some accelerators."""

    gpus: int
    inputs: Inputs
    """The question there: its cluster and its batch."""
    estimate: Estimate

    @property
    def fits(self) -> bool:
        """Whether it is as likely as not to run there: what others are measured against must have run."""
        return self.estimate.fit.probability >= EVEN

    @property
    def tokens_per_s(self) -> float:
        """Of all accelerators together."""
        return self.estimate.tokens_per_s_per_gpu * self.gpus


@dataclass(frozen=True)
class Scaling:
    """One layout of tp, cp, pp and the rest on more and more accelerators: dp alone grows."""

    baseline: int
    """Accelerators that the question starts from."""
    strong: tuple[Point, ...]
    """With the global batch of the job, wherever the layout is legal and likely to fit; the last one is the cluster."""
    weak: tuple[Point, ...]
    """With a batch that grows as the accelerators do, the job's at the target, wherever it is likely to fit."""
    unfit: tuple[int, ...]
    """Numbers of accelerators on which the layout is legal and not likely to fit with the job's batch."""


def scaling(estimate: Estimate, inputs: Inputs, baseline: int) -> Scaling:
    """The plan's layout from the baseline to the cluster, doubling.

    baseline: accelerators. Raises `InvalidInput` for a baseline that is no whole nodes, or more than the cluster has.
    """
    total = inputs.cluster.num_gpus
    if baseline > total:
        raise InvalidInput(
            f"the baseline of {baseline} accelerators exceeds the cluster's {total}; use {total} or fewer"
        )
    with_gpus(inputs.cluster, baseline)
    counts = [*doublings(baseline, total), total]
    strong = [_point(estimate.plan, inputs, count, inputs.job.global_batch) for count in counts]
    weak = [_point(estimate.plan, inputs, count, inputs.job.global_batch * count // total) for count in counts]
    unfit = [point.gpus for point in strong if point and not _counts(point, total)]
    fitting = (tuple(each for each in points if each and _counts(each, total)) for points in (strong, weak))
    return Scaling(baseline, next(fitting), next(fitting), tuple(unfit))


def _counts(point: Point, total: int) -> bool:
    return point.fits or point.gpus == total


def same_layout(plan: Plan, inputs: Inputs) -> Plan | None:
    """The plan on another cluster or batch: its layout, with dp and what follows; None where that is illegal."""
    dp, rest = divmod(inputs.cluster.num_gpus, plan.tp * plan.cp * plan.pp)
    if rest or not dp:
        return None
    if (dp, inputs.job.global_batch) == (plan.dp, plan.dp * plan.micro_batch * plan.num_microbatches):
        return plan
    return next((each for each in changed_plans(plan, inputs, {"dp": dp}) if not faults(each, inputs)), None)


def doublings(baseline: int, total: int) -> Iterator[int]:
    """The baseline, twice as many and so on, fewer than the total; accelerators."""
    count = baseline
    while count < total:
        yield count
        count *= 2


def _point(plan: Plan, inputs: Inputs, gpus: int, batch: int) -> Point | None:
    if not batch:
        return None
    try:
        scaled = inputs.replace(
            cluster=with_gpus(inputs.cluster, gpus), job=inputs.job.replace(global_batch=batch, assumptions=())
        )
    except InvalidInput:
        return None
    same = same_layout(plan, scaled)
    return Point(gpus, scaled, estimate_each([same], scaled)[0]) if same else None

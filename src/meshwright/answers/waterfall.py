"""Waterfall: from the accelerators' peak down to the predicted step, part by part."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from meshwright.answers.document.blocks import Table
from meshwright.answers.screen import BAR
from meshwright.answers.step_parts import ALL_NAMES
from meshwright.arrays import column
from meshwright.cost.compute.work import Work
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_plans
from meshwright.layout.plan import Plan, Recompute
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs
from meshwright.units import format_seconds


class Computed(NamedTuple):
    """The compute of one step, from the peak down; seconds, which add up to the waterfall's `compute_s`."""

    ideal_s: float
    """The model's FLOPs at the dense peak of all accelerators."""
    kernels_s: float
    """What matrix products and attention take beyond that, on the mean of the stages."""
    elementwise_s: float
    """Element-wise kernels and norms, on the mean of the stages."""
    uneven_s: float
    """What the stage with the most work computes more than the mean; less, where its work is communication."""
    recompute_s: float
    """What the slowest stage computes again in backward."""


def from_peak(estimate: Estimate, inputs: Inputs) -> dict[str, float]:
    """Seconds of every part of the step, from the ideal on; they add up to the step.

    ideal = model FLOPs / (ranks x dense peak) = MFU x step. The plan is priced again without recomputation: the mean of
    its stages over the ideal is what kernels lose, the slowest stage over the mean what stages differ, and the rest of
    the compute is recomputation. Everything else is as in the waterfall of the estimate.
    """
    plan = estimate.plan
    stages = _plain_stages(plan, inputs)
    mean = Work(*(sum(kind) / len(stages) for kind in zip(*stages, strict=True)))
    slowest, ideal = float(stages[estimate.slowest_stage].total), estimate.mfu * estimate.step_time_s
    computed = Computed(
        ideal_s=ideal,
        kernels_s=float(mean.gemm + mean.attention) - ideal,
        elementwise_s=float(mean.elementwise),
        uneven_s=slowest - float(mean.total),
        recompute_s=estimate.time.compute_s - slowest if plan.recompute else 0.0,
    )
    others = {name: seconds for name, seconds in estimate.time._asdict().items() if name != "compute_s"}
    return computed._asdict() | others


def waterfall_table(estimate: Estimate, inputs: Inputs) -> Table:
    """Every part of the step: seconds, share, and a bar that starts where the one above it ends."""
    total, begun, rows = estimate.step_time_s, 0.0, []
    for name, seconds in from_peak(estimate, inputs).items():
        if abs(seconds) > 1e-6 * total:
            share = f"{seconds / total:4.0%} {_bar(begun, seconds, total)}"
            rows.append((ALL_NAMES[name], format_seconds(seconds), share))
        begun += seconds
    rows.append(("= step", format_seconds(total), f"100% {'█' * BAR}"))
    return Table(("", "", ""), tuple(rows), "wrw", "From peak to prediction", total=True)


def _bar(begun: float, seconds: float, total: float) -> str:
    first, last = (min(max(round(at / total * BAR), 0), BAR) for at in (begun, begun + seconds))
    return " " * first + "█" * (last - first)


def _plain_stages(plan: Plan, inputs: Inputs) -> list[Work]:
    """Compute of one step on each stage, forward and backward, if nothing were computed again."""
    plain = replace(plan, recompute=Recompute.NONE)
    time = estimate_plans(Plans.of([plain]), inputs, keep_all_stages=True).stage_time
    work = time.forward.plus(time.backward)
    return [Work(*(float(column(kind)[row]) * plan.num_microbatches for kind in work)) for row in range(plan.pp)]

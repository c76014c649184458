"""Step parts: what they are called, what they take from the accelerators' peak down, and which make a plan slower."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from meshwright.answers.document.blocks import Table
from meshwright.answers.pace import longer, pace_of, pace_or_same
from meshwright.arrays import column
from meshwright.cost.compute.work import Work
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_plans
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.ranking.rank import LEAST_GAIN, UNNAMED_SHARE, Difference, difference
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.units import format_gib, format_seconds

BAR = 24
"""Characters of the longest bar of a table."""
COMPUTED_NAMES = {
    "ideal_s": "model FLOPs at dense peak",
    "kernels_s": "products and attention below peak",
    "elementwise_s": "element-wise and norms",
    "uneven_s": "slowest stage over the mean",
    "recompute_s": "recomputation",
}
PART_NAMES = {
    "compute_s": "compute",
    "exposed_tp_s": "exposed tensor-parallel communication",
    "exposed_cp_s": "exposed context-parallel communication",
    "exposed_ep_s": "exposed expert exchange",
    "exposed_pp_s": "exposed stage-to-stage messages",
    "exposed_dp_s": "exposed gradient exchange",
    "bubble_s": "pipeline bubble",
    "optimizer_s": "optimizer step",
    "host_s": "waiting for the host",
}
ALL_NAMES = COMPUTED_NAMES | PART_NAMES


def why_lost(plan: Estimate, best: Estimate, most: int | None = None) -> str:
    """How much a plan loses to the best one, or gains over one that is not, and in which parts of the step; of a gain
    or loss below `LEAST_GAIN`, that the two tie. most: parts that are named, as `named_parts` has them.
    """
    lost = difference(plan, best)
    if plan.verdict > best.verdict:
        link = "but" if lost.seconds < 0 else "and"
        risk = f"{link} at risk of running out" if plan.verdict.fits else f"{link} out"
        needs = f"{format_gib(plan.memory.device)} on its worst stage{_chance(plan)}"
        return f"{pace_of(lost.share)}, {risk} of memory ({needs})"
    fits = f"{plan.verdict}, " if plan.verdict < best.verdict else ""
    if not lost.parts or abs(lost.share) < LEAST_GAIN:
        return f"{fits}{pace_or_same(lost.share)}, a tie{_memory_words(lost.memory_bytes)}"
    parts = [_more_or_less(name, seconds) for name, seconds in named_parts(lost, most)]
    return f"{fits}{pace_of(lost.share)}: {', '.join(parts)}"


def main_cause(plan: Estimate, best: Estimate, inputs: Inputs) -> str:
    """The part of the step, as `from_peak` has them, that most of a loss or gain comes from, with its seconds; nothing
    where the two tie.
    """
    if abs(longer(plan, best)) < LEAST_GAIN:
        return ""
    sign = 1 if plan.step_time_s > best.step_time_s else -1
    before, after = from_peak(best, inputs), from_peak(plan, inputs)
    name = max(after, key=lambda part: sign * (after[part] - before[part]))
    return _more_or_less(name, after[name] - before[name])


def named_parts(lost: Difference, most: int | None = None) -> list[tuple[str, float]]:
    """The parts of a difference with their seconds, `most` of them, the one that decides first; and the largest part
    that goes the other way where these exceed the difference by more than `UNNAMED_SHARE`.
    """
    parts = [*lost.parts.items()]
    named, rest = parts[:most], parts[len(parts[:most]) :]
    over = sum(seconds for _, seconds in named) / lost.seconds - 1 if lost.seconds else 0.0
    offset = [each for each in rest if each[1] * lost.seconds < 0][:1] if over > UNNAMED_SHARE else []
    return named + offset


def _more_or_less(name: str, seconds: float) -> str:
    return f"{format_seconds(abs(seconds))} {'more' if seconds > 0 else 'less'} {ALL_NAMES[name]}"


def _memory_words(difference: float) -> str:
    """Bytes that a plan takes more or less than another, in words; nothing where none are shown."""
    size = format_gib(abs(difference))
    return "" if size == format_gib(0) else f", with {size} {'more' if difference > 0 else 'less'} memory"


def _chance(plan: Estimate) -> str:
    return f", probability of fitting {plan.fit.probability:.0%}" if plan.verdict.fits else ""


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
    total, start, rows = estimate.step_time_s, 0.0, []
    for name, seconds in from_peak(estimate, inputs).items():
        if abs(seconds) > 1e-6 * total:
            share = f"{seconds / total:4.0%} {_bar(start, seconds, total)}"
            rows.append((ALL_NAMES[name], format_seconds(seconds), share))
        start += seconds
    rows.append(("= step", format_seconds(total), f"100% {'█' * BAR}"))
    return Table(("", "", ""), tuple(rows), "wrw", caption="From peak to prediction", total=True)


def _bar(start: float, seconds: float, total: float) -> str:
    first, last = (min(max(round(at / total * BAR), 0), BAR) for at in (start, start + seconds))
    return " " * first + "█" * (last - first)


def _plain_stages(plan: Plan, inputs: Inputs) -> list[Work]:
    """Compute of one step on each stage, forward and backward, if nothing were computed again."""
    plain = replace(plan, recompute=Recompute.NONE)
    time = estimate_plans(Plans.of([plain]), inputs, keep_all_stages=True).stage_time
    work = time.forward.plus(time.backward)
    return [Work(*(float(column(kind)[row]) * plan.num_microbatches for kind in work)) for row in range(plan.pp)]

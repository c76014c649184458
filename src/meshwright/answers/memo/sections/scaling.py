"""Scaling: from the baseline to the cluster, with the same batch and with one that grows."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.answers.document.blocks import Block, Figure, Paragraph, Table
from meshwright.answers.memo.memo import Memo
from meshwright.answers.memo.micro_batching import bubble_share
from meshwright.answers.memo.scaling import Point
from meshwright.answers.pictures.scaling import ScalingPoint, scaling_picture
from meshwright.answers.words import accelerators, percent, plural, times
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.errors import listed
from meshwright.units import GIB, format_count, format_seconds

AT_RISK = {True: ", at risk", False: ""}
OTHERS = ("ep", "etp", "zero", "dp_replicate", "vpp")
"""Fields of a layout that may change with dp."""


def scaling_section(memo: Memo) -> Iterator[Block]:
    """Where scaling starts, strong and weak scaling as tables, what they say, and their curves."""
    strong, weak, total = memo.scaling.strong, memo.scaling.weak, memo.inputs.cluster.num_gpus
    yield Paragraph(_from(memo))
    if len(strong) > 1:
        yield _points(strong, f"Strong scaling: {memo.inputs.job.global_batch} sequences a step on any number")
        yield Paragraph(_strong(strong))
    if len(weak) > 1:
        yield _points(
            weak, f"Weak scaling: the batch grows with the accelerators, to {memo.inputs.job.global_batch} sequences"
        )
        yield Paragraph(_weak(weak))
    if len(strong) > 1:
        title = f"Tokens a second of this layout from {strong[0].gpus} to {total} accelerators, both scales logarithmic"
        yield Figure("scaling", scaling_picture(_series(strong, weak), title), title)


def _from(memo: Memo) -> str:
    scaled, total = memo.scaling, memo.inputs.cluster.num_gpus
    if scaled.baseline == total:
        return f"The baseline is the whole cluster, {accelerators(total)}, so there is no scaling to show."
    text = (
        f"From {accelerators(scaled.baseline)} up by doubling, a plan for this batch fits safely only on all {total}."
    )
    if smaller := memo.smaller:
        perfect = total / smaller.gpus
        text = (
            f"The same batch fits safely on {smaller.gpus} accelerators at the fewest, with "
            f"`{smaller.estimate.plan}`: {format_count(smaller.tokens_per_s)} tokens/s, "
            f"{format_seconds(smaller.estimate.step_time_s)} a step. The recommended plan is {times(memo.speed_up)} as "
            f"fast on {perfect:g} times as many"
        )
        text += f". It gains more than that because the smaller plan loses more to {memo.saved}." if memo.saved else "."
    if scaled.unfit:
        counts = listed([*scaled.unfit[:-1], accelerators(scaled.unfit[-1])], "or")
        text += f" The recommended layout is not likely to fit on {counts}"
        text += ", which the tables leave out." if len(scaled.strong) > 1 else "."
    elif len(scaled.strong) == 1:
        text += f" The recommended layout needs all {total}."
    return text


def _points(points: tuple[Point, ...], caption: str) -> Table:
    first = points[0]
    rows = []
    for point in points:
        estimate, plan = point.estimate, point.estimate.plan
        speed, exposed_s = point.tokens_per_s / first.tokens_per_s, estimate.time.exposed_dp_s
        rows.append(
            (
                f"{point.gpus}",
                f"{plan.dp}",
                f"{plan.num_microbatches}",
                format_seconds(estimate.step_time_s),
                format_count(point.tokens_per_s),
                f"{speed:.2f} of {point.gpus / first.gpus:.3g}",
                percent(speed * first.gpus / point.gpus),
                percent(bubble_share(estimate)),
                percent(exposed_s / estimate.step_time_s),
                f"{estimate.memory.device / GIB:.1f}{AT_RISK[estimate.verdict == Verdict.AT_RISK]}",
            )
        )
    columns = (
        "accelerators", "dp", "m", "step", "tokens/s", "speed-up", "efficiency", "bubble", "gradients exposed", "GiB",
    )  # fmt: skip
    return Table(columns, tuple(rows), "r" * len(columns), caption=caption)


def _strong(points: tuple[Point, ...]) -> str:
    first, last = points[0], points[-1]
    before, after = first.estimate, last.estimate
    speed, perfect = last.tokens_per_s / first.tokens_per_s, last.gpus / first.gpus
    return (
        f"From {first.gpus} to {last.gpus} accelerators dp grows {times(after.plan.dp / before.plan.dp)}: the same "
        f"batch leaves each replica {plural(after.plan.num_microbatches, 'micro-batch', 'micro-batches')} instead of "
        f"{before.plan.num_microbatches}, {_effect(before, after)}. The step is {speed:.2f} times as fast; "
        f"{perfect:.3g} would be perfect.{_other_axes(points)}"
    )


def _effect(before: Estimate, after: Estimate) -> str:
    """What fewer micro-batches on each replica do."""
    if after.plan.pp > 1:
        bubbles = percent(bubble_share(before)), percent(bubble_share(after))
        return f"so the bubble goes from {bubbles[0]} to {bubbles[1]} of the step"
    if after.plan.zero >= 2:
        return "and each exchanges gradients or weights while it computes"
    return "and the last one must hide the whole gradient exchange"


def _other_axes(points: tuple[Point, ...]) -> str:
    """Which axes beside dp are others on fewer accelerators, as ep is where the ranks of a stage hold fewer experts."""
    last, texts = points[-1].estimate.plan, []
    for point in points[:-1]:
        plan = point.estimate.plan
        if changed := [
            f"{axis} {getattr(plan, axis)}" for axis in OTHERS if getattr(plan, axis) != getattr(last, axis)
        ]:
            texts.append(f"{listed(changed)} on {point.gpus}")
    if not texts:
        return ""
    there = listed([f"{axis} {getattr(last, axis)}" for axis in OTHERS if f" {axis} " in f" {' '.join(texts)} "])
    return f" Other degrees change too: {', '.join(texts)}, {there} on {points[-1].gpus}."


def _weak(points: tuple[Point, ...]) -> str:
    first, last = points[0], points[-1]
    efficiency = last.tokens_per_s / first.tokens_per_s * first.gpus / last.gpus
    return (
        f"With {last.inputs.job.global_batch} sequences a step on {last.gpus} instead of "
        f"{first.inputs.job.global_batch} on {first.gpus}, an accelerator keeps {percent(efficiency)} of its speed. "
        "A larger batch has a price in training: it needs another learning rate and, beyond the critical batch size, "
        f"more tokens.{_other_axes(points)}"
    )


def _series(strong: tuple[Point, ...], weak: tuple[Point, ...]) -> dict[str, list[ScalingPoint]]:
    return {
        name: [ScalingPoint(point.gpus, point.tokens_per_s) for point in points]
        for name, points in (("same batch", strong), ("batch grows", weak))
        if len(points) > 1
    }

"""Scaling: from the baseline to the cluster, with the same batch and with one that grows."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.answers.document.blocks import Block, Figure, Paragraph, Table
from meshwright.answers.memo.memo import Memo
from meshwright.answers.memo.micro_batching import bubble_share
from meshwright.answers.memo.scaling import Point
from meshwright.answers.memo.words import accelerators, listed, percent, times
from meshwright.answers.pictures.scaling import ScalingPoint, scaling_picture
from meshwright.cost.memory.fit import Verdict
from meshwright.units import GIB, format_count, format_seconds

FITS = {Verdict.SAFE: "", Verdict.AT_RISK: ", at risk", Verdict.OUT_OF_MEMORY: ", does not fit"}


def scaling_section(memo: Memo) -> Iterator[Block]:
    """Where scaling starts, strong and weak scaling as tables, what they say, and their curves."""
    strong, weak, total = memo.scaling.strong, memo.scaling.weak, memo.inputs.cluster.num_gpus
    yield Paragraph(_from(memo))
    if len(strong) > 1:
        yield _points(strong, f"Strong scaling: {memo.inputs.job.global_batch} sequences a step for all")
        yield Paragraph(_strong(strong))
    if len(weak) > 1:
        yield _points(
            weak, f"Weak scaling: a batch that grows with the accelerators, to {memo.inputs.job.global_batch}"
        )
        yield Paragraph(_weak(weak))
    if len(strong) > 1:
        title = f"Tokens a second from {strong[0].gpus} to {total} accelerators"
        yield Figure("scaling", scaling_picture(_series(strong, weak), title), title)


def _from(memo: Memo) -> str:
    baseline, total, strong = memo.scaling.baseline, memo.inputs.cluster.num_gpus, memo.scaling.strong
    if baseline == total:
        return f"The baseline is the whole cluster, {accelerators(total)}: there is no scaling to show."
    text = f"On {accelerators(baseline)} no plan for the same batch fits."
    if smaller := memo.smaller:
        whole = memo.best.tokens_per_s_per_gpu * total
        text = (
            f"On {accelerators(baseline)} the best plan for the same batch is `{smaller.estimate.plan}`: "
            f"{format_count(smaller.tokens_per_s)} tokens/s, {format_seconds(smaller.estimate.step_time_s)} a step. "
            f"On {total} the recommendation makes {format_count(whole)} tokens/s, "
            f"{times(whole / smaller.tokens_per_s)} as many, where {times(total / baseline)} would be perfect."
        )
    if not strong or strong[0].gpus == total:
        return f"{text} The recommended layout needs all {total}."
    if strong[0].gpus > baseline:
        return f"{text} The recommended layout needs {strong[0].gpus} or more; the tables start there."
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
                f"{estimate.memory.device / GIB:.1f}{FITS[estimate.verdict]}",
            )
        )
    columns = (
        "accelerators", "dp", "m", "step", "tokens/s", "speed-up", "efficiency", "bubble", "gradients exposed", "GiB",
    )  # fmt: skip
    return Table(columns, tuple(rows), "r" * len(columns), caption)


def _strong(points: tuple[Point, ...]) -> str:
    first, last = points[0], points[-1]
    before, after = first.estimate, last.estimate
    speed, perfect = last.tokens_per_s / first.tokens_per_s, last.gpus / first.gpus
    effect = "which must hide one gradient reduction"
    if after.plan.pp > 1:
        bubbles = percent(bubble_share(before)), percent(bubble_share(after))
        effect = f"so the bubble goes from {bubbles[0]} to {bubbles[1]} of the step"
    text = (
        f"From {first.gpus} to {last.gpus} accelerators dp grows {times(after.plan.dp / before.plan.dp)}: the same "
        f"batch leaves each replica {after.plan.num_microbatches} micro-batches instead of "
        f"{before.plan.num_microbatches}, {effect}. The step is {speed:.2f} times as fast where {perfect:.3g} would be "
        "perfect."
    )
    if unfit := [point.gpus for point in points if not point.estimate.verdict.fits]:
        counts = listed([*map(str, unfit[:-1]), accelerators(unfit[-1])])
        text += f" The layout does not fit on {counts}; it is priced as if it did."
    return text


def _weak(points: tuple[Point, ...]) -> str:
    first, last = points[0], points[-1]
    efficiency = last.tokens_per_s / first.tokens_per_s * first.gpus / last.gpus
    return (
        f"With {last.inputs.job.global_batch} sequences a step on {last.gpus} instead of "
        f"{first.inputs.job.global_batch} on {first.gpus}, an accelerator keeps {percent(efficiency)} of its speed. "
        "The cost is in training: a larger batch needs another learning rate, and beyond the critical batch size more "
        "tokens."
    )


def _series(strong: tuple[Point, ...], weak: tuple[Point, ...]) -> dict[str, list[ScalingPoint]]:
    return {
        name: [ScalingPoint(point.gpus, point.tokens_per_s) for point in points]
        for name, points in (("same batch", strong), ("batch grows", weak))
        if len(points) > 1
    }

"""Conclusion: one bottleneck and one mitigation, with their numbers, and how to confirm them."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.answers.document.blocks import Block, Callout, Figure, Heading, Paragraph, Table
from meshwright.answers.memo.bottleneck import GROWS, Bottleneck
from meshwright.answers.memo.memo import Memo
from meshwright.answers.memo.mitigation import LEAST_GAIN
from meshwright.answers.memo.scaling import Point
from meshwright.answers.memo.words import accelerators, percent, times
from meshwright.answers.pictures.waterfall import waterfall_picture
from meshwright.answers.step_parts import ALL_NAMES, from_peak
from meshwright.cost.memory.fit import Verdict
from meshwright.units import format_count, format_seconds

WHERE = {
    "exposed_dp_s": "what of the gradient collectives runs while no product does, behind the last backward and before "
    "the first forward of a step",
    "bubble_s": "the time in which a rank of the slowest stage runs no kernel, at the beginning and the end of a step",
    "exposed_tp_s": "the collectives between the products of one layer, summed over layers and micro-batches",
    "exposed_cp_s": "what of the exchange of keys and values runs while no product does, summed over layers and "
    "micro-batches",
    "exposed_ep_s": "dispatch and combine of one layer of experts, summed over layers and micro-batches",
    "exposed_pp_s": "the waits for messages between stages in the middle of a step",
    "host_s": "the gaps between kernels while the host issues them",
    "uneven_s": "the busy time of the slowest stage less the mean of all stages",
    "recompute_s": "the forward kernels inside of backward",
    "kernels_s": "the seconds of all matrix products and attention beyond their FLOPs at peak",
    "elementwise_s": "the seconds of all kernels that are no products",
    "optimizer_s": "the time between the gradient norm and the next forward",
}
"""How each part of a step is measured."""
SHOWN = 5
"""Parts in the table."""


def conclusion_section(memo: Memo) -> Iterator[Block]:
    """The parts that grow, the bottleneck, the mitigation, and what perfect scaling would mean."""
    yield Heading("Conclusion: what will limit it, and what to try first", 2)
    title = "From peak to the predicted step"
    parts = [
        (ALL_NAMES.get(name, name), seconds) for name, seconds in from_peak(memo.best, memo.inputs).items() if seconds
    ]
    yield Figure("waterfall", waterfall_picture(parts, title), title)
    if memo.bottleneck.reference:
        yield _growth(memo.bottleneck, memo.bottleneck.reference, memo)
    yield Callout(*_bottleneck(memo), "warning")
    yield Callout(*_mitigation(memo), "good")
    yield Paragraph(_perfect(memo))


def _growth(bottleneck: Bottleneck, reference: Point, memo: Memo) -> Table:
    total = memo.inputs.cluster.num_gpus
    shown = sorted(
        bottleneck.overheads, key=lambda each: -max(each.share_after, each.share_before * bottleneck.efficiency)
    )
    rows = tuple(
        (each.name, percent(each.share_before), percent(each.share_after), percent(each.growth))
        for each in (*shown[:SHOWN], *(each for each in shown[SHOWN:] if each is bottleneck.chosen))
        if each.share_after or each.share_before
    )
    columns = ("part of the step", f"on {reference.gpus}", f"on {total}", "added")
    caption = (
        f"Parts that {accelerators(reference.gpus)} have already cost MFU; what is added up to "
        f"{total} costs scaling. Added: accelerator-seconds for the same tokens, as a share of the step"
    )
    return Table(columns, rows, "lrrr", caption)


def _bottleneck(memo: Memo) -> tuple[str, str]:
    bottleneck, total = memo.bottleneck, memo.inputs.cluster.num_gpus
    chosen, seconds = bottleneck.chosen, format_seconds(bottleneck.seconds)
    text = f"{seconds} of a step of {format_seconds(memo.best.step_time_s)}, {percent(chosen.share_after)}."
    if bottleneck.grows and bottleneck.reference:
        text += (
            f" On {accelerators(bottleneck.reference.gpus)} it takes {percent(chosen.share_before)}; "
            f"of all parts it grows most on the way to {total}."
        )
    elif bottleneck.reference:
        text += (
            f" No part grows by {percent(GROWS)} of the step or more between {bottleneck.reference.gpus} and {total} "
            "accelerators; this is the largest part that a single accelerator would not have."
        )
    else:
        text += " It is the largest part that a single accelerator would not have."
    text += f" To confirm, profile one step and add up {WHERE[chosen.part]}: {seconds} are predicted."
    return f"Most likely bottleneck: {chosen.name}", text


def _mitigation(memo: Memo) -> tuple[str, str]:
    mitigation, chosen, step = memo.mitigation, memo.bottleneck.chosen, memo.best.step_time_s
    if mitigation is None:
        return (
            "First mitigation: none needed",
            f"No single change of the plan, the runtime's switches, the batch or the network makes the step of "
            f"{format_seconds(step)} {percent(LEAST_GAIN)} faster by reducing {chosen.name}. Measure it first.",
        )
    after, tokens = (1 - mitigation.gain) * step, memo.inputs.job.tokens_per_step
    risk = "" if mitigation.estimate.verdict == Verdict.SAFE else f" Memory: {mitigation.estimate.verdict}."
    return (
        f"First mitigation: {mitigation.change}",
        f"Priced again, it cuts {chosen.name} from {format_seconds(mitigation.part_before_s)} to "
        f"{format_seconds(mitigation.part_after_s)} and the time of the same tokens from {format_seconds(step)} to "
        f"{format_seconds(after)}, {percent(mitigation.gain)} less. Cost: {mitigation.price}{risk} To confirm, run "
        f"twenty steps with it and compare tokens a second: {format_count(tokens / step)} before, "
        f"{format_count(tokens / after)} after.",
    )


def _perfect(memo: Memo) -> str:
    total, bottleneck, best, one = memo.inputs.cluster.num_gpus, memo.bottleneck, memo.best, memo.budgets.one
    if total == 1:
        return f"One accelerator has nothing to scale to; report its MFU, predicted {percent(best.mfu)}."
    text = f"A perfect speed-up of {total} times "
    if one.verdict.fits:
        text += "is measured against one accelerator, on which the model runs. Also report: "
    else:
        text += (
            "cannot be measured: the model does not run on one accelerator, which would need "
            f"{times(one.fit.usage)} its memory. Report two numbers instead: "
        )
    text += f"MFU, predicted {percent(best.mfu)}"
    if bottleneck.reference:
        perfect = total / bottleneck.reference.gpus
        reached = perfect * bottleneck.efficiency
        text += (
            f", and the speed-up from {bottleneck.reference.gpus} to {total} accelerators, predicted {reached:.2f} of "
            f"{perfect:.3g} ({percent(reached / perfect)})"
        )
        if reached > perfect:
            lost = min(bottleneck.overheads, key=lambda each: each.growth)
            text += (
                f"; more than perfect, because {percent(-lost.growth)} of the step "
                f"is {lost.name} that the plan on {bottleneck.reference.gpus} pays beyond this one"
            )
    return f"{text}."

"""Limits: what the step is made of, its bottleneck and how to confirm it, and what would change the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meshwright.answers.document.blocks import Block, Callout, Figure, Heading, Paragraph, Table
from meshwright.answers.memo.bottleneck import GROWS, LOCAL, Bottleneck
from meshwright.answers.memo.memo import Memo
from meshwright.answers.memo.scaling import Point
from meshwright.answers.pace import longer, pace
from meshwright.answers.pictures.waterfall import waterfall_picture
from meshwright.answers.plans.switches import WORTH
from meshwright.answers.plans.ties import reasons
from meshwright.answers.step_parts import ALL_NAMES, from_peak
from meshwright.answers.words import accelerators, percent
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.errors import listed
from meshwright.search.changes.sensitivity import PricedChange
from meshwright.search.ranking.ties import share_of_ties
from meshwright.specs.inputs import Inputs
from meshwright.units import format_count, format_seconds

BY_LAYER = "by layer"
"""In place of `exposed_dp_s`, where every layer gathers its weights."""
WHERE = {
    BY_LAYER: "the time in which layers gather weights or scatter gradients and no matrix product runs, in every "
    "micro-batch",
    "exposed_dp_s": "the time of gradient collectives in which no matrix product runs, after the last backward and "
    "before the first forward of a step",
    "bubble_s": "the time in which a rank of the slowest stage runs no kernel, at the beginning and the end of a step",
    "exposed_tp_s": "the collectives between the products of one layer, summed over layers and micro-batches",
    "exposed_cp_s": "the time of key-value exchanges in which no matrix product runs, summed over layers and "
    "micro-batches",
    "exposed_ep_s": "dispatch and combine of one layer of experts, summed over layers and micro-batches",
    "exposed_pp_s": "the waits for stage-to-stage messages in the middle of a step",
    "host_s": "the gaps between kernels in which the host launches the next ones",
    "uneven_s": "the busy time of the slowest stage less the mean of all stages",
    "recompute_s": "the forward kernels inside the backward pass",
    "kernels_s": "the time of all matrix products and attention beyond their FLOPs at peak",
    "elementwise_s": "the time of all kernels that are not matrix products",
    "optimizer_s": "the time between the gradient norm and the next forward",
}
"""How each part of a step is measured."""
ALONE = "that a single accelerator would not have"
SHOWN = 5
"""Parts in the table."""
PRICES = {
    "precision": "a number format; a run must show that the loss curves agree",
    "optimizer_states": "moments in fewer bits or an update on the host; a run must show that it pays",
    "network": "a purchase, or another cluster",
}
"""What changes cost that are no switch, by knob."""


def limits_section(memo: Memo) -> Iterator[Block]:
    """The parts of the step and those that grow, the bottleneck, and what other questions would be answered with."""
    yield Heading("Appendix E. What limits it, and what would change the answer", 2)
    title = "Time of one step, from the model's FLOPs at peak to the prediction"
    parts = [
        (ALL_NAMES.get(name, name), seconds) for name, seconds in from_peak(memo.best, memo.inputs).items() if seconds
    ]
    yield Figure("waterfall", waterfall_picture(parts, title), title, table=_parts(parts, memo.best.step_time_s))
    if memo.bottleneck.reference:
        yield _growth(memo.bottleneck, memo.bottleneck.reference, memo)
    yield Callout(*_bottleneck(memo), "warning")
    yield Paragraph(_numbers(memo))
    yield _questions(memo)
    if dearer := _dearer(memo):
        yield Paragraph(dearer)


def _parts(parts: Sequence[tuple[str, float]], step: float) -> Table:
    """The parts of the waterfall as figures."""
    rows = [(name, format_seconds(seconds), percent(seconds / step)) for name, seconds in parts]
    rows.append(("the step", format_seconds(step), "100%"))
    return Table(("from the peak to the step", "seconds", "share"), tuple(rows), total=True)


def _questions(memo: Memo) -> Table:
    """What is best, and what the recommended layout does, where one thing of the question is another."""
    asked = _answer("as asked", memo.best, memo.best, memo.inputs)
    rows = [(*asked[:-1], _as_asked(memo))]
    rows += [_answer(each.change, each.best, each.same, each.inputs) for each in memo.other_questions]
    columns = ("question", "best plan", "tokens/s", "the recommended layout for it")
    return Table(
        columns, tuple(rows), "llrl", caption="The same question with one thing changed, and a new search for each"
    )


def _as_asked(memo: Memo) -> str:
    """That the plan is the best, or is recommended, and the speed of the predicted fastest where that is another one:
    another question may have more tokens/s than the recommended plan.
    """
    fastest, best = memo.search.fastest, memo.best
    if fastest is None or fastest.step_time_s >= best.step_time_s:
        return "is the best"
    speed = format_count(fastest.tokens_per_s_per_gpu * memo.inputs.cluster.num_gpus)
    return f"is recommended; the predicted fastest has {speed}"


def _answer(change: str, best: Estimate | None, same: Estimate | None, inputs: Inputs) -> tuple[str, ...]:
    if best is None:
        return change, "none fits", "", ""
    speed = format_count(best.tokens_per_s_per_gpu * inputs.cluster.num_gpus)
    if same is None:
        return change, f"`{best.plan}`", speed, "is not legal"
    words = pace(same, best)
    if same.plan == best.plan:
        words = "is the best"
    elif same.verdict == best.verdict and longer(same, best) < 0:
        words += f", but the best plan {reasons(best, same, inputs)}"
    elif abs(longer(same, best)) <= share_of_ties(inputs):
        words += ", closer than predictions can tell"
    risk = "" if same.verdict == Verdict.SAFE else f", {same.verdict}"
    return change, f"`{best.plan}`", speed, f"{words}{risk}"


def _dearer(memo: Memo) -> str:
    """Changes with a price that would make the step shorter by as much as a switch must."""
    step = memo.best.step_time_s
    best: dict[str, PricedChange] = {}
    for each in sorted(memo.sensitivity.changes, key=lambda each: each.estimate.step_time_s):
        gain = 1 - each.estimate.step_time_s / step
        if each.knob in PRICES and each.estimate.verdict <= memo.best.verdict and gain >= WORTH:
            best.setdefault(each.knob, each)
    gains = [
        f"{each.change} ({percent(1 - each.estimate.step_time_s / step)} less; {PRICES[name]})"
        for name, each in best.items()
    ]
    return f"Changes that have a price and make the same plan faster: {listed(gains)}." if gains else ""


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
        f"Shares of the step on {accelerators(reference.gpus)} (`{reference.estimate.plan}`) and on {total}. Added: "
        "the accelerator-seconds that scaling adds for the same tokens, as a share of the step"
    )
    return Table(columns, rows, "lrrr", caption=caption)


def _bottleneck(memo: Memo) -> tuple[str, str]:
    bottleneck, total = memo.bottleneck, memo.inputs.cluster.num_gpus
    chosen, seconds = bottleneck.chosen, format_seconds(bottleneck.seconds)
    text = f"{seconds} of a step of {format_seconds(memo.best.step_time_s)}, {percent(chosen.share_after)}."
    if bottleneck.grows and bottleneck.reference:
        text += (
            f" On {accelerators(bottleneck.reference.gpus)} it takes {percent(chosen.share_before)}; "
            f"it grows more than any other part on the way to {total}."
        )
    else:
        of_all = "beyond the model's FLOPs at the peak" if chosen.part in LOCAL else ALONE
        text += f" It is the largest part {of_all}"
        if chosen.part in LOCAL and total > 1:
            text += f"; no part {ALONE} takes {percent(GROWS)} of the step"
        if bottleneck.reference:
            between = f"{bottleneck.reference.gpus} and {total} accelerators"
            text += f"; no part grows by {percent(GROWS)} of the step or more between {between}"
        text += "."
    largest, local = bottleneck.largest, bottleneck.local
    if largest not in (chosen, local) and bottleneck.reference:
        text += (
            f" The largest part {ALONE} is {largest.name}: "
            f"{percent(largest.share_after)}, and {percent(largest.share_before)} on {bottleneck.reference.gpus}."
        )
    if local is not chosen and local.share_after > chosen.share_after:
        share = percent(local.share_after)
        text += f" More goes to {local.name} ({share}), which a single accelerator has too."
    where = BY_LAYER if any(each.by_layer and chosen.part == "exposed_dp_s" for each in memo.exchanges) else chosen.part
    text += f" To confirm it, profile one step and add up {WHERE[where]}. The prediction is {seconds}."
    kind = "" if chosen is largest else " of scaling"
    return f"Most likely bottleneck{kind}: {chosen.name}", text


def _numbers(memo: Memo) -> str:
    """What to report: one number, or two where fewer accelerators hold a plan."""
    mfu = f"MFU, predicted {percent(memo.best.mfu)}"
    if memo.smaller is None:
        return f"Report one number: {mfu}. No plan fits on fewer accelerators to measure a speed-up against."
    total = memo.inputs.cluster.num_gpus
    return (
        f"Report two numbers: {mfu}; and the speed-up over the best plan on {accelerators(memo.smaller.gpus)}, "
        f"predicted {memo.speed_up:.3g} with {total / memo.smaller.gpus:.3g} times as many."
    )

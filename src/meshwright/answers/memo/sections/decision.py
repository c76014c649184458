"""Decision: the page to sign: the plan in words, what it takes, its risk, the first change to try, what is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from meshwright.answers.basis.uncertainty import step_time_interval
from meshwright.answers.compare.dropped import recommended_words
from meshwright.answers.compare.training import days_interval, training_on
from meshwright.answers.document.blocks import Block, Bullets, Callout, Heading, Paragraph, Table
from meshwright.answers.launch.baseline import Baseline, beside
from meshwright.answers.launch.unlaunched import unlaunched
from meshwright.answers.memo.bottleneck import GROWS
from meshwright.answers.memo.memo import Memo
from meshwright.answers.memo.sections.mitigation import mitigation_words
from meshwright.answers.memo.sections.risk import risk_words
from meshwright.answers.pace import pace
from meshwright.answers.plans.ties import preferred_words, proven_words, reasons, tied_share
from meshwright.answers.screen import TONES
from meshwright.answers.unfit.nothing_fits import HOPELESS, change_words, remedy_words
from meshwright.answers.words import SIGNATURE, accelerators, in_words, percent, plural, times, told_tokens
from meshwright.cost.estimate import Estimate
from meshwright.units import format_count, format_days, format_gib, format_seconds

IN_WORDS = {
    "kernels_s": "matrix products and attention below peak",
    "uneven_s": "work of the slowest pipeline stage beyond the mean",
}
"""Parts of the step as a sentence has them, of those that tables name shortly."""


def decision(memo: Memo) -> Iterator[Block]:
    """One page: what is recommended, its figures, its risk, the first change to try, and what is asked for."""
    best = memo.best
    yield Heading("Recommendation", 2)
    words = f"{in_words(best.plan, memo.inputs)} In short: `{best.plan}`."
    dropped = recommended_words(memo.inputs)
    title = "Train with this plan" if memo.is_safe else "No plan fits safely; the least risky"
    yield Callout(title, f"{words} {dropped}".rstrip(), TONES[best.verdict])
    if not memo.is_safe:
        yield Paragraph("**What would fit safely:**")
        yield Bullets(tuple(map(remedy_words, memo.ways)) or (HOPELESS,))
    refusal = None if memo.existing else unlaunched(best.plan, memo.inputs)
    if refusal:
        yield Callout("No launch files", refusal.words, "warning")
    yield Table(("", "predicted", "which means"), tuple(_figures(memo)), "lll")
    yield Callout(*risk_words(memo), "warning")
    yield Callout(*mitigation_words(memo), "good")
    yield Heading("Decision asked", 3)
    yield Paragraph(_asked(memo))
    yield Paragraph(SIGNATURE)


@dataclass(frozen=True)
class Cost:
    """What training takes."""

    tokens: float
    days: float
    range_days: tuple[float, float]
    """That eight of ten such runs take."""
    hours: float
    """Of all accelerators together."""
    price: float | None

    @property
    def words(self) -> str:
        """Accelerator-hours, and their price where one is given."""
        price = "" if self.price is None else f", {self.price:,.0f} at the price given"
        return f"{format_count(self.hours)} accelerator-hours{price}"


def cost_of(memo: Memo) -> Cost:
    """Of `told_tokens`."""
    inputs = memo.inputs
    tokens = told_tokens(inputs.job)
    training = training_on(tokens, memo.best, inputs, memo.price)
    span = days_interval(training, memo.best, inputs)
    return Cost(tokens, training.days, span, training.accelerator_hours, training.cost)


def _figures(memo: Memo) -> Iterator[tuple[str, str, str]]:
    best, inputs, cost = memo.best, memo.inputs, cost_of(memo)
    interval, fit = step_time_interval(best, inputs), best.fit
    whole = best.tokens_per_s_per_gpu * inputs.cluster.num_gpus
    yield (
        "step",
        format_seconds(best.step_time_s),
        f"8 in 10 runs like this take {format_seconds(interval.p10)} to {format_seconds(interval.p90)}; "
        f"{format_count(whole)} tokens/s, {percent(best.mfu)} of the dense {inputs.recipe.peak} peak (MFU)",
    )
    yield (
        f"{format_count(cost.tokens)} tokens",
        format_days(cost.days),
        f"8 in 10 take {format_days(*cost.range_days)}; {cost.words}, "
        "without interruptions" + ("" if inputs.job.tokens else "; see `--tokens`"),
    )
    if memo.existing:
        yield _against_today(memo.existing, best)
    yield "speed-up", *_speed_up(memo)
    yield (
        "memory",
        format_gib(fit.needed_bytes),
        f"of {format_gib(fit.visible_bytes)} usable: {best.verdict}, probability of fitting {fit.probability:.0%}",
    )
    yield _limit(memo)
    if equal := equal_plans(memo):
        yield "alternatives", *equal


def _limit(memo: Memo) -> tuple[str, str, str]:
    """The largest part of the step, the largest that one accelerator would not have, and the one that grows most."""
    found = memo.bottleneck
    largest, local = found.largest, found.local
    name, seconds = (
        IN_WORDS.get(largest.part, largest.name),
        format_seconds(largest.share_after * memo.best.step_time_s),
    )
    first, text = largest, f"{name}: {seconds} of the step"
    if largest is local:
        text += f", which one accelerator would need too; nothing else takes {GROWS:.0%} of it"
    elif local.share_after > largest.share_after:
        first, added = local, f"{name} ({percent(largest.share_after)}, {seconds} of the step)"
        text = f"{local.name}, which one accelerator has too; next: {added}"
    if found.grows and found.reference:
        most, grown = found.chosen, f"from {found.reference.gpus} to {accelerators(memo.inputs.cluster.num_gpus)}"
        shares = f"{percent(most.share_before)} of the step before, {percent(most.share_after)} after"
        text += f"; this grows most {grown}" if most is largest else f"; scaling {grown}: {most.name} ({shares})"
    return "limited by", percent(first.share_after), text


def _against_today(existing: Baseline, best: Estimate) -> tuple[str, str, str]:
    """What the plan of the launch file takes; none where it is not priced or does not fit."""
    today = existing.estimate
    step = format_seconds(today.step_time_s) if today and today.verdict.fits else "none"
    return "today's step", step, f"`{existing.plan}` of {existing.launch.path.name}: {beside(existing, best)}"


def _speed_up(memo: Memo) -> tuple[str, str]:
    """Against the best plan on the fewest accelerators that hold one: what can be measured."""
    inputs, smaller = memo.inputs, memo.smaller
    total = inputs.cluster.num_gpus
    if smaller is None and not memo.is_safe:
        return "none", "no plan for this batch fits safely"
    if smaller is None:
        on = "the whole cluster" if memo.scaling.baseline < total else "the baseline, which is the whole cluster"
        return "none", f"a plan for this batch fits safely only on {on}" if total > 1 else "one accelerator"
    faster, more = memo.speed_up, total / smaller.gpus
    text = f"in tokens/s, with {times(more)} the accelerators: from {smaller.gpus}, the fewest that hold a plan safely"
    text = f"{text}, to {total}"
    if memo.saved:
        text += f"; the smaller plan loses more to {memo.saved}"
    return times(faster), text


def equal_plans(memo: Memo) -> tuple[str, str] | None:
    """How many plans predictions cannot tell from the recommended one, why it is this one, and which was published."""
    search, best, fastest = memo.search, memo.best, memo.search.fastest
    proven = [words] if (words := proven_words(search, with_cause=False)) else []
    if fastest is None or search.equal == 1:
        return ("none as fast", proven[0]) if proven else None
    count = plural(search.equal - 1, "other plan")
    within = f"within {tied_share(search):.1%}"
    told = [within if preferred_words(search) else f"{within}, closer than predictions can tell"]
    if fastest.plan == best.plan:
        told.append("this one is the fastest of them")
    else:
        told += [
            f"this one {reasons(best, fastest, memo.inputs)}",
            f"the fastest is {pace(fastest, best)}",
        ]
    return count, "; ".join([*told, *proven])


def _asked(memo: Memo) -> str:
    inputs, cost, fit = memo.inputs, cost_of(memo), memo.best.fit
    who = f"{accelerators(inputs.cluster.num_gpus)} of `{inputs.cluster.accelerator.id}`"
    if not memo.is_safe:
        again = f" Plan again with {change_words(memo.ways[0])}." if memo.ways else ""
        return f"Do not commit {who} to this plan: {fit.probability:.0%} of runs like it fit.{again}"
    interval = step_time_interval(memo.best, inputs)
    per = "" if inputs.job.tokens else f" per {format_count(cost.tokens)} tokens"
    span = f"for {format_days(cost.days)}{per}{'' if cost.price is None else f' ({cost.words})'}"
    return (
        f"Commit {who} to this plan {span}. "
        f"First confirm on twenty steps: at most {format_seconds(interval.p90)} a step (median of the "
        f"last ten) and at most {format_gib(min(fit.most_bytes, fit.visible_bytes))} on the fullest device. If either "
        f"is exceeded, stop and plan again with the measured figures."
    )

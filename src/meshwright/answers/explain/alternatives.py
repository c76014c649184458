"""Alternatives: the best plans other than the explained one, and every single change of it."""

from __future__ import annotations

from typing import Any

from meshwright.answers.document.blocks import Block, Heading, Paragraph, Table
from meshwright.answers.plans.switches import OFF
from meshwright.answers.plans.table import ranking_table
from meshwright.answers.records import priced_plan
from meshwright.answers.screen import verdict_cell
from meshwright.answers.step_parts import why_lost
from meshwright.answers.typed import typed
from meshwright.answers.unfit.rescue import Rescue, rescue, rescue_entry, rescue_section
from meshwright.cost.estimate import Estimate
from meshwright.errors import IllegalPlan, Stopped
from meshwright.search.changes.sensitivity import PricedChange, Sensitivity, sensitivity
from meshwright.search.find import Progress, SearchResult, find
from meshwright.search.plan_space.space import size
from meshwright.search.ranking.rank import rank_key
from meshwright.specs.inputs import Inputs
from meshwright.units import GIB, format_seconds

MOST_PLANS = 1 << 16
"""Plans in a space that is searched for an explanation, which takes a second or so."""
SHOWN = 5
HARDWARE = ("nodes", "network")
"""Changes that no setting makes: they have to be paid for."""
NO_GAIN = 0.0005
"""Of the step time, what is written as 0.0 %."""


def cheap_search(inputs: Inputs, progress: Progress | None = None) -> SearchResult | None:
    """The best plans of a question; None where its space is large, holds no legal plan, or progress stops the search
    before one fits.
    """
    try:
        return find(inputs, top=SHOWN, progress=progress) if size(inputs) <= MOST_PLANS else None
    except (IllegalPlan, Stopped):
        return None


def neighbours(result: SearchResult, estimate: Estimate) -> list[Estimate]:
    """The recommended plan, then the best of every other choice and split as they rank, safe ones first, then the
    fastest; at most five, without the explained one.
    """
    others = [*result.best[:1], *sorted((*result.best[1:], *result.other_splits), key=rank_key)]
    return list({each.plan: each for each in others if each.plan != estimate.plan}.values())[:SHOWN]


def neighbours_section(
    estimate: Estimate, result: SearchResult | None, shown: int = SHOWN, most: int | None = None
) -> tuple[Block, ...]:
    """What the best other plans lose against this one, or gain; shown: how many; most: parts that each names."""
    title = Heading("The best other plans", 3)
    if result is None:
        return title, Paragraph("Not searched here; meshwright plan ranks the plans.")
    ranked = neighbours(result, estimate)
    if not ranked:
        return title, Paragraph("None fits.")
    return title, ranking_table(ranked[:shown], estimate, result.inputs, "against this one", most=most)


def knobs_section(
    estimate: Estimate, inputs: Inputs, priced: Sensitivity, rescued: Rescue | None, shown: int | None = None
) -> tuple[Block, ...]:
    """Every single change that somebody would try, the safe ones first, the fastest first, and by themselves those of
    the hardware; of a plan that is not safe, what would be.

    rescued: what would be safe, which may take searches; shown: how many, of settings alone, that make the plan faster
    or safer or leave more memory free; None: all.
    """
    safe = rescue_section(rescued, inputs)
    if shown == 0:
        return tuple(safe)
    more = [each for each in priced.changes if each.knob in HARDWARE]
    settings = [each for each in priced.changes if each.knob not in HARDWARE and not _exposes(each)]
    named = settings if shown is None else [each for each in settings if _gains(each, estimate)][:shown]
    rows = tuple(_row(each, estimate, inputs) for each in named)
    outside = f", {priced.outside} outside the constraints" if priced.outside else ""
    note = f"Left out: {priced.illegal} not legal, {priced.idle} without effect{outside}."
    if len(rows) < len(settings):
        note = f"{len(rows)} of {len(settings)} changes: safe ones first, the fastest first."
    columns = ("change", "step", "gain", "GiB", "+/- GiB", "verdict")
    tables = [Table(columns, rows, "lrrrrw", caption="What one change would do", note=note)]
    if more and shown is None:
        of_more = tuple(_hardware_row(each, estimate, inputs) for each in more)
        tables.append(
            Table((*columns[:3], "per GPU", *columns[3:]), of_more, "lrrrrrw", caption="What more hardware would do")
        )
    return (*safe, *tables)


def alternatives_entry(estimate: Estimate, inputs: Inputs, result: SearchResult | None) -> dict[str, Any]:
    """Both as they stand in the plan file of `explain`, the other plans where they were searched; of a plan that is not
    safe also what would be.
    """
    priced = sensitivity(estimate, inputs)
    changes = [{"knob": each.knob, "change": each.change, **priced_plan(each.estimate)} for each in priced.changes]
    knobs = {"changes": changes, "illegal": priced.illegal, "idle": priced.idle, "outside": priced.outside}
    parts: dict[str, Any] = {"knobs": knobs} | rescue_entry(rescue(estimate, priced, result), inputs)
    if result is None:
        return parts
    others = [priced_plan(each) | {"lost": why_lost(each, estimate)} for each in neighbours(result, estimate)]
    return parts | {"neighbours": others}


def _gains(each: PricedChange, estimate: Estimate) -> bool:
    """Whether a change makes a plan faster or leaves more memory free by what is written of it, or makes it safer."""
    after = each.estimate
    faster = 1 - after.step_time_s / estimate.step_time_s >= NO_GAIN
    return faster or after.verdict < estimate.verdict or 1 - after.memory.device / estimate.memory.device >= NO_GAIN


def _exposes(each: PricedChange) -> bool:
    """Whether a change does nothing but turn an overlap off, which makes no plan faster or leaner."""
    return each.knob.startswith("overlap.") and each.fields[0].after == OFF


def _hardware_row(each: PricedChange, estimate: Estimate, inputs: Inputs) -> tuple[str, ...]:
    """With the tokens that each GPU makes a second more."""
    row, per_gpu = _row(each, estimate, inputs), each.estimate.tokens_per_s_per_gpu / estimate.tokens_per_s_per_gpu - 1
    return (*row[:3], f"{per_gpu:+z.1%}", *row[3:])


def _row(each: PricedChange, estimate: Estimate, inputs: Inputs) -> tuple[str, ...]:
    after = each.estimate
    gain, more = 1 - after.step_time_s / estimate.step_time_s, after.memory.device - estimate.memory.device
    return (
        typed(each, inputs),
        format_seconds(after.step_time_s),
        f"{gain:+z.1%}",
        f"{after.memory.device / GIB:.1f}",
        f"{more / GIB:+.1f}",
        verdict_cell(after.verdict),
    )
